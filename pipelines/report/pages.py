"""What the HTML pages share: their style, the script that draws rows, and templates in which every text is escaped."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from typing import NamedTuple

import jinja2
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from .rows import change, pieces, risk_colour, score_texts, visible
from .summary import percent


def page_environment(package: str) -> jinja2.Environment:
    """An environment of the HTML templates in a package and of those beside this module, that escapes all texts."""
    environment = Environment(
        loader=FunctionLoader(lambda name: _read_file(package, name)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {"count": "{:,}".format, "percent": percent, "spoken": spoken, "change": change}
    environment.filters |= {"scores": score_texts, "risk": risk_colour, "typeset": typeset}
    environment.globals["pieces"] = pieces
    return environment


def _read_file(package: str, name: str) -> str:
    """The text of a file of a package, or of this one if the package lacks it. Raises FileNotFoundError."""
    for folder in (files(package), files(__package__)):
        file = folder.joinpath(name)
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise FileNotFoundError(f"neither {package} nor {__package__} has the file {name}")


class InlineScript(NamedTuple):
    """A script in a page. source: its hash as the Content-Security-Policy of the page names it, so that no other script
    runs.
    """

    text: Markup
    source: str


def script(package: str, *names: str) -> InlineScript:
    """An inline script made of these files, joined. A file is searched in the package, then beside this module."""
    text = "\n".join(_read_file(package, name) for name in names)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return InlineScript(Markup(text), f"'sha256-{digest}'")


def spoken(reason: object) -> str:
    """A reason code in words: `sibling_says_so` -> `sibling says so`."""
    return str(reason).replace("_", " ")


def typeset(text: str) -> str:
    """A docstring's text with arrows and curly quotes: `"a dog" -> "a cat"` becomes `“a dog” → “a cat”`."""
    return re.sub(r'"([^"]*)"', r"“\1”", text).replace("->", "→")
