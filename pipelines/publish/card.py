"""The data card: README.md of a published set, written from the template card.md.jinja."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from importlib.resources import files
from pathlib import PurePosixPath
from string import Template
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, StrictUndefined

from ...augment.operators import PRESETS, UNCHECKED, does
from ..quality.accuracy import as_cue
from ..quality.bias.baselines import TextPair
from .gate import LEAST_PAIRS, GateVerdict
from .layout import Column, Publication, RecordSet


class File(NamedTuple):
    """A published file: its path in the output folder, its size in bytes and its SHA-256 in hex."""

    path: str
    size: int
    sha256: str


class Survey(NamedTuple):
    """What one pass over a selection found. counts: by (split, "images", "captions" or an operator); examples: by
    operator, EXAMPLES true texts and negatives of different images; means: by operator and ESTIMATES, sum and number;
    pairs: by operator, one per caption, at most as many as the gate measures; leaks: by caption_id, "image" or
    "caption" and its path or text; missing: by caption_id, the path of the image; unfit: by caption_id, why the name of
    its image cannot be published.
    """

    counts: Counter[tuple[str, str]]
    examples: dict[str, list[tuple[str, str]]]
    means: dict[tuple[str, str], tuple[float, int]]
    pairs: dict[str, list[TextPair]]
    leaks: dict[str, tuple[str, str]]
    missing: dict[str, str]
    unfit: dict[str, str]


@dataclass(frozen=True)
class Facts:
    """A published set: what was found in it, the verdict, the source's metadata and settings, what was written."""

    publication: Publication
    found: Survey
    verdict: GateVerdict
    provenance: Mapping[str, str]
    made_with: Mapping[str, Mapping[str, Any]]
    records: tuple[RecordSet, ...]
    files: tuple[File, ...]

    @cached_property
    def table(self) -> pd.DataFrame:
        """The counts: a row per split with captions, columns images, captions, and each operator with negatives."""
        columns = ["images", "captions", *self.publication.operators]
        rows = [[self.found.counts[split, what] for what in columns] for split in self.publication.splits]
        table = pd.DataFrame(rows, self.publication.splits, columns)
        return table.loc[table["captions"] > 0, (table.sum() > 0) | table.columns.isin(["images", "captions"])]

    @property
    def operators(self) -> list[str]:
        """The operators with at least one published negative."""
        return self.table.columns[2:].tolist()

    @property
    def splits_of(self) -> dict[str, list[str]]:
        """By operator, the splits in which it has published negatives, as the files call them."""
        names = self.publication.split_names
        return {name: [names[split] for split in self.table.index[self.table[name] > 0]] for name in self.operators}

    @property
    def renamed(self) -> dict[str, str]:
        """The splits of the run that are called otherwise in the files."""
        names = self.publication.split_names
        return {split: names[split] for split in self.table.index if names[split] != split}

    @property
    def name(self) -> str:
        """The name of the set: the one given, or `negcap-FORMAT`."""
        config = self.publication.config
        return config.name or f"negcap-{config.format}"

    @property
    def use(self) -> str:
        """How to read the set, in Markdown, with the names of an actual file, split and operator of it."""
        split = self.publication.split_names["test" if "test" in self.table.index else self.table.index[0]]
        operator = next((name for name, splits in self.splits_of.items() if split in splits), "")
        file = next((record.name for record in self.records if record.files is None), "")
        return Template(self.publication.format.use).substitute(file=file, split=split, operator=operator)

    @property
    def preset(self) -> str:
        """The preset whose operators made the negatives of the run; empty if there is none."""
        made = list(self.made_with.get("negatives", {}).get("operators", ()))
        return next((name for name, operators in PRESETS.items() if list(operators) == made), "")

    def mean(self, operator: str, measure: str) -> str:
        """The mean of a measure of an operator's negatives in %, a dash if it is not estimated."""
        total, known = self.found.means[operator, measure]
        return f"{100 * total / known:.1f}" if known else "–"

    @property
    def unchecked(self) -> list[str]:
        """Those of the operators that do not check whether their negatives are false."""
        return [name for name in self.operators if name in UNCHECKED]

    @property
    def description(self) -> str:
        """One sentence that describes the set, with its counts."""
        total = self.table.sum()
        what = f"{total['captions']:,} English captions of {total['images']:,} images"
        if not self.operators:
            return f"{what}, without negatives."
        return (
            f"{what} with {total[2:].sum():,} negative captions ({', '.join(self.operators)}): sentences made by "
            "editing a caption so that they are false of its image."
        )

    @property
    def making(self) -> list[str]:
        """The source and the settings of the build, one line per stage, as in the card."""
        return [f"{name}: {yaml(values)}" for name, values in self.made_with.items()]

    @property
    def biases(self) -> list[str]:
        """The accuracies (%) of the blind baselines, one line per operator, and why others were not measured."""
        return [
            f"{report.name}: accuracy in % of models that never see the images (50 is chance): "
            + ", ".join(f"{label} {as_cue(value)}" for label, value in report.baselines.items())
            for report in self.verdict.reports
        ] + [f"{name}: not measured, {reason}" for name, reason in self.verdict.unmeasured.items()]


