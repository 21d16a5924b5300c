"""Vectors of a test set: from arrays, from a model of `negcap train`, or computed by an encoder and kept in the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from ...schemas.features import EMBEDDINGS
from ..engine import provenance
from ..engine.identity import hash_value
from ..engine.source import Parts, SourceStage, run_source
from ..engine.stage import Progress, StageResult
from ..engine.tables import read_table
from .encoders import Encoder
from .items import is_run
from .protocols import Vectors, unit
from .test_set import ScoreConfig, TestSet

ROWS = 2048  # per shard
LISTS = {"images": "images.txt", "texts": "texts.txt"}


class Arrays(Encoder):
    """`npy:IMAGES,TEXTS`: two memory-mapped arrays, in the order of the lists that `negcap score --lists` writes."""

    needs_files = stored = False

    def __init__(self, rest: str, tests: TestSet, run: Path, config: ScoreConfig) -> None:
        wanted = "npy must be two files, npy:IMAGES.npy,TEXTS.npy"
        paths = [Path(part) for part in rest.split(",")]
        if len(paths) != 2:
            raise ValueError(f"{wanted}, was: {rest}")
        arrays = []
        for path, rows, listed in zip(paths, (len(tests.image_ids), len(tests.texts)), LISTS.values(), strict=True):
            if not path.is_file():
                raise FileNotFoundError(f"{path}: no such file; {wanted}")
            try:
                array = np.load(path, mmap_mode="r", allow_pickle=False)
            except (ValueError, EOFError, OSError) as error:
                raise ValueError(f"{path}: must be a NumPy array, cannot be read: {error}") from None
            if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind != "f":
                raise ValueError(f"{path}: must be an array (n, d) of floats")
            if len(array) != rows:
                raise ValueError(
                    f"{path}: must have {rows:,} rows, one per line of {listed} (--lists), has {len(array):,}"
                )
            arrays.append(array)
        wide = [f"{path} has {array.shape[1]}" for path, array in zip(paths, arrays, strict=True)]
        if arrays[0].shape[1] != arrays[1].shape[1]:
            raise ValueError(f"vectors of images and texts must be equally wide, {wide[0]}, {wide[1]}")
        self.name, self.identity, (self._images, self._texts) = paths[0].stem, {}, arrays

    def images(self, ids: Sequence[str], files: Sequence[Path]) -> np.ndarray:
        """All vectors of images."""
        return self._images

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """All vectors of texts."""
        return self._texts


class Trained(Encoder):
    """`negcap:FOLDER`: a model of `negcap train`, on a run with the image features that it was trained on.

    It reads features, not image files, and is quick to compute.
    """

    needs_files = stored = False

    def __init__(self, rest: str, tests: TestSet, run: Path, config: ScoreConfig) -> None:
        import torch

        from ..models.device import choose_device
        from ..models.trainer.objectives import load_model

        if not is_run(run):
            raise ValueError(f"a model of negcap train reads the image features of a run, {run} is a published set")
        if config.threads:
            torch.set_num_threads(config.threads)
        self.device = choose_device(config.device)
        self.model, self.vocabulary, self.config = load_model(Path(rest), self.device)
        self.name, self.identity, self.run = Path(rest).name, {}, run

    def images(self, ids: Sequence[str], files: Sequence[Path]) -> np.ndarray:
        """Vectors of images by their features. Raises ValueError for features of another size, or an image without."""
        import torch

        from ..models.evaluation.retrieval import embed_images
        from ..models.features import read_features

        features = read_features(self.run, ids, self.config.table)
        size, found = self.model.image.linear.in_features, features.values.shape[-1]
        if found != size:
            raise ValueError(f"features of {self.run} must have {size} numbers for this model, have {found}")
        if not features.available.all():
            lacking = ids[int((~features.available).nonzero()[0])]
            raise ValueError(f"{self.config.table} of {self.run} must have every image, has none of {lacking}")
        vectors = embed_images(self.model.image, features.values, torch.arange(len(ids)), self.device)
        return np.asarray(vectors.cpu())

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts; for UniVSE they are parsed as the run's captions were."""
        import torch

        from ..models.evaluation.attacks import parse_graphs, parser_settings
        from ..models.evaluation.retrieval import embed_sentences
        from ..models.trainer.objectives import OBJECTIVES
        from ..models.vectors import Texts

        column = pa.array(list(texts), pa.string())
        graphs = None
        if OBJECTIVES[self.config.model].needs_components:
            graphs = parse_graphs(column, self.vocabulary, parser_settings(self.run))
            graphs = type(graphs)(*(kind._replace(words=kind.words.to(self.device)) for kind in graphs))
        encoded = self.vocabulary.encode(column)
        tokens, offsets = torch.from_numpy(encoded.tokens).to(self.device), torch.from_numpy(encoded.offsets)
        held = Texts(tokens, offsets, len(texts), graphs)
        return np.asarray(embed_sentences(self.model.sentences, held, torch.arange(len(texts))).cpu())


