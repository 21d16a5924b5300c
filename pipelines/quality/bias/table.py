"""Blind reports as Markdown, as plain text with the words and n-grams that identify negatives, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from negcap.pipelines.quality.aligned import aligned
from negcap.pipelines.quality.bias.report import BlindReport


def to_markdown(reports: Sequence[BlindReport]) -> str:
    """A Markdown table of the accuracies (%) with their 95 % intervals, one row per report; "" for no reports."""
    if not reports:
        return ""
    names = list(reports[0].baselines)
    lines = [f"| operator | pairs | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for report in reports:
        cells = [f"{a.percent:.1f} ({a.low:.1f}–{a.high:.1f})" for a in report.baselines.values()]
        lines.append(f"| {report.name} | {report.ngrams.pairs:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def to_text(reports: Sequence[BlindReport]) -> str:
    """A table of the accuracies, then for every report the words and n-grams that identify negatives.

    Words have counts (only in the true text : only in the negative), n-grams have regression weights.
    """
    if not reports:
        return ""
    rows = [["blind accuracy, %", "pairs", *reports[0].baselines]]
    for report in reports:
        cells = [f"{a.percent:.1f} ±{(a.high - a.low) / 2:.1f}" for a in report.baselines.values()]
        rows.append([report.name, f"{report.ngrams.pairs:,}", *cells])
    lines = aligned(rows)
    for report in reports:
        lines += ["", *_cues(report)]
    return "\n".join(lines)


def _cues(report: BlindReport) -> Iterator[str]:
    """Three lines with the words and n-grams that identify an operator's negatives."""
    found = ", ".join(f"{cue.word} {cue.true:,}:{cue.negative:,}" for cue in report.words)
    yield f"{report.name}: words only in the true text : only in the negative: {found or 'none significantly'}"
    for side, cues in (("true", report.true_cues), ("false", report.false_cues)):
        found = ", ".join(f"{gram!r} {weight:+.1f}" for gram, weight in cues)
        yield f"{report.name}: n-grams that speak for the {side} text: {found or 'none'}"


def to_json(reports: Sequence[BlindReport]) -> str:
    """The reports as a JSON object by their name."""
    return json.dumps({report.name: asdict(report) for report in reports}, indent=1, ensure_ascii=False)
