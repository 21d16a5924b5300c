"""The README and the documentation as a reader follows them: commands, snippets, what they print."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "pages"
PAGES = [ROOT / "README.md", *sorted(FOLDER.rglob("*.md"))]
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>\w+)(?:: (?P<how>[^\n]+))? -->\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, where it begins, and the comment before it."""

    kind: str
    text: str
    start: int
    mark: str
    how: str


def name_of(page: Path) -> str:
    """`docs/pages/index.md`."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = BLOCK.finditer(page.read_text("utf-8"))
    return [Block(m["kind"], m["text"], m.start("text"), m["mark"] or "", m["how"] or "") for m in found]


def snippet_with(part: str, page: Path) -> SimpleNamespace:
    """What the snippet of a page that has this part defines."""
    (code,) = (block.text for block in blocks(page) if part in block.text)
    names: dict[str, Any] = {}
    exec(compile(code, str(page), "exec"), names)
    return SimpleNamespace(**names)


def commands(text: str) -> list[tuple[str, str]]:
    """The command lines of a console block, each with the output that follows it."""
    parts = re.split(r"^\$ ", text, flags=re.M)[1:]
    return [(line, output.strip("\n")) for line, _, output in (part.partition("\n") for part in parts)]


def arguments(line: str) -> list[str]:
    """The words of a command line up to a pipe, without its comment."""
    words = shlex.split(line, comments=True)
    return words[: words.index("|")] if "|" in words else words
