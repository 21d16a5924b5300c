"""A run and the captions written of its images -> a run of both, for all other stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from negcap.pipelines.engine import manifest
from negcap.pipelines.engine.code import code_of
from negcap.pipelines.engine.run import hash_inputs
from negcap.pipelines.engine.shards import Receipt, list_shards, read_shard, read_table, remove_temporary, write_shard
from negcap.pipelines.engine.stage import Progress
from negcap.pipelines.stages.caption import ORIGIN, TABLE
from negcap.schemas.captions import CAPTIONS

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "enlarge"


@dataclass(frozen=True)
class EnlargeConfig:
    """extra: the table of captions that join the run's own."""

    extra: str = TABLE


def enlarge(
    source: Path,
    run: Path,
    config: EnlargeConfig,
    *,
    metadata: Mapping[str, str],
    progress: Progress,
    overwrite: bool = False,
) -> dict[str, int]:
    """Make `run` of the captions of `source`, after each image's own those of `extra`, and of its tables of features.

    Counters: captions, images, generated. Raises FileNotFoundError for a run without these tables, ValueError for one
    that is to be made of itself or an extra table that holds no captions, OtherConfigError when `run` holds something
    else and `overwrite` is not given.
    """
    if run.resolve() == source.resolve():
        raise ValueError(f"output must be another folder than the run, was: {run}")
    extra = list_shards(source / config.extra)
    if extra and read_shard(extra[0]).schema.names != CAPTIONS.names:
        raise ValueError(f"extra must be a table of captions, {source / config.extra} has other columns")
    counts: dict[str, int] = {}
    progress.begin(NAME, None)
    features = sorted(folder.name for folder in source.glob("features*") if list_shards(folder))
    try:
        for table in ("captions", *features):
            shards = _captions(source, config.extra) if table == "captions" else read_table(source, table)
            inputs = hash_inputs(NAME, source, ("captions", config.extra) if table == "captions" else (table,))
            counts |= _write(source, run, table, shards, inputs, config, metadata, overwrite)
            progress.advance(counts["captions"] if table == "captions" else 0)
    finally:
        progress.end()
    return counts


def _captions(source: Path, extra: str) -> Iterator[pa.Table]:
    """The shards of the captions, each image's own followed by the extra ones."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    more = pa.concat_tables(read_table(source, extra)).replace_schema_metadata()
    for own in read_table(source, "captions"):
        here = more.filter(pc.is_in(more["image_id"], own["image_id"]))
        rows = pa.concat_tables([own.replace_schema_metadata(), here]).combine_chunks()
        numbers = rows["image_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        yield rows.take(pa.array(np.argsort(numbers, kind="stable")))


def _write(
    source: Path,
    run: Path,
    table: str,
    shards: Iterator[pa.Table],
    inputs: Mapping[str, str],
    config: EnlargeConfig,
    metadata: Mapping[str, str],
    overwrite: bool,
) -> dict[str, int]:
    """Write a table with a manifest of its own; its counters."""
    import pyarrow.compute as pc

    schema, told = _described(source / table, metadata)
    schemas = {table: manifest.hash_schema(schema)}
    described = manifest.describe(config)
    identity = manifest.Identity(NAME, described, told, schemas, code_of(__name__).sha256, dict(inputs))
    manifest.prepare(run / table, identity, overwrite=overwrite)
    remove_temporary(run / table)
    receipts: list[dict[str, Receipt]] = []
    for index, rows in enumerate(shards):
        counts: dict[str, int] = {}
        if table == "captions":
            generated = pc.sum(pc.equal(rows["origin"], ORIGIN)).as_py() or 0
            counts = {"captions": len(rows), "images": len(pc.unique(rows["image_id"])), "generated": generated}
        rows = rows.replace_schema_metadata(schema.metadata)
        key, provenance = identity.key(), identity.provenance()
        receipts.append({table: write_shard(rows, run / table, index, key, schema, provenance, counts)})
    return dict(manifest.finish(run, (table,), identity, receipts).counts)


def _described(folder: Path, metadata: Mapping[str, str]) -> tuple[pa.Schema, dict[str, str]]:
    """A table's schema as its first shard has it, and what else its metadata says, with `metadata`."""
    schema = read_shard(list_shards(folder)[0]).schema
    said = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    own = {key: said.pop(key) for key in ("table", "schema_version") if key in said}
    for key in ("stage", "config", "code"):
        said.pop(key, None)
    return schema.with_metadata(own), {**said, **metadata}
