"""Numbers and tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def format_interval(value: float, interval: Sequence[float]) -> str:
    """A value with the bounds of its interval, to one decimal: `45.7 (41.2–50.1)`."""
    return f"{value:.1f} ({interval[0]:.1f}–{interval[1]:.1f})"


def format_difference(value: float, interval: Sequence[float]) -> str:
    """A difference with the bounds of its interval, to one decimal: `+5.3 (+2.1 to +8.4)`."""
    return f"{value:+.1f} ({interval[0]:+.1f} to {interval[1]:+.1f})"


def markdown_row(cells: Sequence[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is left-aligned, the others right-aligned."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(markdown_row(line) for line in lines)
