"""What made a table: versions of package and parser, seed, lexicon; written into every shard's Parquet metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from negcap.pipelines.engine.manifest import hash_table, read_manifest


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
