"""Draw the README's picture from a run of the embedded sample: `python docs/picture.py outputs/sample`.

It shows the captions of one image, negatives made of them, and candidates refused, as the run has them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pandas as pd

FOLDER = Path(__file__).parent / "pages" / "assets"
IMAGE = "sample_0042"
MADE = (
    ("noun", "horse", "Three dogs in red"),
    ("numeral", "a", "A man rides"),
    ("preposition", "under", "Three husky dogs"),
    ("shuffle", "dog | man", "A man rides"),
)
REFUSED = (
    ("noun", "people", "There are tall", "other captions mention a man, and men are people"),
    ("noun", "dog", "A team of dogs", "there is a dog in the image: the caption itself says so"),
)
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
WIDTH, LEFT, LINE, SENTENCE = 820, 28, 30, 146
THEMES = {
    "light": {
        "card": "#ffffff", "edge": "#d0d7de", "text": "#1f2328", "quiet": "#656d76",
        "out": "#b42318", "in": "#116329", "mark": "#dafbe1", "tag": "#ddeaf4", "on_tag": "#1f3a4d",
    },
    "dark": {
        "card": "#0d1117", "edge": "#30363d", "text": "#e6edf3", "quiet": "#8d96a0",
        "out": "#ff8a80", "in": "#7ee787", "mark": "#12361f", "tag": "#1c3347", "on_tag": "#b7d9f0",
    },
}  # fmt: skip


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


def marked(row: dict[str, Any], colours: dict[str, str]) -> str:
    """A caption as SVG text, its edit marked."""
    caption, parts, at = row["caption"], [], 0
    edits: list[tuple[int, int, str]] = []
    for edit in row["edits"]:
        start, end, new = edit["start"], edit["end"], edit["new"]
        if edits and caption[edits[-1][1] : start] == " ":  # neighbours are shown as one
            before, _, words = edits.pop()
            start, new = before, f"{words} {new}"
        edits.append((start, end, new))
    for start, end, new in edits:
        parts.append(escape(caption[at:start]))
        parts.append(
            f'<tspan fill="{colours["out"]}" text-decoration="line-through">{escape(caption[start:end])}</tspan> '
        )
        parts.append(f'<tspan fill="{colours["in"]}" font-weight="700">{escape(new)}</tspan>')
        at = end
    return "".join([*parts, escape(caption[at:])])


def draw(run: Path, theme: str) -> str:
    """The picture as SVG."""
    colours = THEMES[theme]
    captions, negatives, refused = chosen(run)
    parts: list[str] = []
    y = 20

    def head(text: str) -> None:
        nonlocal y
        y += 26
        parts.append(f'<text x="{LEFT}" y="{y}" font-size="13" font-weight="600" fill="{colours["quiet"]}" '
                     f'letter-spacing=".6">{escape(text)}</text>')  # fmt: skip

    def line(text: str, x: int, **style: Any) -> None:
        given = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
        parts.append(f'<text x="{x}" y="{y}"{given}>{text}</text>')

    def tag(name: str) -> None:
        parts.append(f'<rect x="{LEFT}" y="{y - 17}" width="104" height="24" rx="12" fill="{colours["tag"]}"/>')
        parts.append(f'<text x="{LEFT + 52}" y="{y}" font-size="14" text-anchor="middle" fill="{colours["on_tag"]}">'
                     f"{name}</text>")  # fmt: skip

    head("THE CAPTIONS OF AN IMAGE")
    for caption in captions:
        y += LINE - 3
        line(escape(caption), LEFT)
    y += 14
    head("NEGATIVES: FALSE OF THE IMAGE, AND FLUENT")
    for row in negatives:
        y += LINE + 3
        tag(row["operator"])
        line(marked(row, colours), SENTENCE)
    y += 14
    head("REFUSED: MAY BE TRUE")
    for row, why in refused:
        y += LINE + 3
        tag(row["operator"])
        line(marked(row, colours), SENTENCE, opacity=".75")
        y += 21
        line(f"{escape(row['reason'])}: {escape(why)}", SENTENCE, font_size=13.5, fill=colours["quiet"])
    height = y + 28
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'font-family="{FONT}" font-size="16" fill="{colours["text"]}" role="img">',
            "<title>The captions of an image, negatives made of them, and candidates refused</title>",
            f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="12" '
            f'fill="{colours["card"]}" stroke="{colours["edge"]}"/>',
            *parts,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    for theme in THEMES:
        (FOLDER / f"negatives-{theme}.svg").write_text(draw(Path(sys.argv[1]), theme), "utf-8")
