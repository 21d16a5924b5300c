"""What the HTML pages share: their style, the script that draws rows, and templates in which every text is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import jinja2
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from .rows import change, pieces, visible
from .summary import percent


def page_environment(package: str) -> jinja2.Environment:
    """An environment of the HTML templates in a package and of those here, that escapes all texts."""
    environment = Environment(
        loader=FunctionLoader(lambda name: next(_found(package, name))),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {"count": "{:,}".format, "percent": percent, "spoken": spoken, "change": change}
    environment.globals["pieces"] = pieces
    return environment


def _found(package: str, name: str) -> Iterator[str]:
    for place in (package, __package__):
        if (file := files(place).joinpath(name)).is_file():
            yield file.read_text(encoding="utf-8")


def script(package: str, *names: str) -> tuple[Markup, str]:
    """The text of an inline script made of these files, and the source of it that a Content-Security-Policy names."""
    text = "\n".join(next(_found(package, name)) for name in names)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(text), f"'sha256-{digest}'"


def spoken(reason: Any) -> str:
    """A reason code in words: `sibling_says_so` -> `sibling says so`."""
    return str(reason).replace("_", " ")
