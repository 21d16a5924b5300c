"""Blind reports as Markdown, as plain text with the words and n-grams that identify negatives, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ..aligned import aligned, wrapped
from .measure import Blindness, Unmeasured
from .report import BlindReport


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


def to_text(found: Blindness) -> str:
    """A table of the accuracies, then for every operator the words and n-grams that identify its negatives.

    Words have counts (only in the true text : only in the negative), n-grams have regression weights; n-grams are named
    only where the interval of the regression lies above 50 %. Operators without a report have dashes in the table, and
    a line that says why.
    """
    if not found.reports:
        return ""
    first = next(iter(found.reports.values()))
    rows = [["blind accuracy, %", "pairs", *first.baselines]]
    for name, one in found.results.items():
        if isinstance(one, Unmeasured):
            rows.append([name, f"{one.pairs:,}", *("–" for _ in first.baselines)])
        else:
            cells = [f"{a.percent:.1f} ±{(a.high - a.low) / 2:.1f}" for a in one.baselines.values()]
            rows.append([name, f"{one.ngrams.pairs:,}", *cells])
    lines = aligned(rows)
    for name, left in found.unmeasured.items():
        lines += ["", f"{name}: not measured, {left.reason}"]
    for report in found.reports.values():
        lines += ["", *_cues(report)]
    return "\n".join(lines)


def _cues(report: BlindReport) -> Iterator[str]:
    """Lines with the words and n-grams that identify an operator's negatives."""
    words = [f"{cue.word} {cue.true:,}:{cue.negative:,}" for cue in report.words]
    label = f"{report.name}: words only in the true text : only in the negative:"
    yield from wrapped(label, words or ["none significantly"])
    if report.ngrams.low <= 50:
        yield f"{report.name}: n-grams that speak for either text: none, the regression is not above chance"
        return
    for side, cues in (("true", report.true_cues), ("false", report.false_cues)):
        grams = [f"{gram!r} {weight:+.1f}" for gram, weight in cues]
        yield from wrapped(f"{report.name}: n-grams that speak for the {side} text:", grams or ["none"])


def to_json(found: Blindness) -> str:
    """The reports as a JSON object by their name; of those that could not be measured, the reason and the pairs."""
    said = {name: asdict(report) for name, report in found.reports.items()}
    said |= {name: {"not_measured": left.reason, "pairs": left.pairs} for name, left in found.unmeasured.items()}
    return json.dumps(said, indent=1, ensure_ascii=False)
