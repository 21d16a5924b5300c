"""Provenance of tables: versions of package and parser, seed, lexicon; stored in the metadata of Parquet files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .manifest import read_manifest
from .tables import hash_table


def package() -> dict[str, str]:
    """The version of negcap, as `negcap_version`, for the metadata of tables."""
    return {"negcap_version": version("negcap")}


def of_stage(run: Path, inputs: Sequence[str], config: Any) -> dict[str, str]:
    """The provenance of `inputs`, the hash of the lexicon if it is one, and the config's parser, seed, operators."""
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
