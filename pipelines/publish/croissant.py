"""Croissant 1.0 metadata (http://mlcommons.org/croissant/1.0): croissant.json beside the published files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from .facts import Facts
from .output import File
from .publication import Column, FileSet, RecordSet

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
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
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


def write_croissant(file: Path, facts: Facts) -> None:
    """Write the metadata of a published set as indented JSON."""
    file.write_text(json.dumps(croissant(facts), indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


def croissant(facts: Facts) -> dict[str, Any]:
    """The metadata as JSON-LD: the files with their digests, and the record sets with their fields.

    url, creator, datePublished and citeAs are included if the config has them.
    """
    config = facts.config
    given: dict[str, Any] = {"url": config.url, "datePublished": config.date, "citeAs": config.cite}
    if config.creator:
        given["creator"] = {"@type": "sc:Organization", "name": config.creator}
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": facts.name,
        "description": facts.description,
        "license": config.license,
        **{key: value for key, value in given.items() if value},
        **({"rai:dataBiases": facts.biases} if facts.biases else {}),
        "version": "1.0.0",
        "inLanguage": "en",
        "keywords": ["image captions", "hard negatives", "vision-language", "image-text retrieval"],
        "distribution": list(distribution(facts)),
        "recordSet": [record_set(record) for record in facts.records],
    }


def distribution(facts: Facts) -> Iterator[dict[str, Any]]:
    """One FileObject per file, except the files of file sets with `listed=False`; then one FileSet per file set."""
    sets = [(identifier(record), record.files) for record in facts.records if record.files is not None]
    unlisted = [files.pattern for _, files in sets if not files.listed]
    for item in facts.files:
        if not any(fnmatch(item.path, pattern) for pattern in unlisted):
            yield file_object(item)
    for name, files in sets:
        yield file_set(name, files, facts)


def file_object(item: File) -> dict[str, Any]:
    """The FileObject of one file, with its size and digest."""
    return {
        "@type": "cr:FileObject",
        "@id": item.path,
        "name": item.path,
        "contentUrl": item.path,
        "contentSize": f"{item.size} B",
        "encodingFormat": encoding(item.path),
        "sha256": item.sha256,
    }


def file_set(name: str, files: FileSet, facts: Facts) -> dict[str, Any]:
    """The FileSet of a record set: its files as a glob pattern, with their media types.

    For files inside archives, the media type follows from the suffix of the pattern.
    """
    inside = [encoding(item.path) for item in facts.files if fnmatch(item.path, files.pattern)]
    return {
        "@type": "cr:FileSet",
        "@id": f"{name}-files",
        "name": f"{name}-files",
        "encodingFormat": sorted(set(inside)) or encoding(files.pattern),
        "includes": files.pattern,
        **({"containedIn": [{"@id": archive} for archive in files.archives]} if files.archives else {}),
    }


def encoding(path: str) -> str:
    """The media type for a path, from its suffix; `application/octet-stream` if it is unknown."""
    return ENCODINGS.get(PurePosixPath(path).suffix.lower(), "application/octet-stream")


def identifier(record: RecordSet) -> str:
    """The id of a record set: `train-noun` for the file `train/noun.json`."""
    name = record.name if record.files is not None else PurePosixPath(record.name).with_suffix("").as_posix()
    return name.replace("/", "-")


def record_set(record: RecordSet) -> dict[str, Any]:
    """The RecordSet in JSON-LD, with one field per column."""
    name = identifier(record)
    source = {"fileObject": {"@id": record.name}}
    if record.files is not None:
        source = {"fileSet": {"@id": f"{name}-files"}}
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": record.description,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column.name}",
                "name": f"{name}/{column.name}",
                "description": column.description,
                "dataType": column.type,
                **({"repeated": True} if column.repeated else {}),
                "source": {**source, **extraction(column)},
            }
            for column in record.columns
        ],
    }


def extraction(column: Column) -> dict[str, Any]:
    """The `extract` and `transform` of a field: where its value is in the file, and which part of it is used."""
    found = {"column": column.name}
    if column.path:
        found = {"jsonPath": column.path}
    elif column.property:
        found = {"fileProperty": column.property}
    taken = {key: value for key, value in (("jsonPath", column.member), ("regex", column.regex)) if value}
    return {"extract": found, **({"transform": taken} if taken else {})}
