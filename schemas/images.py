"""The one rule for the names of images: what is read as a caption's image can be found, copied and published."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_DRIVE = re.compile(r"[a-zA-Z]:")
PATH_RULE = "image must be a path inside the image folder, with / between folders, or a URL"


class ImageFault(NamedTuple):
    """Why a name is no image's: a reason of `captions.RECORD_REASONS`, and the rule with the value that breaks it."""

    reason: str
    detail: str


def image_fault(image: str) -> ImageFault | None:
    """Why `image` is not the relative path of an image, or a URL; None if it is one.

    It must stay inside its folder on every system (no `..`, no backslash, no drive, no `/` or `~` first), and have no
    character that is not seen: only what is printable, or a space of any width, such as those that systems write into
    the names of screenshots.
    """
    if _PLAIN.fullmatch(image) and ".." not in image:
        return None
    # A name of Windows' counts on every system: runs are published, and read elsewhere.
    leaves = ".." in image.split("/") or image[:1] in ("/", "~") or image.lower().startswith("file:")
    if not image or leaves or "\\" in image or _DRIVE.match(image):
        return ImageFault("unsafe_path", f"{PATH_RULE}, was: {image[:200]!r}")
    # By Unicode's class, not by a list: a name that looks like another one but has a character more is not found.
    for character in image:
        if not character.isprintable() and unicodedata.category(character) != "Zs":
            name = unicodedata.name(character, "")
            shown = f"U+{ord(character):04X}{f' ({name.lower()})' if name else ''}"
            rule = "image must have no characters that cannot be seen"
            return ImageFault("control_characters", f"{rule}, has {shown}: {image[:200]!a}")
    return None
