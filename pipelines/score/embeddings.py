"""Vectors of a model as tables of the run: computed once, a shard at a time, so that an interrupted run goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from ...schemas.features import EMBEDDINGS
from ..engine import provenance
from ..engine.manifest import hash_value
from ..engine.progress import Progress
from ..engine.run import Parts, SourceStage, run_source
from ..engine.stage import StageResult
from ..engine.tables import read_table
from .encoders.interface import Embedder
from .protocols import Vectors
from .test_set import TestSet

ROWS = 2048  # per shard
STAGE = "score"
Embed = Callable[[int, int], np.ndarray]


def embed(model: Embedder, tests: TestSet, run: Path, batch: int, progress: Progress) -> Vectors:
    """The vectors of a test set's images and texts, as the model gives them: not yet of length 1.

    Those of a model that is `stored` are kept in the tables `embeddings_images_<key>` and `embeddings_texts_<key>` of
    the folder `run`, and read from there the next time. batch: images or texts computed at once. Raises ValueError
    for vectors that are not all equally wide, and what the model raises; shards that are finished are kept.
    """
    files = tuple(file for file in tests.files if file is not None)
    if model.needs_files and len(files) != len(tests.files):
        raise ValueError(f"{model.name} needs the image files: --images FOLDER")
    about = [_state(file) for file in files] if model.needs_files else []

    def images(start: int, stop: int) -> np.ndarray:
        return model.images(tests.image_ids[start:stop], files[start:stop])

    def texts(start: int, stop: int) -> np.ndarray:
        return model.texts(tests.texts[start:stop])

    if not model.stored:
        return Vectors(images(0, len(tests.image_ids)), texts(0, len(tests.texts)))
    both = []
    for what, names, compute, given in (
        ("images", tests.image_ids, images, about),
        ("texts", tests.texts, texts, []),
    ):
        identity = {**model.identity, "model": model.name, "list": hash_value([list(names), given])}
        both.append(_kept(run, what, names, identity, partial(_batches, compute, batch, progress), model, progress))
    return Vectors(*both)


def _state(file: Path) -> list[str | int]:
    found = file.stat()
    return [file.name, found.st_size, found.st_mtime_ns]


def _batches(compute: Embed, batch: int, progress: Progress, start: int, stop: int) -> np.ndarray:
    """The vectors of rows start to stop, computed a batch at a time."""
    parts = []
    for at in range(start, stop, batch):
        parts.append(compute(at, min(at + batch, stop)))
        progress.advance(len(parts[-1]), 0)
    return np.concatenate(parts)


def _kept(
    run: Path,
    what: str,
    names: Sequence[str],
    identity: Mapping[str, str],
    compute: Embed,
    model: Embedder,
    progress: Progress,
) -> np.ndarray:
    """The vectors (n, d) of a table of the run, which is made or completed first."""
    table = f"embeddings_{what}_{hash_value(dict(identity))[:12]}"

    def make(start: int) -> StageResult:
        stop = min(start + ROWS, len(names))
        found = np.ascontiguousarray(compute(start, stop), dtype=np.float32)
        ends = pa.array(np.arange(len(found) + 1, dtype=np.int32) * found.shape[1])
        values = pa.ListArray.from_arrays(ends, pa.array(found.ravel()), EMBEDDINGS.field("vector").type)
        rows = pa.table([pa.array(names[start:stop], pa.string()), values], schema=EMBEDDINGS)
        return StageResult({table: rows}, {what: stop - start})

    def parts() -> Parts:
        yield from (partial(make, start) for start in range(0, len(names), ROWS))

    stage = SourceStage(
        name=STAGE,
        module=type(model).__module__,
        outputs={table: EMBEDDINGS},
        config={**identity, "what": what, "rows": ROWS},
        inputs={},
        metadata={**provenance.package(), "model": model.name},
        parts=parts,
        shards=-(-len(names) // ROWS),
        unit=what,
    )
    run_source(stage, run, progress=progress, overwrite=True)
    columns = [shard["vector"].combine_chunks() for shard in read_table(run, table, ["vector"])]
    return np.concatenate([part.flatten().to_numpy().reshape(len(part), -1) for part in columns])