def embed(model: Encoder, named: str, tests: TestSet, run: Path, batch: int, progress: Progress) -> Vectors:
    """The unit vectors of a test set's images and texts.

    Those of a model that is `stored` are kept as it gives them in the tables `embeddings_images_<key>` and
    `embeddings_texts_<key>` of the folder `run`, a shard at a time, and read from there the next time. named: the model
    as the user names it. batch: images or texts computed at once. Raises ValueError for vectors that are not all
    equally wide, and what the model raises; shards that are finished are kept.
    """
    files = tuple(file for file in tests.files if file is not None)
    if model.needs_files and len(files) != len(tests.files):
        raise ValueError(f"{model.name} needs the image files: --images FOLDER")

    def images(start: int, stop: int) -> np.ndarray:
        return model.images(tests.image_ids[start:stop], files[start:stop])

    def texts(start: int, stop: int) -> np.ndarray:
        return model.texts(tests.texts[start:stop])

    if model.stored:
        states = [(file.name, file.stat()) for file in files]
        given = [[name, state.st_size, state.st_mtime_ns] for name, state in states]
        found = [
            _kept(model, run, "images", tests.image_ids, given, images, batch, progress),
            _kept(model, run, "texts", tests.texts, [], texts, batch, progress),
        ]
    else:
        found = [images(0, len(tests.image_ids)), texts(0, len(tests.texts))]
    wide = [vectors.shape[1] for vectors in found]
    if wide[0] != wide[1]:
        raise ValueError(f"{named}: vectors of images and texts must be equally wide, are {wide[0]} and {wide[1]}")
    return Vectors.of_each(unit(found[0], f"{named}: vectors of images"), unit(found[1], f"{named}: vectors of texts"))


def _kept(
    model: Encoder,
    run: Path,
    what: str,
    names: Sequence[str],
    given: Sequence[object],
    compute: Callable[[int, int], np.ndarray],
    batch: int,
    progress: Progress,
) -> np.ndarray:
    """The vectors (n, d) of n images or texts, in a table of the run, which is made or completed first.

    names: of them; given: what else determines them. compute: the vectors of those from the first to before the second.
    """
    identity = {**model.identity, "model": model.name, "list": hash_value([list(names), given])}
    table = f"embeddings_{what}_{hash_value(identity)[:12]}"

    def batches(start: int, stop: int) -> Iterator[np.ndarray]:
        for at in range(start, stop, batch):
            made = compute(at, min(at + batch, stop))
            progress.advance(len(made), 0)
            yield made

    def make(start: int) -> StageResult:
        stop = min(start + ROWS, len(names))
        found = np.ascontiguousarray(np.concatenate([*batches(start, stop)]), dtype=np.float32)
        ends = pa.array(np.arange(len(found) + 1, dtype=np.int32) * found.shape[1])
        values = pa.ListArray.from_arrays(ends, pa.array(found.ravel()), EMBEDDINGS.field("vector").type)
        rows = pa.table([pa.array(names[start:stop], pa.string()), values], schema=EMBEDDINGS)
        return StageResult({table: rows}, {what: stop - start})

    def parts() -> Parts:
        yield from (partial(make, start) for start in range(0, len(names), ROWS))

    stage = SourceStage(
        name="score",
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
