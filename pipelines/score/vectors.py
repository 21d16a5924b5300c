"""Vectors of a test set: of arrays, of a model of `negcap train`, or of an encoder, which are kept in the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from ...schemas.features import EMBEDDINGS
from ..engine.manifest import hash_value
from ..engine.progress import Progress
from ..engine.run import Execution, run_source
from ..engine.stage import StageResult
from ..engine.tables import read_table
from ..features.source import open_array
from .encoders import Encoder
from .test_set import ScoreConfig, TestSet, is_run

ROWS = 2048  # per shard
LISTS = ("images.txt", "texts.txt")


def arrays(rest: str, tests: TestSet) -> list[np.ndarray]:
    """`npy:IMAGES,TEXTS`: two memory-mapped arrays in the order of `--lists`. Raises ValueError if one does not fit."""
    wanted = "npy must be two files, npy:IMAGES.npy,TEXTS.npy"
    paths = [Path(part) for part in rest.split(",")]
    if len(paths) != 2:
        raise ValueError(f"{wanted}, was: {rest}")
    found = []
    for path, rows, listed in zip(paths, (len(tests.image_ids), len(tests.texts)), LISTS, strict=True):
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file; {wanted}")
        array = open_array(path)
        if array.ndim != 2 or array.dtype.kind != "f":
            raise ValueError(f"{path}: must be an array (n, d) of floats")
        if len(array) != rows:
            raise ValueError(f"{path}: must have {rows:,} rows, one per line of {listed} (--lists), has {len(array):,}")
        found.append(array)
    return found


def trained(rest: str, tests: TestSet, run: Path, config: ScoreConfig) -> list[np.ndarray]:
    """`negcap:FOLDER`: vectors by a model of `negcap train` from the run's features; texts of UniVSE are parsed as its
    captions were. Raises FileNotFoundError or ValueError if it or the features cannot be used.
    """
    import torch

    from ..models.device import choose_device
    from ..models.evaluation.protocols import parse_graphs, parser_settings
    from ..models.evaluation.retrieval import embed_images, embed_texts
    from ..models.trainer.evaluate import features_for
    from ..models.trainer.objectives import OBJECTIVES, load_model

    if not is_run(run):
        raise ValueError(f"a model of negcap train reads the image features of a run, {run} is a published set")
    if config.threads:
        torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    model, vocabularies, about = load_model(Path(rest), device)
    vocabulary = vocabularies[about.languages[0]]
    features = features_for(model, run, tests.image_ids, about.table)
    if not features.available.all():
        lacking = tests.image_ids[int((~features.available).nonzero()[0])]
        raise ValueError(f"{about.table} of {run} must have every image, has none of {lacking}")
    images = embed_images(model.image, features.values, torch.arange(len(tests.image_ids)), device)
    column, graphs = pa.array(tests.texts, pa.string()), None
    if OBJECTIVES[about.model].needs_components:
        graphs = parse_graphs(column, vocabulary, parser_settings(run))
        graphs = type(graphs)(*(kind._replace(words=kind.words.to(device)) for kind in graphs))
    sentences = embed_texts(model.sentences, vocabulary.encode(column), device, graphs)
    return [images.cpu().numpy(), sentences.cpu().numpy()]


def embed(model: Encoder, tests: TestSet, run: Path, batch: int, progress: Progress) -> list[np.ndarray]:
    """The vectors of images (I, d) and texts (N, d) by an encoder, not of length 1, computed by `batch`, and kept in
    tables `embeddings_images_<key>` and `embeddings_texts_<key>` of `run`. Raises ValueError unless all are equally
    wide.
    """
    files = [file for file in tests.files if file is not None]
    if len(files) != len(tests.files):
        raise ValueError(f"{model.name} needs the image files: --images FOLDER")
    states = [(file.name, file.stat()) for file in files]
    given = [[name, state.st_size, state.st_mtime_ns] for name, state in states]

    return [
        _kept(model, run, "images", tests.image_ids, given, lambda rows: model.images(files[rows]), batch, progress),
        _kept(model, run, "texts", tests.texts, [], lambda rows: model.texts(tests.texts[rows]), batch, progress),
    ]


def _kept(
    model: Encoder,
    run: Path,
    what: str,
    names: Sequence[str],
    given: Sequence[object],
    compute: Callable[[slice], np.ndarray],
    batch: int,
    progress: Progress,
) -> np.ndarray:
    """The vectors (n, d) of n images or texts (`names`), from a table of the run; given: what else determines them."""
    identity = {**model.identity, "model": model.name, "list": hash_value([list(names), given])}
    table = f"embeddings_{what}_{hash_value(identity)[:12]}"

    def batches(start: int, stop: int) -> Iterator[np.ndarray]:
        for at in range(start, stop, batch):
            made = compute(slice(at, min(at + batch, stop)))
            progress.advance(len(made), 0)
            yield made

    def make(start: int) -> StageResult:
        stop = min(start + ROWS, len(names))
        found = np.ascontiguousarray(np.concatenate([*batches(start, stop)]), dtype=np.float32)
        ends = pa.array(np.arange(len(found) + 1, dtype=np.int32) * found.shape[1])
        values = pa.ListArray.from_arrays(ends, pa.array(found.ravel()), EMBEDDINGS.field("vector").type)
        rows = pa.table([pa.array(names[start:stop], pa.string()), values], schema=EMBEDDINGS)
        return StageResult({table: rows}, {what: stop - start})

    parts = [partial(make, start) for start in range(0, len(names), ROWS)]
    execution, described = Execution(progress=progress, overwrite=True), {**identity, "what": what, "rows": ROWS}
    metadata = {"model": model.name}
    run_source(run, "score", {table: EMBEDDINGS}, parts, described, execution, metadata=metadata, unit=what)
    columns = [shard["vector"].combine_chunks() for shard in read_table(run, table, ["vector"])]
    return np.concatenate([part.flatten().to_numpy().reshape(len(part), -1) for part in columns])
