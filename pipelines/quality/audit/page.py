"""The page of an audit: HTML by a template, every text of the run escaped; no script, nothing fetched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from negcap.pipelines.quality.audit import charts
from negcap.pipelines.quality.audit.blindness import ALL, Blindness
from negcap.pipelines.quality.audit.figures import BINS, Figures, Made
from negcap.pipelines.quality.audit.words import Use, Word, exchanges, uses
from negcap.pipelines.quality.strata import Row, Stratum
from negcap.pipelines.report.rows import change, pieces, visible
from negcap.schemas.negatives import POSITIVE

if TYPE_CHECKING:
    from negcap.pipelines.quality.audit.audit import AuditConfig
    from negcap.pipelines.quality.bias import BlindReport

TOP = 12
WORDS = 40
REASONS = {
    "related_in_caption": "the new word is the same as, above or below a noun of the caption in WordNet",
    "related_in_sibling": "the new word is the same as, above or below a noun of another caption of the image",
    "overlap_in_caption": "the new word may name the same thing as a noun of the caption",
    "overlap_in_sibling": "the new word may name the same thing as a noun of another caption of the image",
    "same_quantity": "both quantities say the same",
    "sibling_quantity": "another caption of the image gives the new quantity",
    "preposition_overlap": "both prepositions can hold at the same time",
    "interchangeable": "the exchange says the same again",
    "dangling_pronoun": "a pronoun would be left without what it stands for",
    "ungrammatical": "the sentence cannot be put right around the change",
    "unchanged": "the change changes nothing",
    "caption_says_so": "the caption itself makes it true",
    "sibling_says_so": "another caption of the image makes it true",
    "likely_true": "the image's captions make it too likely to be true",
}


class Samples(NamedTuple):
    """Rows to show: by operator, by operator and reason, and the positive controls by operator."""

    made: Mapping[str, Sequence[Row]]
    refused: Mapping[Stratum, Sequence[Row]]
    positives: Mapping[str, Sequence[Row]]


@dataclass(frozen=True)
class Section:
    """What the page says of one operator; `number` names it in the style sheet."""

    number: int
    name: str
    family: str
    says: str
    made: Made
    refined: Made | None
    reports: Mapping[str, BlindReport]
    plots: Sequence[tuple[str, charts.Chart]]
    words: Sequence[Use]
    exchanges: Sequence[tuple[str, str, int, int]]
    rows: Sequence[Row]
    refused: Mapping[str, Sequence[Row]]
    reasons: Mapping[str, int]

    @property
    def mean_p_true(self) -> float | None:
        """The mean estimate that its rows are true of the image after all, where they have one."""
        total, number = self.made.p_true
        return total / number if number else None


def page(
    figures: Figures,
    blindness: Mapping[str, Blindness],
    corpus: Mapping[Word, int],
    samples: Samples,
    facts: Sequence[str],
    provenance: Mapping[str, str],
    shown: str,
    config: AuditConfig,
) -> str:
    """The whole page. Nothing in it depends on when or where it is made."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(lambda name: files(__package__).joinpath(name).read_text(encoding="utf-8")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters |= {"count": "{:,}".format, "percent": percent, "spoken": spoken, "change": change}
    environment.globals |= {"pieces": pieces, "accuracy": charts.accuracy}
    return environment.get_template("page.html.jinja").render(
        figures=figures,
        sections=sections(figures, blindness, corpus, samples, shown),
        blindness=blindness,
        controls=controls(figures, samples),
        reasons=figures.reasons,
        meaning=REASONS,
        facts=facts,
        provenance=provenance,
        shown=shown,
        config=config,
        worst=worst(blindness.get("refined") or blindness.get("negatives")),
        all=ALL,
        limits=charts.LIMITS,
    )


def sections(
    figures: Figures,
    blindness: Mapping[str, Blindness],
    corpus: Mapping[Word, int],
    samples: Samples,
    shown: str,
) -> list[Section]:
    """What there is to say of every operator that makes negatives."""
    found: list[Section] = []
    for name, family in figures.families.items():
        if family == POSITIVE:
            continue
        made = figures.made[shown].get(name, Made(family))
        plots = []
        if made.captions:
            plots = [
                ("Length", charts.lengths(made.words_caption, made.words_negative)),
                ("Change of length", charts.added(made.added)),
                ("Where the edits stand", charts.positions(made.positions, BINS)),
            ]
        used = uses(made.words, corpus)
        drawn = charts.words(used)
        if drawn is not None:
            plots.append(("Words put in ● and taken out ○, by their count in the corpus", drawn))
        reports = {table: b.reports[name] for table, b in blindness.items() if name in b.reports}
        refused = {reason: rows for (operator, reason), rows in samples.refused.items() if operator == name}
        order = figures.refused.get(name, {})
        found.append(
            Section(
                number=len(found),
                name=name,
                family=family,
                says=description(name),
                made=made,
                refined=figures.made["refined"].get(name) if "refined" in figures.made else None,
                reports=reports,
                plots=plots,
                words=used[:WORDS],
                exchanges=exchanges(made.words, TOP),
                rows=samples.made.get(name, ()),
                refused={reason: refused[reason] for reason in order if reason in refused},
                reasons=order,
            )
        )
    return found


def description(operator: str) -> str:
    """What an operator does, in the first sentence of its own documentation; empty for one that is not known."""
    from negcap.augment.operators import OPERATORS

    said = (OPERATORS[operator].propose.__doc__ or "") if operator in OPERATORS else ""
    return " ".join(said.split("\n\n")[0].split())


def controls(figures: Figures, samples: Samples) -> dict[str, tuple[Made, Sequence[Row]]]:
    """The operators that make positives, with what they made and a sample."""
    made = figures.made.get("positives", {})
    return {name: (made[name], samples.positives.get(name, ())) for name in made}


def worst(blindness: Blindness | None) -> tuple[str, str, float] | None:
    """The operator and baseline furthest from chance; None where nothing was measured."""
    told = [
        (name, baseline, value.percent)
        for name, report in (blindness.reports.items() if blindness else ())
        for baseline, value in report.baselines.items()
    ]
    return max(told, key=lambda entry: abs(entry[2] - 50)) if told else None


def percent(part: float, whole: float) -> str:
    """A share: 97.3 %; a dash of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def spoken(reason: Any) -> str:
    """A reason in words: `sibling_says_so` -> `sibling says so`."""
    return str(reason).replace("_", " ")
