"""The data card: README.md of what is published, written from a template."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from negcap.pipelines.publish.gate import Verdict
from negcap.pipelines.publish.output import File
from negcap.pipelines.publish.publication import Format, Publication, RecordSet

if TYPE_CHECKING:
    from negcap.pipelines.publish.publish import PublishConfig

LISTED = 1000
SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
MARKDOWN = re.compile(r"([\\`*_{}\[\]()|~])")


@dataclass(frozen=True)
class Facts:
    """All that the card and the metadata tell."""

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
        """The name of the set."""
        return self.config.name or f"negcap-{self.config.format}"

    @property
    def splits(self) -> list[str]:
        """The splits that something is published of."""
        return [name for name in self.publication.selection.splits if self.counts[name, "captions"]]

    @property
    def operators(self) -> list[str]:
        """The operators that something is published of."""
        names = self.publication.selection.operators
        return [name for name in names if any(self.counts[split, name] for split in self.splits)]

    def total(self, what: str) -> int:
        """A count over all splits."""
        return sum(self.counts[split, what] for split in self.splits)

    @property
    def negatives(self) -> int:
        """All negatives."""
        return sum(self.total(name) for name in self.operators)

    @property
    def description(self) -> str:
        """What it is, in a sentence or two."""
        what = f"{self.total('captions'):,} English captions of {self.total('images'):,} images"
        if not self.operators:
            return f"{what}, without negatives."
        return (
            f"{what} with {self.negatives:,} negative captions ({', '.join(self.operators)}): sentences made by "
            "editing a caption so that they are false of its image."
        )

    @property
    def biases(self) -> list[str]:
        """What the blind baselines reach, a line an operator."""
        return [
            f"{report.name}, told without the images in % (50 is perfect): "
            + ", ".join(f"{label} {value.percent:.1f}" for label, value in report.baselines.items())
            for report in self.verdict.reports
        ] + [line for line in self.verdict.lines if "cannot be measured" in line]


def plain(text: object) -> str:
    """A text as Markdown that shows it as it is: no markup, no HTML, no table cell ends."""
    escaped = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKDOWN.sub(r"\\\1", " ".join(escaped.split()))


def code(text: object) -> str:
    """A text as Markdown code that keeps a table cell: `a|b` shows its bar, a backtick becomes an apostrophe."""
    return "`" + " ".join(str(text).split()).replace("`", "'").replace("|", "\\|") + "`"


def yaml(value: object) -> str:
    """A value for YAML: JSON is YAML."""
    return json.dumps(value, ensure_ascii=False)


def license_fields(license: str) -> dict[str, str]:
    """A licence as the hub wants it: an SPDX-like id in lower case, anything else as `other` with its name."""
    if SPDX.fullmatch(license) and license.lower() != "other":
        return {"license": license.lower()}
    return {"license": "other", "license_name": license}


def write_card(file: Path, facts: Facts) -> None:
    """Write the data card."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=False,  # Markdown, not HTML: `plain` and `code` escape what comes from captions
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {"plain": plain, "code": code, "yaml": yaml}
    template = environment.from_string(files(__package__).joinpath("card.md.jinja").read_text(encoding="utf-8"))
    head: dict[str, Any] = {**license_fields(facts.config.license), "language": ["en"], "pretty_name": facts.name}
    head |= facts.kind.front(facts.splits)
    text = template.render(facts=facts, config=facts.config, head=head, listed=LISTED)
    file.write_text(text, encoding="utf-8", newline="\n")
