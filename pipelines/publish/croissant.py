"""Croissant 1.0 metadata (http://mlcommons.org/croissant/1.0): croissant.json beside the published files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from negcap.pipelines.publish.card import Facts
from negcap.pipelines.publish.publication import RecordSet

ENCODINGS = {
    ".json": "application/json",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".txt": "text/plain",
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
    """Write the metadata of the published files: each with its digest, and the records in it with their columns."""
    file.write_text(json.dumps(croissant(facts), indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


def croissant(facts: Facts) -> dict[str, Any]:
    """The metadata as JSON-LD. A url, creator and date stand there where they were given."""
    config = facts.config
    said: dict[str, Any] = {"url": config.url, "datePublished": config.date, "citeAs": config.cite}
    if config.creator:
        said["creator"] = {"@type": "sc:Organization", "name": config.creator}
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": facts.name,
        "description": facts.description,
        "license": config.license,
        **{key: value for key, value in said.items() if value},
        **({"rai:dataBiases": facts.biases} if facts.biases else {}),
        "version": "1.0.0",
        "inLanguage": "en",
        "keywords": ["image captions", "hard negatives", "vision-language", "image-text retrieval"],
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": item.path,
                "name": item.path,
                "contentUrl": item.path,
                "contentSize": f"{item.size} B",
                "encodingFormat": ENCODINGS.get(Path(item.path).suffix.lower(), "application/octet-stream"),
                "sha256": item.sha256,
            }
            for item in facts.files
        ],
        "recordSet": [record_set(record) for record in facts.records],
    }


def record_set(record: RecordSet) -> dict[str, Any]:
    """A file's records: `noun.json` becomes the record set `noun`, with a field a column."""
    name = Path(record.file).with_suffix("").as_posix().replace("/", "-")
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
                "source": {
                    "fileObject": {"@id": record.file},
                    "extract": {"jsonPath": column.path} if column.path else {"column": column.name},
                },
            }
            for column in record.columns
        ],
    }