LISTED = 1000  # most files that the card's table lists; SHA256SUMS has all digests
SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
MARKDOWN = re.compile(r"([\\`*_{}\[\]()|~])")


def plain(text: object) -> str:
    """Escape a text for Markdown, also inside table cells, so that it is shown literally."""
    escaped = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKDOWN.sub(r"\\\1", " ".join(escaped.split()))


def code(text: object) -> str:
    """A text as Markdown code that is safe in a table cell: the bar in `a|b` is escaped, a backtick becomes `'`."""
    return "`" + " ".join(str(text).split()).replace("`", "'").replace("|", "\\|") + "`"


def yaml(value: object) -> str:
    """A value as YAML: its JSON, which is valid YAML."""
    return json.dumps(value, ensure_ascii=False)


def meaning(column: Column) -> str:
    """What a column holds, and where, if no column or key of the file has its name."""
    if column.property in ("filename", "fullpath"):
        return f"{column.description}: in the file's name, not in the file"
    place = column.path + (f"[*].{column.member}" if column.member else "")
    if column.path and re.findall(r"\w+", place)[-1] != column.name:
        return f"{column.description}: at {code(place)}"
    return column.description


def card(facts: Facts) -> str:
    """The data card: description, how to read the set, counts, blind accuracies, provenance and digests."""
    environment = Environment(
        autoescape=False,  # Markdown, not HTML: `plain` and `code` escape what comes from captions
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {"plain": plain, "code": code, "meaning": meaning, "yaml": yaml, "as_cue": as_cue}
    environment.filters["does"] = does
    template = environment.from_string(files(__package__).joinpath("card.md.jinja").read_text(encoding="utf-8"))
    layouts: dict[tuple[Column, ...], RecordSet] = {}
    for record in facts.records:
        layouts.setdefault(record.columns, record)  # `noun.json` stands for the files of all operators
    config = facts.publication.config
    license = config.license
    known = SPDX.fullmatch(license) and license.lower() != "other"  # the Hugging Face hub expects lower-case ids
    head: dict[str, Any] = {"license": license.lower()} if known else {"license": "other", "license_name": license}
    head |= {"language": ["en"], "pretty_name": facts.name}
    head |= facts.publication.format.card_fields(facts.splits_of)
    of = {"config": config, "format": facts.publication.format, "per_operator": facts.publication.per_operator}
    shown = list(layouts.values())
    return template.render(of, facts=facts, head=head, shown=shown, listed=LISTED, least_pairs=LEAST_PAIRS)


ENCODINGS = {
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".txt": "text/plain",
    ".py": "text/x-python",
    ".yaml": "application/yaml",
    ".tar": "application/x-tar",
    ".parquet": "application/x-parquet",
    **{f".{suffix}": f"image/{suffix}" for suffix in ("jpeg", "png", "webp")},
    ".jpg": "image/jpeg",
}
TERMS = """
    citeAs column equivalentProperty extract field fileProperty fileObject fileSet format includes isLiveDataset
    jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source
    subField transform
""".split()
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{term: f"cr:{term}" for term in TERMS},
}


