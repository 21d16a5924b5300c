"""The output folder: check that it may be written, replace an earlier publication, and compute digests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from ..engine.places import RemotePath
from ..engine.storage import files_below, move, remove_empty, sha256_file

CARD, CROISSANT, SUMS = "README.md", "croissant.json", "SHA256SUMS"


class File(NamedTuple):
    """A published file: its path in the output folder, its size in bytes and its SHA-256 in hex."""

    path: str
    size: int
    sha256: str


def check_output(output: Path, overwrite: bool) -> None:
    """Raise FileExistsError if `output` is a file, or a folder that is not empty and must not be overwritten."""
    if output.exists() and not output.is_dir():
        raise FileExistsError(f"output must be a folder, was: {output}")
    if output.is_dir() and any(output.iterdir()) and not overwrite:
        raise FileExistsError(
            f"output must be an empty folder, {output} is not (--overwrite replaces what is published there)"
        )


def staging_folder(output: Path) -> Path:
    """A new local folder for what will be moved to `output`: beside it, or a temporary one if that is on a store."""
    if isinstance(output, RemotePath):
        return Path(mkdtemp(prefix="negcap-publish-"))
    output.parent.mkdir(parents=True, exist_ok=True)
    return Path(mkdtemp(prefix=f".{output.name}.", dir=output.parent))


def digests(folder: Path, names: Sequence[str] = ()) -> tuple[File, ...]:
    """Path, size and SHA-256 of every file below a folder, or only of those in `names` if given."""
    paths = [folder / name for name in names] or files_below(folder)
    return tuple(File(path.relative_to(folder).as_posix(), path.stat().st_size, sha256_file(path)) for path in paths)


def move_into_place(staged: Path, output: Path) -> list[str]:
    """Move all files of `staged` to `output` and return their relative paths.

    The files that an earlier publication left in `output` (listed in its SHA256SUMS) are removed first; other files
    stay. Raises ValueError if a link in `output` would lead a file out of it.
    """
    output.mkdir(parents=True, exist_ok=True)
    written = files_below(staged)
    for path in written:
        if not (output / path.relative_to(staged)).resolve().is_relative_to(output):
            raise ValueError(f"{output / path.relative_to(staged)} leads out of the output folder: remove the link")
    sums, emptied = output / SUMS, set[Path]()
    if sums.is_file():
        listed = [line.partition("  ")[2] for line in sums.read_text(encoding="utf-8").splitlines()]
        for name in (*listed, CARD, CROISSANT, SUMS):
            old = output / name
            if name and old.is_file() and old.resolve().is_relative_to(output):
                old.unlink()
                emptied |= {folder for folder in old.relative_to(output).parents if folder.name}
    for path in written:
        move(path, output / path.relative_to(staged))
    for folder in sorted((output / folder for folder in emptied), reverse=True):
        remove_empty(folder)
    return [path.relative_to(staged).as_posix() for path in written]
