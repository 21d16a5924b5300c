"""The measures of a captioner as a Markdown table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..markdown import markdown_table

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


DECIMALS = {"vocabulary": 0, "discriminator": 3, "distinct_1": 3, "distinct_2": 3, "cider_d": 3}  # all others: 1


def to_markdown(result: Mapping[str, Any]) -> str:
    """One row for human captions and per way of writing, one column per measure that any of them has."""
    measures = result["measures"]
    columns = {title: name for title, name in COLUMNS.items() if any(name in row for row in measures.values())}
    rows = [[writer, *(_cell(name, row) for name in columns.values())] for writer, row in measures.items()]
    return markdown_table([f"{result['images']:,} images of {result['split']}", *columns], rows)


def _cell(name: str, row: Mapping[str, float]) -> str:
    return f"{row[name]:,.{DECIMALS.get(name, 1)}f}" if name in row else ""