def node(kind: str, id: str, **fields: Any) -> dict[str, Any]:
    """A node of Croissant's graph, named by its id."""
    return {"@type": f"cr:{kind}", "@id": id, "name": id, **fields}


def croissant(facts: Facts) -> dict[str, Any]:
    """The Croissant metadata of a published set, as JSON-LD: files with digests (of file sets not `listed` the
    pattern), record sets with fields; url, creator, datePublished and citeAs if the config has them.
    """
    config = facts.publication.config
    given: dict[str, Any] = {"url": config.url, "datePublished": config.date, "citeAs": config.cite}
    if config.creator:
        given["creator"] = {"@type": "sc:Organization", "name": config.creator}
    unlisted = [record.files.pattern for record in facts.records if record.files and not record.files.listed]
    listed = []
    sets = []
    for file in facts.files:
        if not any(fnmatch(file.path, pattern) for pattern in unlisted):
            of = {"contentUrl": file.path, "contentSize": f"{file.size} B", "encodingFormat": encoding(file.path)}
            listed.append(node("FileObject", file.path, **of, sha256=file.sha256))
    for record in facts.records:
        if record.files is not None:  # media types: inside archives from the suffix
            inside = {encoding(item.path) for item in facts.files if fnmatch(item.path, record.files.pattern)}
            kinds = sorted(inside) or encoding(record.files.pattern)
            archives = [{"@id": archive} for archive in record.files.archives]
            inner = {"includes": record.files.pattern, **({"containedIn": archives} if archives else {})}
            sets.append(node("FileSet", f"{identifier(record)}-files", encodingFormat=kinds, **inner))
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": facts.name,
        "description": facts.description,
        "license": config.license,
        **{key: value for key, value in given.items() if value},
        **({"rai:dataBiases": facts.biases} if facts.biases else {}),
        **({"rai:dataManipulationProtocol": facts.making} if facts.making else {}),
        "version": "1.0.0",
        "inLanguage": "en",
        "keywords": ["image captions", "hard negatives", "vision-language", "image-text retrieval"],
        "distribution": [*listed, *sets],
        "recordSet": [_record_set(record) for record in facts.records],
    }


def encoding(path: str) -> str:
    """The media type for a path, from its suffix; `application/octet-stream` if it is unknown."""
    return ENCODINGS.get(PurePosixPath(path).suffix.lower(), "application/octet-stream")


def identifier(record: RecordSet) -> str:
    """The id of a record set: `train-noun` for the file `train/noun.json`."""
    name = record.name if record.files is not None else PurePosixPath(record.name).with_suffix("").as_posix()
    return name.replace("/", "-")


def _record_set(record: RecordSet) -> dict[str, Any]:
    """The fields of a record set: where in the file each is (`extract`), and which part of that it is (`transform`)."""
    name = identifier(record)
    source = {"fileSet": {"@id": f"{name}-files"}} if record.files else {"fileObject": {"@id": record.name}}
    fields = []
    for column in record.columns:
        found = {"jsonPath": column.path} if column.path else {"column": column.name}
        if column.property and not column.path:
            found = {"fileProperty": column.property}
        taken = {key: value for key, value in (("jsonPath", column.member), ("regex", column.regex)) if value}
        of: dict[str, Any] = {"description": column.description, "dataType": column.type}
        of |= {"repeated": True} if column.repeated else {}
        of |= {"source": {**source, "extract": found, **({"transform": taken} if taken else {})}}
        fields.append(node("Field", f"{name}/{column.name}", **of))
    return node("RecordSet", name, description=record.description, field=fields)
