"""The data card: README.md of a published set, written from the template card.md.jinja."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from importlib.resources import files
from pathlib import PurePosixPath
from string import Template
from typing import NamedTuple

import pandas as pd
from jinja2 import Environment, StrictUndefined

from ...augment.operators import PRESETS, UNCHECKED, operator_summary
from ..quality.accuracy import as_cue
from ..quality.bias.baselines import TextPair
from .gate import LEAST_PAIRS, GateVerdict, Leak
from .layout import Column, Json, Publication, RecordSet


class File(NamedTuple):
    """A published file: its path in the output folder, its size in bytes and its SHA-256 in hex."""

    path: str
    size: int
    sha256: str


class Example(NamedTuple):
    """A true text and its negative."""

    true: str
    negative: str


class TruthShares(NamedTuple):
    """The sum of a measure over the negatives that have an estimate, and the number of these negatives."""

    total: float = 0.0
    number: int = 0


class Survey(NamedTuple):
    """What one pass over a publication's rows finds.

    Attributes:
        counts: by split and what is counted ("images", "captions" or an operator's negatives), the number.
        examples: by operator, EXAMPLES true texts and negatives of different images.
        means: by operator and measure, such as p_true, its sum and number.
        pairs: by operator, one per caption, at most as many as the gate measures.
        leaks: by caption_id, the captions that are in the train split, too, or whose images are.
        missing: by caption_id, the path of an image that is not in the image folder.
        unfit: by caption_id, why the name of its image cannot be published.
    """

    counts: Counter[tuple[str, str]]
    examples: Mapping[str, Sequence[Example]]
    means: Mapping[tuple[str, str], TruthShares]
    pairs: Mapping[str, Sequence[TextPair]]
    leaks: Mapping[str, Leak]
    missing: Mapping[str, str]
    unfit: Mapping[str, str]


@dataclass(frozen=True)
class Facts:
    """A published set.

    Attributes:
        publication: what is published, and how.
        found: what a pass over its rows found.
        verdict: of the gate, which measures how well the negatives can be guessed.
        provenance: the metadata of the published table.
        made_with: by table of the build, its settings.
        records, files: the record sets, and the files, that were written.
    """

    publication: Publication
    found: Survey
    verdict: GateVerdict
    provenance: Mapping[str, str]
    made_with: Mapping[str, Json]
    records: tuple[RecordSet, ...]
    files: tuple[File, ...]

    @cached_property
    def table(self) -> pd.DataFrame:
        """The counts: a row per split with captions, columns images, captions, and each operator with negatives."""
        columns = ["images", "captions", *self.publication.operators]
        rows = [[self.found.counts[split, what] for what in columns] for split in self.publication.splits]
        table = pd.DataFrame(rows, self.publication.splits, columns)
        shown_columns = (table.sum() > 0) | table.columns.isin(["images", "captions"])
        return table.loc[table["captions"] > 0, shown_columns]

    @property
    def operators(self) -> list[str]:
        """The operators with at least one published negative."""
        return self.table.columns.drop(["images", "captions"]).tolist()

    @property
    def splits_of(self) -> dict[str, list[str]]:
        """By operator, the splits in which it has published negatives, as the files call them."""
        names = self.publication.split_names
        return {name: [names[split] for split in self.table.index[self.table[name] > 0]] for name in self.operators}

    @property
    def renamed(self) -> dict[str, str]:
        """The splits that have another name in the files than in the run, by the run's name."""
        names = self.publication.split_names
        return {split: names[split] for split in self.table.index if names[split] != split}

    @property
    def name(self) -> str:
        """The name of the set: the one given, or `negcap-FORMAT`."""
        config = self.publication.config
        return config.name or f"negcap-{config.format}"

    @property
    def use(self) -> str:
        """How to read the set, in Markdown: the format's text with the names of a file, split and operator of this set.

        The split is `test`, or the first one if there is no test; the operator is the first with negatives in it.
        """
        split = self.publication.split_names["test" if "test" in self.table.index else self.table.index[0]]
        operator = next((name for name, splits in self.splits_of.items() if split in splits), "")
        # A record set that has `files` is many files with one label, which nobody can open.
        file = next((record.name for record in self.records if record.files is None), "")
        return Template(self.publication.format.use).substitute(file=file, split=split, operator=operator)

    @property
    def preset(self) -> str:
        """The preset whose operators made the negatives of the run; empty if there is none."""
        built = list(self.made_with.get("negatives", {}).get("operators", ()))
        return next((name for name, operators in PRESETS.items() if list(operators) == built), "")

    def mean(self, operator: str, measure: str) -> str:
        """The mean of a measure of an operator's negatives in %, a dash if it is not estimated."""
        estimates = self.found.means[operator, measure]
        return f"{100 * estimates.total / estimates.number:.1f}" if estimates.number else "–"

    @property
    def unchecked(self) -> list[str]:
        """The operators that do not check whether their negatives are false."""
        return [name for name in self.operators if name in UNCHECKED]

    @property
    def description(self) -> str:
        """One sentence that describes the set, with its counts."""
        total = self.table.sum()
        what = f"{total['captions']:,} English captions of {total['images']:,} images"
        if not self.operators:
            return f"{what}, without negatives."
        negatives = total.drop(["images", "captions"]).sum()
        return (
            f"{what} with {negatives:,} negative captions ({', '.join(self.operators)}): sentences made by "
            "editing a caption so that they are false of its image."
        )

    @property
    def making(self) -> list[str]:
        """The source and the settings of the build, one line per stage, as in the card."""
        return [f"{name}: {yaml(values)}" for name, values in self.made_with.items()]

    @property
    def biases(self) -> list[str]:
        """The accuracies (%) of the blind baselines, one line per operator, and why others were not measured."""
        lines = []
        for report in self.verdict.reports:
            accuracies = ", ".join(f"{label} {as_cue(value)}" for label, value in report.baselines.items())
            what = "accuracy in % of models that never see the images (50 is chance)"
            lines.append(f"{report.name}: {what}: {accuracies}")
        lines += [f"{name}: not measured, {reason}" for name, reason in self.verdict.unmeasured.items()]
        return lines


# The most files that the card's table lists; SHA256SUMS has the digests of all.
LISTED = 1000
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
    """What a column holds, and, if the file has no column or key of this name, where it stands."""
    if column.property in ("filename", "fullpath"):
        return f"{column.description}: in the file's name, not in the file"
    path = column.path + (f"[*].{column.member}" if column.member else "")
    # The last word of a JSON path, such as `$[*].caption`, is the key.
    if column.path and re.findall(r"\w+", path)[-1] != column.name:
        return f"{column.description}: at {code(path)}"
    return column.description


def card(facts: Facts) -> str:
    """The data card: description, how to read the set, counts, blind accuracies, provenance and digests."""
    environment = Environment(
        # Markdown, not HTML: `plain` and `code` escape what comes from captions.
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    filters = {"plain": plain, "code": code, "meaning": meaning, "yaml": yaml, "as_cue": as_cue}
    environment.filters |= filters | {"does": operator_summary}
    template = environment.from_string(files(__package__).joinpath("card.md.jinja").read_text(encoding="utf-8"))
    publication = facts.publication
    records: dict[tuple[Column, ...], RecordSet] = {}
    for record in facts.records:  # in order: the first of each kind is shown
        # Files of the same columns are described once: `noun.json` stands for the files of all operators.
        records.setdefault(record.columns, record)
    return template.render(
        facts=facts,
        config=publication.config,
        format=publication.format,
        per_operator=publication.per_operator,
        head=_card_head(facts),
        shown=list(records.values()),
        listed=LISTED,
        least_pairs=LEAST_PAIRS,
    )


def _card_head(facts: Facts) -> Json:
    """The YAML head of the card, as the Hugging Face hub reads it."""
    license = facts.publication.config.license
    head: Json = {"license": "other", "license_name": license}
    if SPDX.fullmatch(license) and license.lower() != "other":
        head = {"license": license.lower()}  # the hub expects lower-case ids
    head |= {"language": ["en"], "pretty_name": facts.name}
    return head | facts.publication.format.card_fields(facts.splits_of)


# Media types by suffix, as Croissant's `encodingFormat` wants them.
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
# The words of Croissant 1.0 that its readers expect to find in the context of the JSON-LD, beside those below.
TERMS = """
    citeAs column equivalentProperty extract field fileProperty fileObject fileSet format includes isLiveDataset
    jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source
    subField transform
""".split()
CONTEXT: Json = {
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


def node(kind: str, id: str, **fields: object) -> Json:
    """A node of Croissant's graph, named by its id."""
    return {"@type": f"cr:{kind}", "@id": id, "name": id, **fields}


def croissant(facts: Facts) -> Json:
    """The Croissant metadata of a published set, as JSON-LD: files with digests, and record sets with fields.

    File sets that are not `listed` are described only by their pattern. url, creator, datePublished and citeAs are
    there if the config has them.
    """
    config = facts.publication.config
    given: Json = {"url": config.url, "datePublished": config.date, "citeAs": config.cite}
    if config.creator:
        given["creator"] = {"@type": "sc:Organization", "name": config.creator}
    given["rai:dataBiases"] = facts.biases
    given["rai:dataManipulationProtocol"] = facts.making
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": facts.name,
        "description": facts.description,
        "license": config.license,
        **{key: value for key, value in given.items() if value},
        "version": "1.0.0",
        "inLanguage": "en",
        "keywords": ["image captions", "hard negatives", "vision-language", "image-text retrieval"],
        "distribution": [*_file_nodes(facts), *_file_set_nodes(facts)],
        "recordSet": [_record_set_node(record) for record in facts.records],
    }


def _file_nodes(facts: Facts) -> list[Json]:
    """A node of Croissant's graph for each published file, with its digest; none for one that only a pattern names."""
    unlisted = [record.files.pattern for record in facts.records if record.files and not record.files.listed]
    nodes = []
    for file in facts.files:
        if not any(fnmatch(file.path, pattern) for pattern in unlisted):
            about = {"contentUrl": file.path, "contentSize": f"{file.size} B", "encodingFormat": encoding(file.path)}
            nodes.append(node("FileObject", file.path, **about, sha256=file.sha256))
    return nodes


def _file_set_nodes(facts: Facts) -> list[Json]:
    """A node of Croissant's graph for each set of files that a pattern names, such as `data/noun/*.parquet`."""
    nodes = []
    for record in facts.records:
        if record.files is None:
            continue
        pattern = record.files.pattern
        encodings = {encoding(file.path) for file in facts.files if fnmatch(file.path, pattern)}
        # Files inside archives are not among the files that were written, so their pattern tells their media type.
        about: Json = {"encodingFormat": sorted(encodings) or encoding(pattern), "includes": pattern}
        if record.files.archives:
            about["containedIn"] = [{"@id": archive} for archive in record.files.archives]
        nodes.append(node("FileSet", f"{identifier(record)}-files", **about))
    return nodes


def encoding(path: str) -> str:
    """The media type for a path, from its suffix; `application/octet-stream` if it is unknown."""
    return ENCODINGS.get(PurePosixPath(path).suffix.lower(), "application/octet-stream")


def identifier(record: RecordSet) -> str:
    """The id of a record set: `train-noun` for the file `train/noun.json`."""
    name = record.name if record.files is not None else PurePosixPath(record.name).with_suffix("").as_posix()
    return name.replace("/", "-")


def _record_set_node(record: RecordSet) -> Json:
    """The node of a record set, with its fields."""
    name = identifier(record)
    fields = [_field_node(name, column, record) for column in record.columns]
    return node("RecordSet", name, description=record.description, field=fields)


def _field_node(record_name: str, column: Column, record: RecordSet) -> Json:
    """A field of Croissant: where in the file it is (`extract`), and which part of that it is (`transform`).

    Args:
        record_name: the identifier of the record set in Croissant.
        column: that the field describes.
        record: the record set, of one file or of many.
    """
    if column.path:
        extract = {"jsonPath": column.path}
    elif column.property:
        extract = {"fileProperty": column.property}
    else:
        extract = {"column": column.name}
    transform = {}
    if column.member:
        transform["jsonPath"] = column.member
    if column.regex:
        transform["regex"] = column.regex
    source: Json = {"fileObject": {"@id": record.name}}
    if record.files:
        source = {"fileSet": {"@id": f"{record_name}-files"}}
    source["extract"] = extract
    if transform:
        source["transform"] = transform
    about: Json = {"description": column.description, "dataType": column.type}
    if column.repeated:
        about["repeated"] = True
    return node("Field", f"{record_name}/{column.name}", **about, source=source)
