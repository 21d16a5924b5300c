"""Make the pictures of the pages anew, from a run of the embedded sample: `make pictures`.

The README's shows the captions of one image, negatives made of them, and candidates rejected, as the run has them.
The other is a screenshot of the demo, for which Chromium has to be on the PATH.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from threading import Thread
from typing import Any
from xml.sax.saxutils import escape

import pandas as pd

FOLDER = Path(__file__).parent / "pages" / "assets"
IMAGE = "sample_0065"
MADE = (  # operator, replacement, beginning of the caption
    ("noun", "cat", "A black dog"),
    ("numeral", "three", "Two sleepy dogs"),
    ("preposition", "behind", "A pair of dogs"),
    ("noun", "grass", "There are two dogs"),
)
REFUSED = (
    ("numeral", "three", "A black dog", "another caption says a pair of dogs"),
    ("shuffle", "a | two", "Two sleepy dogs", "raters would find it odd"),
    ("noun", "sidewalk", "There are two dogs", "a couch may stand on a sidewalk"),
)
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
WIDTH, LEFT, SENTENCE, LINE, CHARACTERS = 672, 24, 142, 23, 57
COLOURS = ("card", "edge", "text", "quiet", "out", "in", "tag", "on_tag")
THEMES = {
    "light": ("#ffffff", "#d0d7de", "#1f2328", "#656d76", "#b42318", "#116329", "#ddeaf4", "#1f3a4d"),
    "dark": ("#0d1117", "#30363d", "#e6edf3", "#8d96a0", "#ff8a80", "#7ee787", "#1c3347", "#b7d9f0"),
}


def chosen(run: Path) -> tuple[list[str], list[dict[str, Any]], list[tuple[dict[str, Any], str]]]:
    """The captions, the negatives and the refusals with their explanations. Raises ValueError if a row is missing."""
    tables = {
        name: pd.read_parquet(run / name, filters=[("image_id", "=", IMAGE)])
        for name in ("captions", "negatives", "rejections")
    }

    def row(table: str, operator: str, replacement: str, caption: str) -> dict[str, Any]:
        rows = tables[table]
        rows = rows[(rows.operator == operator) & (rows.replacement == replacement)]
        found = rows[rows.caption.str.startswith(caption)]
        if found.empty:
            raise ValueError(f"{run}: {table} must hold {operator} -> {replacement} of {IMAGE}, has none")
        return found.iloc[0].to_dict()

    refused = [(row("rejections", *which), why) for *which, why in REFUSED]
    return tables["captions"].text.tolist(), [row("negatives", *which) for which in MADE], refused


def words(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The words of a caption and of its negative, each as kept, out or in; neighbouring edits are shown as one."""
    caption, at = row["caption"], 0
    edits: list[tuple[int, int, str]] = []
    for edit in row["edits"]:
        start, end, new = edit["start"], edit["end"], edit["new"]
        if edits and caption[edits[-1][1] : start] == " ":
            before, _, first = edits.pop()
            start, new = before, f"{first} {new}"
        edits.append((start, end, new))
    for start, end, new in edits:
        for style, text in (("kept", caption[at:start]), ("out", caption[start:end]), ("in", new)):
            yield from ((word, style) for word in text.split())
        at = end
    yield from ((word, "kept") for word in caption[at:].split())


def lines(row: dict[str, Any]) -> list[list[tuple[str, str]]]:
    """The same, broken into lines of about equal length, at most CHARACTERS."""
    broken: list[list[tuple[str, str]]] = [[]]
    length = sum(len(word) + 1 for word, _ in words(row))
    most = min(CHARACTERS, length // -(-length // CHARACTERS) + 8)
    for word, style in words(row):
        if sum(len(w) + 1 for w, _ in broken[-1]) + len(word) > most:
            broken.append([])
        broken[-1].append((word, style))
    return broken


def draw(run: Path, theme: str) -> str:
    """The picture as SVG."""
    colour = dict(zip(COLOURS, THEMES[theme], strict=True))
    styles = {
        "kept": "",
        "out": f' fill="{colour["out"]}" text-decoration="line-through"',
        "in": f' fill="{colour["in"]}" font-weight="700"',
    }
    captions, negatives, refused = chosen(run)
    parts: list[str] = []
    y = 6

    def line(text: str, x: int, style: str = "") -> None:
        parts.append(f'<text x="{x}" y="{y}"{style}>{text}</text>')

    def head(text: str) -> None:
        nonlocal y
        y += 34
        line(text, LEFT, f' font-size="12.5" font-weight="600" letter-spacing=".6" fill="{colour["quiet"]}"')

    def sentence(row: dict[str, Any], style: str = "") -> None:
        nonlocal y
        y += 8
        for number, broken in enumerate(lines(row)):
            y += LINE
            if not number:
                parts.append(f'<rect x="{LEFT}" y="{y - 16}" width="102" height="22" rx="11" fill="{colour["tag"]}"/>')
                line(row["operator"], LEFT + 51, f' font-size="13.5" text-anchor="middle" fill="{colour["on_tag"]}"')
            runs = [(kind, " ".join(word for word, _ in of)) for kind, of in groupby(broken, key=lambda part: part[1])]
            text = " ".join(f"<tspan{styles[kind]}>{escape(text)}</tspan>" for kind, text in runs)
            line(text.replace(" <tspan>.</tspan>", "<tspan>.</tspan>"), SENTENCE, style)

    head("THE CAPTIONS OF AN IMAGE")
    for caption in captions:
        y += LINE + 2
        line(escape(caption), LEFT)
    head("NEGATIVES: FALSE OF THE IMAGE, AND FLUENT")
    for row in negatives:
        sentence(row)
    head("REJECTED, WITH THE REASON")
    for row, why in refused:
        sentence(row, ' opacity=".85"')
        y += 19
        line(escape(f"{row['reason']}: {why}"), SENTENCE, f' font-size="13" fill="{colour["quiet"]}"')
    height = y + 24
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"',
            f'  font-family="{FONT}" font-size="16" fill="{colour["text"]}">',
            "<title>The captions of an image, negatives made of them, and candidates rejected</title>",
            f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="12"',
            f'  fill="{colour["card"]}" stroke="{colour["edge"]}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def photograph_demo(path: Path) -> None:
    """Write a screenshot of the demo with the negatives of its example. Raises FileNotFoundError without Chromium."""
    from PIL import Image

    from negcap.pipelines.demo.server import Demo

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise FileNotFoundError("a picture of the demo needs chromium on the PATH (Debian: apt-get install chromium)")
    with Demo() as server, tempfile.TemporaryDirectory() as profile:
        server.load().join()  # so that the page is answered at once
        Thread(target=server.serve_forever, daemon=True).start()
        # The budget is of the page's clock, which stands still while the server works.
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--hide-scrollbars"]
        options += [f"--user-data-dir={profile}", f"--screenshot={path}", "--window-size=1000,1010"]
        command = [chromium, *options, "--force-device-scale-factor=1.5", server.address]
        subprocess.run(command, check=True, timeout=120, capture_output=True)
        server.shutdown()
    Image.open(path).quantize(256).save(
        path, optimize=True
    )  # half of the bytes; fewer colours change those of the dots


if __name__ == "__main__":
    for theme in THEMES:
        (FOLDER / f"negatives-{theme}.svg").write_text(draw(Path(sys.argv[1]), theme), "utf-8")
    photograph_demo(FOLDER / "demo.png")
