"""The prompts for language models, as text files that users may copy and edit.

A file has the system message, a line of three dashes, and the user message; `$name` stands for a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from string import Template

PROPOSALS = ("replace_object", "replace_attribute", "replace_relation", "swap", "add", "negate", "free")
READINGS = ("blind", "image")
NAMES = (*PROPOSALS, *READINGS)
FIELDS = {
    **dict.fromkeys(PROPOSALS, frozenset({"caption", "captions", "k"})),
    "blind": frozenset({"a", "b"}),
    "image": frozenset({"text"}),
}
SHIPPED = Path(__file__).parent


@dataclass(frozen=True)
class Prompt:
    """A prompt, and the sha256 of its file."""

    name: str
    system: str
    user: str
    sha256: str

    def filled(self, **values: str) -> tuple[str, str]:
        """The system and the user message with these values in them."""
        return Template(self.system).substitute(values), Template(self.user).substitute(values)


def load(name: str, folder: Path | None = None) -> Prompt:
    """A prompt, from the file `<name>.txt` of `folder` if it is there, else the shipped one.

    Raises ValueError for another name, or a file without the line of dashes or with a field that it cannot have.
    """
    if name not in NAMES:
        raise ValueError(f"prompt must be one of {', '.join(NAMES)}, was: {name}")
    path = SHIPPED / f"{name}.txt"
    if folder is not None:
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: no such folder of prompts")
        path = own if (own := folder / path.name).is_file() else path
    data = path.read_bytes()
    try:
        text = data.decode()
        system, line, user = text.partition("\n---\n")
        if not line:
            raise ValueError("it must have a line of three dashes between system and user message")
        used = {field for part in (system, user) for field in Template(part).get_identifiers()}
        if not used <= FIELDS[name] or not all(Template(part).is_valid() for part in (system, user)):
            raise ValueError(f"its fields must be among {', '.join(sorted(FIELDS[name]))}; $$ is a dollar sign")
    except ValueError as error:
        raise ValueError(f"{path}: is not a prompt: {error}") from None
    return Prompt(name, system.strip(), user.strip(), sha256(data).hexdigest())


def copy_prompts(folder: Path) -> list[Path]:
    """Write the shipped prompts into a folder, to be edited; files that are there stay. Returns those written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in NAMES:
        path = folder / f"{name}.txt"
        if not path.exists():
            path.write_bytes((SHIPPED / path.name).read_bytes())
            written.append(path)
    return written
