"""Folders and files that users name: a run may be anywhere that fsspec writes to, other files must be on a disk."""

from __future__ import annotations

import errno
import re
from os import PathLike, fspath
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

from .remote_path import RemotePath

STORES = (
    *("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "oss"),
    *("hdfs", "arrow_hdfs", "webhdfs", "sftp", "ssh", "smb", "memory"),
)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+._-]+):/|.*::")


def place(given: str | PathLike[str], what: str = "path") -> Path:
    """The folder of a run (or of what is published) that a user gave as a path or URL; `what` names it in errors.

    It is a RemotePath, which has the methods of a Path, for a URL of one of STORES, else as `local_path`.
    """
    if isinstance(given, RemotePath):
        return cast(Path, given)
    text = fspath(given)
    url = _URL.match(text)
    if not url or "::" in text or url[1].lower() == "file":
        return local_path(given, what)
    scheme = url[1].lower()
    if scheme not in STORES:
        raise ValueError(f"{what} must be a folder or a URL of {', '.join(STORES)}, was: {text}")
    if urlsplit(text).password or "?" in text:
        raise ValueError(f"{what} must be a {scheme} URL without a password and ?…: fsspec's configuration holds these")
    rest = text[len(scheme) + 1 :]
    host = "default" if rest.startswith("///") and "hdfs" in scheme else ""
    found = RemotePath(f"{scheme}://{host}/{rest.lstrip('/')}")
    if len(found.parts) < 2 or ".." in found.parts:
        raise ValueError(f"{what} must name a folder, was: {text}")
    return cast(Path, found)


def local_path(given: str | PathLike[str], what: str = "path") -> Path:
    """The path that a user gave as a path or as a file:// URL; `what` names it in errors.

    Path("s3://bucket/run") is `s3:/bucket/run`, which counts as that URL, too; a local folder named `s3:` is given as
    `./s3:/run`. Raises ValueError for any other URL, and for a symbolic link that leads to itself.
    """
    text = str(given) if isinstance(given, RemotePath) else fspath(given)
    if not (url := _URL.match(text)):
        return _without_loop(Path(text), what)
    parts = urlsplit(text)
    if url[1] and parts.scheme == "file" and parts.netloc in ("", "localhost") and "::" not in text:
        return _without_loop(Path(unquote(parts.path)), what)
    raise ValueError(f"{what} must be on a local disk, was the URL: {text}")


def _without_loop(path: Path, what: str) -> Path:
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{what} must be no loop of symbolic links, was: {path}") from None
    return path
