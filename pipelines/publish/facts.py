"""The facts that the data card and the Croissant metadata state about a published set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Template

from ...augment.operators import UNCHECKED
from .config import PublishConfig
from .gate import Verdict
from .output import File
from .publication import Format, Publication, RecordSet


@dataclass(frozen=True)
class Facts:
    """A published set: its options, counts, results of the checks, and the files that were written.

    counts: by (split, what), where what is "captions", "images" or an operator, whose negatives are counted; leaks,
    missing: number of captions left out because they are in the train split too, or because their image file is
    missing; provenance: the Parquet metadata of the source table; records, files: what was written.
    """

    config: PublishConfig
    kind: Format
    publication: Publication
    counts: Counter[tuple[str, str]]
    verdict: Verdict
    leaks: int
    missing: int
    provenance: Mapping[str, str] = field(default_factory=dict)
    records: tuple[RecordSet, ...] = ()
    files: tuple[File, ...] = ()

    @property
    def name(self) -> str:
        """The name of the set: the one given, or `negcap-FORMAT`."""
        return self.config.name or f"negcap-{self.config.format}"

    @property
    def splits(self) -> list[str]:
        """The splits with at least one published caption."""
        return [name for name in self.publication.selection.splits if self.counts[name, "captions"]]

    @property
    def splits_of(self) -> dict[str, list[str]]:
        """By operator, the splits in which it has published negatives."""
        return {name: [split for split in self.splits if self.counts[split, name]] for name in self.operators}

    @property
    def use(self) -> str:
        """How to read the set, in Markdown, with the names of an actual file, split and operator of it."""
        split = "test" if "test" in self.splits else self.splits[0]
        operator = next((name for name, splits in self.splits_of.items() if split in splits), "")
        file = next((record.name for record in self.records if record.files is None), "")
        return Template(self.kind.use).substitute(file=file, split=split, operator=operator)

    @property
    def operators(self) -> list[str]:
        """The operators with at least one published negative."""
        names = self.publication.selection.operators
        return [name for name in names if any(self.counts[split, name] for split in self.splits)]

    @property
    def unchecked(self) -> list[str]:
        """Those of the operators that do not check whether their negatives are false."""
        return [name for name in self.operators if name in UNCHECKED]

    def total(self, what: str) -> int:
        """The count of "captions", "images" or an operator's negatives, over all splits."""
        return sum(self.counts[split, what] for split in self.splits)

    @property
    def negatives(self) -> int:
        """The number of negatives of all operators and splits."""
        return sum(self.total(name) for name in self.operators)

    @property
    def description(self) -> str:
        """One sentence that describes the set, with its counts."""
        what = f"{self.total('captions'):,} English captions of {self.total('images'):,} images"
        if not self.operators:
            return f"{what}, without negatives."
        return (
            f"{what} with {self.negatives:,} negative captions ({', '.join(self.operators)}): sentences made by "
            "editing a caption so that they are false of its image."
        )

    @property
    def biases(self) -> list[str]:
        """The accuracies (%) of the blind baselines, one line per operator, and why others were not measured."""
        return [
            f"{report.name}: accuracy in % of models that never see the images (50 is chance): "
            + ", ".join(f"{label} {value.percent:.1f}" for label, value in report.baselines.items())
            for report in self.verdict.reports
        ] + [f"{name}: not measured, {reason}" for name, reason in self.verdict.unmeasured.items()]
