"""VSE-C's tables about words beside those measured: image to word, fill in the blank, saliency."""

from __future__ import annotations

from ..markdown import format_difference, markdown_table
from . import published
from .plan import Settings, named
from .published import TITLES
from .results import read_metrics, read_probe


def words_table(settings: Settings) -> str:
    """VSE-C's Table 6: MAP, with its interval over images."""
    found, paper = read_probe(settings, "words"), published.VSE_C_WORDS
    rows = [
        [
            TITLES.get(name, name),
            f"{paper[name]:g}" if name in paper else "",
            "{:.1f} ({:.1f}–{:.1f})".format(found[name]["MAP"], *found[name]["interval"]) if name in found else "",
        ]
        for name in [*paper, *(name for name in found if name not in paper)]
    ]
    return markdown_table(["MAP", "reported", "measured"], rows)


def blanks_table(settings: Settings) -> str:
    """VSE-C's Table 7."""
    found, kinds = read_probe(settings, "blanks"), ("noun", "preposition", "both")
    rows = [
        [f"{TITLES[name]}, reported", *(f"{value:g}" for value in values)]
        for name, values in published.VSE_C_BLANKS.items()
    ]
    for name, row in found.items():
        rows.append([TITLES.get(name, name), *(f"{row[kind][top]:.1f}" for kind in kinds for top in ("R@1", "R@10"))])
    return markdown_table(["", *(f"{kind} {top}" for kind in kinds for top in ("R@1", "R@10"))], rows)


def saliency_table(settings: Settings) -> str:
    """VSE-C's Figure 2 as a measure: the share of the saliency on edited words, by operator."""
    found = {name: read_metrics(settings, named(name, "house", 0), "saliency") for name in ("vse++", "vse-c")}
    made = {name: metrics for name, metrics in found.items() if metrics}
    operators = sorted({operator for metrics in made.values() for operator in metrics})
    rows = []
    for operator in operators:
        row = [f"`{operator}`", f"{next(iter(made.values()))[operator]['chance']:.1f}"]
        for name in ("vse++", "vse-c"):
            values = made.get(name, {}).get(operator)
            row.append(
                f"{values['share']:.1f}, {format_difference(values['beyond chance'], values['beyond chance interval'])}"
                if values
                else ""
            )
        rows.append(row)
    return markdown_table(["", "words edited, %", "VSE++: share, difference", "VSE-C: share, difference"], rows)
