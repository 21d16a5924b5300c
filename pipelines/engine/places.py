"""Folders and files that users name: all but the captions must be on a disk that this machine sees."""

from __future__ import annotations

import re
from os import PathLike, fspath
from pathlib import Path
from urllib.parse import unquote, urlsplit

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/|.*::")


def local_path(given: str | PathLike[str], what: str = "path") -> Path:
    """The path that a user gave as a path or as a file:// URL; `what` names it in errors.

    Path("s3://bucket/run") is `s3:/bucket/run`, which counts as that URL, too; a local folder named `s3:` is given as
    `./s3:/run`. Raises ValueError for any other URL.
    """
    text = fspath(given)
    if not (url := _URL.match(text)):
        return Path(text)
    parts = urlsplit(text)
    if url[1] and parts.scheme == "file" and parts.netloc in ("", "localhost") and "::" not in text:
        return Path(unquote(parts.path))
    raise ValueError(f"{what} must be on a local disk, was the URL: {text}")
