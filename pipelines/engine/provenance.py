"""Who made a table: the package, the parser, the seed, the lexicon; written into every shard's Parquet metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from negcap.augment.data import data_path
from negcap.pipelines.engine.manifest import hash_path, hash_table, read_manifest

NEEDED = ("tagger", "parser")


def package() -> dict[str, str]:
    """The version of this package."""
    return {"negcap_version": version("negcap")}


def of_stage(run: Path, inputs: Sequence[str], config: Any) -> dict[str, str]:
    """The provenance of what a stage makes in `run`: that of its inputs, and its own config's main choices.

    A lexicon among the inputs enters with its hash.
    """
    metadata = package()
    for table in inputs:
        manifest = read_manifest(run / table)
        if manifest is not None:
            metadata = {**manifest.identity.metadata, **metadata}
            if table == "lexicon":
                metadata["lexicon_sha256"] = hash_table(run, table)
    for name in ("parser", "seed", "operators"):
        if hasattr(config, name):
            value = getattr(config, name)
            metadata[name] = value if isinstance(value, str) else json.dumps(value)
    return metadata


def model_folder(spacy_model: str | None = None) -> Path:
    """The folder of a spaCy pipeline: an installed package's, one given by its path, or the shipped parser's.

    Finds it without importing spaCy, and looks whether it has what is needed. Raises ValueError.
    """
    if spacy_model is None:
        folder = data_path("english_parser")
    else:
        folder = Path(spacy_model)
        package = find_spec(spacy_model) if spacy_model.isidentifier() else None
        if package is not None and package.origin is not None:
            folder = Path(package.origin).parent
    meta = _meta(folder)
    if meta is None:
        raise ValueError(
            f"spacy model must be an installed package or a folder with meta.json, was: {spacy_model or folder}"
        )
    missing = [name for name in NEEDED if name not in meta.get("pipeline", NEEDED)]
    if missing:
        raise ValueError(f"spacy model {spacy_model or folder} must have {' and '.join(NEEDED)}, lacks: {missing}")
    return folder


def parser(folder: Path) -> str:
    """Name, version and content of a pipeline's folder: `en_core_web_sm-3.8.0 sha256:0f3e…` (the first 16 digits)."""
    meta = _meta(folder) or {}
    return f"{meta.get('lang')}_{meta.get('name')}-{meta.get('version')} sha256:{hash_path(folder)[:16]}"


def _meta(folder: Path) -> Mapping[str, Any] | None:
    try:
        meta = json.loads((folder / "meta.json").read_bytes())
    except (OSError, ValueError):
        return None
    return meta if isinstance(meta, dict) else None
