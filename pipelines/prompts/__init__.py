"""The prompts for language models, texts to edit: system message, a line `---`, user message with `$name`s."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from string import Template
from typing import NamedTuple

PROPOSALS = ("replace_object", "replace_attribute", "replace_relation", "swap", "add", "negate", "free")
# The fields that each prompt may have
FIELDS = {**dict.fromkeys(PROPOSALS, {"caption", "captions", "k"}), "blind": {"a", "b"}, "image": {"text"}}
SHIPPED = Path(__file__).parent


class FilledPrompt(NamedTuple):
    """The system and the user message of a request."""

    system: str
    user: str


@dataclass(frozen=True)
class Prompt:
    """A prompt, and the sha256 of its file."""

    name: str
    system: str
    user: str
    sha256: str

    def filled(self, **values: str) -> FilledPrompt:
        """The messages with these values in them."""
        return FilledPrompt(Template(self.system).substitute(values), Template(self.user).substitute(values))


def load(name: str, folder: Path | None = None) -> Prompt:
    """A prompt, from the folder if it has one of this name, else the shipped one.

    Args:
        name: a key of FIELDS.
        folder: of the user's prompts, NAME.txt with a line of three dashes between system and user message; None:
            only the shipped prompts.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: the file has no line of dashes, or a field that the prompt does not get.
    """
    if folder is not None and not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder of prompts")
    path = (folder or SHIPPED) / f"{name}.txt"
    data = (path if path.is_file() else SHIPPED / path.name).read_bytes()
    try:
        system, dashes, user = data.decode().partition("\n---\n")
        if not dashes:
            raise ValueError("it must have a line of three dashes between system and user message")
        template = Template(system + user)
        if not template.is_valid() or not FIELDS[name].issuperset(template.get_identifiers()):
            raise ValueError(f"its fields must be among {', '.join(sorted(FIELDS[name]))}; $$ is a dollar sign")
    except ValueError as error:
        raise ValueError(f"{path}: is not a prompt: {error}") from None
    return Prompt(name, system.strip(), user.strip(), sha256(data).hexdigest())


def copy_prompts(folder: Path) -> list[Path]:
    """Write the shipped prompts into a folder, to be edited; files that are there stay. Returns those written."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.txt" for name in FIELDS]
    missing = [path for path in paths if not path.exists()]
    for path in missing:
        path.write_bytes((SHIPPED / path.name).read_bytes())
    return missing
