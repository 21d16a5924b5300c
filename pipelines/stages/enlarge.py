"""Stage enlarge: a run and captions generated for its images -> a new run with both."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from ...augment.settings import Settings
from ...schemas.captions import CAPTIONS, ORIGINS
from ..engine.progress import Progress
from ..engine.run import Parts, run_source
from ..engine.stage import StageResult
from ..engine.storage import names
from ..engine.tables import has_table, hash_inputs, read_table, shards_of

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "enlarge"
_, GENERATED = ORIGINS  # the origin of generated captions, and the name of their table


class EnlargeConfig(Settings):
    """Which captions are added."""

    extra: str = Field(GENERATED, description="table of captions to add to the run's own")


def enlarge(
    source: Path,
    run: Path,
    config: EnlargeConfig,
    *,
    progress: Progress,
    overwrite: bool = False,
) -> dict[str, int]:
    """Make the run in folder `run` from the captions of the run `source`, its extra captions and its features.

    The extra captions of an image come after its own. Returns the counters
    captions, images and generated. Raises FileNotFoundError when `source` lacks one of the tables, ValueError when both
    runs are the same or the extra table has other columns, OtherConfigError when `run` was made from something else and
    `overwrite` is not set.
    """
    if run.resolve() == source.resolve():
        raise ValueError(f"output must be another folder than the run, was: {run}")
    if has_table(source, config.extra) and next(read_table(source, config.extra)).schema.names != CAPTIONS.names:
        raise ValueError(f"extra must be a table of captions, {source / config.extra} has other columns")
    features = sorted(name for name in names(source) if name.startswith("features") and has_table(source, name))
    counts: dict[str, int] = {}
    for table in ("captions", *features):
        schema, inherited = _described(source, table)
        read = (table, config.extra) if table == "captions" else (table,)
        counts |= run_source(
            run,
            NAME,
            {table: schema},
            _parts(source, table, config.extra, schema),
            config,
            inputs=hash_inputs(source, read),
            metadata=inherited,
            shards=len(shards_of(source, table)),
            unit="captions" if table == "captions" else "images",
            progress=progress,
            overwrite=overwrite,
        )
    return {name: counts[name] for name in ("captions", "images", "generated")}


def _parts(source: Path, table: str, extra: str, schema: pa.Schema) -> Parts:
    """Yield a function for each shard of a table of the new run, which makes it.

    A shard of captions has those of each image, followed by its extra ones.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    more = pa.concat_tables(read_table(source, extra)).replace_schema_metadata() if table == "captions" else None
    for rows in read_table(source, table):
        counts = {}
        if more is not None:
            here = more.filter(pc.is_in(more["image_id"], rows["image_id"]))
            rows = pa.concat_tables([rows.replace_schema_metadata(), here]).combine_chunks()
            numbers = rows["image_id"].combine_chunks().dictionary_encode().indices.to_numpy()
            rows = rows.take(pa.array(np.argsort(numbers, kind="stable")))
            generated = pc.sum(pc.equal(rows["origin"], GENERATED)).as_py() or 0
            counts = {"captions": len(rows), "images": len(rows["image_id"].unique()), "generated": generated}
        rows = rows.replace_schema_metadata(schema.metadata)
        yield partial(StageResult, {table: rows}, counts)


def _described(run: Path, table: str) -> tuple[pa.Schema, dict[str, str]]:
    """A table's schema and provenance, both from its first shard."""
    schema = next(read_table(run, table)).schema
    inherited = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    own = {key: inherited.pop(key) for key in ("table", "schema_version") if key in inherited}
    for key in ("negcap_version", "stage", "config", "code"):
        inherited.pop(key, None)
    return schema.with_metadata(own), inherited
