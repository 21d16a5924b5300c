"""Measures of a captioner as a Markdown table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COLUMNS = {
    "BLEU-1": "bleu_1",
    "BLEU-2": "bleu_2",
    "BLEU-3": "bleu_3",
    "BLEU-4": "bleu_4",
    "CIDEr-D": "cider_d",
    "distinct-1": "distinct_1",
    "distinct-2": "distinct_2",
    "words": "vocabulary",
    "novel %": "novel",
    "self-BLEU": "self_bleu",
    "D": "discriminator",
    "R@1": "t2i R@1",
    "R@10": "t2i R@10",
    "mean rank": "t2i mean rank",
}


def to_markdown(said: Mapping[str, Any]) -> str:
    """A row a way of writing."""
    rows = said["measures"]
    columns = [title for title, name in COLUMNS.items() if any(name in row for row in rows.values())]

    def shown(name: str, row: Mapping[str, float]) -> str:
        value = row.get(name)
        if value is None:
            return ""
        places = (
            0 if name == "vocabulary" else 3 if name in ("discriminator", "distinct_1", "distinct_2", "cider_d") else 1
        )
        return f"{value:,.{places}f}"

    heading = f"{said['images']:,} images of {said['split']}"
    lines = [f"| {heading} | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
    lines += [
        f"| {way} | " + " | ".join(shown(COLUMNS[title], row) for title in columns) + " |" for way, row in rows.items()
    ]
    return "\n".join(lines)
