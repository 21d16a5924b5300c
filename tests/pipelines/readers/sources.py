"""Files of captions as tests write them, by the suffix of their names, and what is read of them."""

import csv
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from negcap.pipelines import readers
from negcap.pipelines.readers import ReadOptions, Record, Rejected
from tests.cases import cases_of

CASES = cases_of(__file__)
TABLES = ("a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet")
Files = Mapping[str, Any]  # name -> bytes or a text as they are; else see `content`


def content(name: str, value: Any) -> bytes:
    """A value as the bytes of a file of this name: rows of a table, a value of JSON, members of an archive by name."""
    if isinstance(value, str | bytes):
        return value.encode() if isinstance(value, str) else value
    kind = name.rpartition(".")[2]
    file = io.BytesIO()
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(value) if isinstance(value, list) else value, file)
    elif kind == "tar":
        with tarfile.open(fileobj=file, mode="w") as tar:
            for member, inside in value.items():
                data = content(member, inside)
                info = tarfile.TarInfo(member)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    elif kind == "jsonl":
        return "\n".join(map(json.dumps, value)).encode()
    elif kind == "json":
        return json.dumps(value).encode()
    else:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(value[0]), delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
        writer.writeheader()
        writer.writerows(value)
        return text.getvalue().encode()
    return file.getvalue()


def put(folder: Path | str, files: Files) -> str:
    """Write files into a folder or below an fsspec URL; the last one's path."""
    path = ""
    for name, value in files.items():
        path = f"{folder}/{name}"
        with fsspec.open(path, "wb", auto_mkdir=True) as file:
            file.write(content(name, value))
    return path


def options_of(columns: str = "", **options: Any) -> ReadOptions:
    """The options that `--columns` and others give."""
    given: dict[str, list[str]] = {}
    for part in filter(None, columns.split(",")):
        role, _, name = part.partition("=")
        given.setdefault(f"{role}_column", []).append(name)
    named = {role: tuple(names) if role == "caption_column" else names[0] for role, names in given.items()}
    return ReadOptions.of({**named, **options})


class Read(NamedTuple):
    """What is read of a source."""

    records: list[Record]
    rejected: list[Rejected]

    @property
    def captions(self) -> list[tuple[str, str]]:
        """The image and text of each record."""
        return [(record.image, record.text) for record in self.records]

    @property
    def reasons(self) -> list[tuple[int, str]]:
        """The line and reason of each record that was rejected."""
        return [(bad.line, bad.reason) for bad in self.rejected]


def read(source: str | Path, format: str = "", columns: str = "", **options: Any) -> Read:
    items = list(readers.read(str(source), format or readers.detect(str(source)), options_of(columns, **options)))
    return Read([r for r in items if isinstance(r, Record)], [r for r in items if isinstance(r, Rejected)])


def filled(value: Any) -> Any:
    """A value of cases.toml with each `$NAME` of a sentence replaced by the sentence."""
    if isinstance(value, str):
        return Template(value).safe_substitute(CASES["sentences"])
    if isinstance(value, dict):
        return {name: filled(inside) for name, inside in value.items()}
    return [filled(item) for item in value]


def check_reading(folder: Path, files: Files, expected: Sequence[str], columns: str = "", format: str = "") -> None:
    """Write files, and read the folder, or the file if it is only one at its top.

    expected: "image: text" for each caption, and the reason of each record that is rejected, as in cases.toml.
    """
    path = put(folder, files)
    source = path if len(files) == 1 and Path(path).parent == folder else folder
    result = read(source, format, columns)
    captions = [f"{image}: {text}" for image, text in result.captions]
    assert captions + [bad.reason for bad in result.rejected] == list(expected)
