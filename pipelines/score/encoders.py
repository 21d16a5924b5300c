"""Models that map images and texts to vectors, and the vectors of a test set.

There is a class for each kind of model; it is given what follows `KIND:` in the model's name. Each raises
FileNotFoundError or ValueError for what is no such model, ImportError without its library. They read local files, never
run code in them, and load a model when its first vector is needed. The vectors of a test set come from such an encoder
(and are kept in the run), from a model of `negcap train`, or from arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from ...schemas.features import EMBEDDINGS
from ..engine.errors import require_libraries
from ..engine.manifest import hash_path, hash_value
from ..engine.progress import Progress
from ..engine.run import Execution, run_source
from ..engine.stage import StageResult
from ..engine.tables import read_table
from ..features.preprocess import open_images
from ..features.source import open_array
from ..models.clip import pretrained
from .test_set import ScoreConfig, TestSet, is_run

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image
    from sentence_transformers import SentenceTransformer

    from ..models.clip.towers import HuggingFace, OpenClip


class TorchSettings(NamedTuple):
    """Where PyTorch computes, and in what precision."""

    device: torch.device
    precision: str

    @classmethod
    def of(cls, config: ScoreConfig) -> TorchSettings:
        """The device and precision of a config; `auto` is bfloat16 on a GPU, else float32. Sets the number of threads.

        Raises ValueError for cuda without a GPU.
        """
        import torch

        from ..models.device import choose_device

        device = choose_device(config.device)
        if config.threads:
            torch.set_num_threads(config.threads)
        default = "bfloat16" if device.type == "cuda" else "float32"
        return cls(device, default if config.precision == "auto" else config.precision)

    def vectors(self, compute: Callable[[], torch.Tensor]) -> np.ndarray:
        """The vectors (n, d), float32, that a model computes, without gradients, in mixed precision if asked."""
        import torch

        dtype = None if self.precision == "float32" else getattr(torch, self.precision)
        with torch.inference_mode(), torch.autocast(self.device.type, dtype, enabled=dtype is not None):
            output = compute()
        # NumPy has no bfloat16.
        return np.asarray(output.float().cpu().numpy())


class Encoder(ABC):
    """A model whose score of a pair is the cosine of its vectors.

    identity: all that determines the vectors, as plain JSON: hashes of the model's files, the precision and more.
    """

    def __init__(self, name: str, path: Path, config: ScoreConfig, identity: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.path = path
        self.config = config
        self.runtime = TorchSettings.of(config)
        self.identity = {"files": hash_path(path), "precision": self.runtime.precision, **(identity or {})}

    @abstractmethod
    def images(self, files: Sequence[Path]) -> np.ndarray:
        """The vectors (n, d) of n image files. Raises ValueError for a model that cannot be read."""

    @abstractmethod
    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors (n, d) of n texts. Raises ValueError for a model that cannot be read."""


class _ClipEncoder(Encoder):
    """A dual encoder with processors of its own, see `models.clip.towers`."""

    @abstractmethod
    def read(self) -> HuggingFace | OpenClip:
        """The model, read from its files."""

    @cached_property
    def loaded(self) -> HuggingFace | OpenClip:
        """The model, ready on its device."""
        return self.read().eval().to(self.runtime.device)

    def images(self, files: Sequence[Path]) -> np.ndarray:
        """The vectors (n, d) of n image files."""
        from torch import from_numpy

        pixels = from_numpy(np.concatenate([self.loaded.pixels(pictures) for pictures in open_images(files)]))
        return self.runtime.vectors(lambda: self.loaded.images(pixels.to(self.runtime.device)))

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors (n, d) of n texts."""
        tokens = self.loaded.tokens(texts)
        return self.runtime.vectors(lambda: self.loaded.texts(tokens.to(self.runtime.device)))


class HuggingFaceEncoder(_ClipEncoder):
    """`hf:FOLDER`, or a name on the hub: a dual encoder of transformers (CLIP, SigLIP …)."""

    def __init__(self, model: str, config: ScoreConfig) -> None:
        super().__init__(Path(model).name, pretrained.locate_hugging_face(model), config)

    def read(self) -> HuggingFace:
        """The model, read from its files."""
        from ..models.clip.towers import HuggingFace

        return HuggingFace(pretrained.read_hugging_face(self.path))


class OpenClipEncoder(_ClipEncoder):
    """`open_clip:ARCHITECTURE:WEIGHTS` (a file, or a name on the hub) or `open_clip:FOLDER`: a model of OpenCLIP."""

    def __init__(self, model: str, config: ScoreConfig) -> None:
        self.model = model
        located = pretrained.locate_open_clip(model)
        is_folder = located.architecture.startswith(pretrained.LOCAL)
        name = located.weights.name if is_folder else located.architecture
        settings = {key: str(value) for key, value in located.settings.items()}
        super().__init__(name, located.weights, config, {"architecture": name, **settings})

    def read(self) -> OpenClip:
        """The model, read from its files."""
        from ..models.clip.towers import OpenClip

        return OpenClip(self.model)


class SentenceTransformersEncoder(Encoder):
    """`sentence-transformers:FOLDER`: a model of sentence-transformers that embeds images and texts."""

    def __init__(self, model: str, config: ScoreConfig) -> None:
        path = Path(model)  # the folder
        pretrained.require_files("sentence-transformers", path, ("modules.json", "config.json"), ("**/*.safetensors",))
        needed = 'models of sentence-transformers need that library: pip install "negcap[score]" sentence-transformers'
        require_libraries(needed, "sentence_transformers")
        super().__init__(path.name, path, config)

    @cached_property
    def loaded(self) -> SentenceTransformer:
        """The model, ready on its device."""
        from sentence_transformers import SentenceTransformer

        with pretrained.reading(self.path, "model"):
            return SentenceTransformer(str(self.path), device=self.runtime.device.type, local_files_only=True)

    def images(self, files: Sequence[Path]) -> np.ndarray:
        """The vectors (n, d) of n image files."""
        return np.concatenate([self._encode(pictures) for pictures in open_images(files)])

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors (n, d) of n texts."""
        return self._encode(texts)

    def _encode(self, items: Sequence[Image] | Sequence[str]) -> np.ndarray:
        """The vectors (n, d) of n pictures or n texts, by the one method that the library has for both."""
        encode = partial(
            self.loaded.encode,
            list(items),
            batch_size=self.config.batch,
            convert_to_tensor=True,
            show_progress_bar=False,
        )
        return self.runtime.vectors(encode)  # calls it without gradients, in the precision of the config


# By kind: `--model hf:openai/clip` is of the kind "hf", and its encoder gets "openai/clip".
ENCODERS: dict[str, Callable[[str, ScoreConfig], Encoder]] = {
    "hf": HuggingFaceEncoder,
    "open_clip": OpenClipEncoder,
    "sentence-transformers": SentenceTransformersEncoder,
}


ROWS = 2048  # vectors in a shard; a computation that stops loses fewer than these
LISTS = ("images.txt", "texts.txt")


class RawVectors(NamedTuple):
    """The vectors of a test set's images (I, d) and texts (N, d), as a model gives them: of any length."""

    images: np.ndarray
    texts: np.ndarray


def arrays(paths: str, tests: TestSet) -> RawVectors:
    """The vectors in two NumPy files that a user has made (`npy:IMAGES,TEXTS`), in the order of `--lists`.

    paths: `IMAGES,TEXTS`. Raises FileNotFoundError, or ValueError if an array does not fit.
    """
    rule = "npy must be two files, npy:IMAGES.npy,TEXTS.npy"
    files = [Path(part) for part in paths.split(",")]
    if len(files) != 2:
        raise ValueError(f"{rule}, was: {paths}")
    opened = []
    for path, rows, listed in zip(files, (len(tests.images), len(tests.texts)), LISTS, strict=True):
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file; {rule}")
        array = open_array(path)
        if array.ndim != 2 or array.dtype.kind != "f":
            raise ValueError(f"{path}: must be an array (n, d) of floats")
        if len(array) != rows:
            raise ValueError(f"{path}: must have {rows:,} rows, one per line of {listed} (--lists), has {len(array):,}")
        opened.append(array)
    return RawVectors(*opened)


def trained(folder: str, tests: TestSet, run: Path, config: ScoreConfig) -> RawVectors:
    """The vectors that a model of `negcap train` gives to a test set (`negcap:FOLDER`).

    Args:
        folder: of the model.
        tests: the images and texts. For UniVSE, texts are parsed as the run's captions were.
        run: whose features the images have.
        config: with the device and the number of threads.

    Raises:
        FileNotFoundError, ValueError: the model or the features cannot be used.
    """
    import torch

    from ..models.device import choose_device
    from ..models.evaluation.protocols import parse_graphs, parser_settings
    from ..models.evaluation.retrieval import embed_images, embed_texts
    from ..models.trainer import OBJECTIVES, load_model
    from ..models.trainer.evaluate import features_for

    if not is_run(run):
        raise ValueError(f"a model of negcap train reads the image features of a run, {run} is a published set")
    if config.threads:
        torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    model, vocabularies, about = load_model(Path(folder), device)
    vocabulary = vocabularies[about.languages[0]]  # texts are taken to be in the model's first language

    features = features_for(model, run, tests.image_ids, about.table)
    if not features.available.all():
        lacking = tests.image_ids[int((~features.available).nonzero()[0])]
        raise ValueError(f"{about.table} of {run} must have every image, has none of {lacking}")
    images = embed_images(model.image, features.values, torch.arange(len(tests.images)), device)

    # UniVSE reads components beside words. All texts are parsed alike, so that no mistake tells true from false.
    column = pa.array(tests.texts, pa.string())
    graphs = None
    if OBJECTIVES[about.model].needs_components:
        graphs = parse_graphs(column, vocabulary, parser_settings(run)).to(device)
    texts = embed_texts(model.sentences, vocabulary.encode(column), device, graphs)
    return RawVectors(images.cpu().numpy(), texts.cpu().numpy())


def embed(
    model: Encoder, tests: TestSet, run: Path, batch: int, progress: Progress, rows_per_shard: int = ROWS
) -> RawVectors:
    """The vectors of a test set by an encoder, which are kept in the run.

    Args:
        model: the encoder.
        tests: the images and texts.
        run: where they are kept, as tables `embeddings_images_<key>` and `embeddings_texts_<key>`.
        batch: images or texts computed at once.
        progress: told of each batch.
        rows_per_shard: vectors in each shard of a table.

    Raises:
        ValueError: an image has no file, or the model cannot be read.
    """
    files = tests.image_files(model.name)
    # An image file that was changed has another size or time, and is then embedded again.
    states = [(file.name, file.stat()) for file in files]
    versions = [[name, state.st_size, state.st_mtime_ns] for name, state in states]
    compute = _KeptVectors(model, run, batch, progress, rows_per_shard)
    return RawVectors(
        images=compute.of("images", tests.image_ids, versions, lambda rows: model.images(files[rows])),
        texts=compute.of("texts", tests.texts, [], lambda rows: model.texts(tests.texts[rows])),
    )


class _KeptVectors(NamedTuple):
    """Where and how the vectors of an encoder are computed and kept; see `embed`."""

    model: Encoder
    run: Path
    batch: int
    progress: Progress
    rows_per_shard: int

    def of(
        self, what: str, names: Sequence[str], versions: Sequence[object], compute: Callable[[slice], np.ndarray]
    ) -> np.ndarray:
        """The vectors (n, d) of n images or texts, from a table of the run, which is made if there is none.

        Args:
            what: "images" or "texts".
            names: of the images, or the texts.
            versions: what else determines the vectors.
            compute: the vectors of a slice of them.
        """
        # The table's name has a hash of all that determines vectors, so that another model or list gets another table.
        identity = {**self.model.identity, "model": self.model.name, "list": hash_value([list(names), versions])}
        table = f"embeddings_{what}_{hash_value(identity)[:12]}"

        def batches(start: int, stop: int) -> Iterator[np.ndarray]:
            """The vectors from `start` to `stop`, (batch, d) at a time; shows the progress."""
            for first in range(start, stop, self.batch):
                vectors = compute(slice(first, min(first + self.batch, stop)))
                self.progress.advance(len(vectors), 0)
                yield vectors

        def make_shard(start: int) -> StageResult:
            """The shard of the table whose first vector has the number `start`."""
            stop = min(start + self.rows_per_shard, len(names))
            vectors = np.ascontiguousarray(np.concatenate([*batches(start, stop)]), dtype=np.float32)
            # Arrow stores a list column as all numbers one after the other, and where each list begins and ends.
            bounds = pa.array(np.arange(len(vectors) + 1, dtype=np.int32) * vectors.shape[1])
            values = pa.ListArray.from_arrays(bounds, pa.array(vectors.ravel()), EMBEDDINGS.field("vector").type)
            rows = pa.table([pa.array(names[start:stop], pa.string()), values], schema=EMBEDDINGS)
            return StageResult({table: rows}, {what: stop - start})

        # Shards that an earlier call finished are kept; overwrite: those of a call with other shards are not.
        run_source(
            self.run,
            "score",
            {table: EMBEDDINGS},
            [partial(make_shard, start) for start in range(0, len(names), self.rows_per_shard)],
            {**identity, "what": what, "rows": self.rows_per_shard},
            Execution(progress=self.progress, overwrite=True),
            metadata={"model": self.model.name},
            unit=what,
        )
        columns = [shard["vector"].combine_chunks() for shard in read_table(self.run, table, ["vector"])]
        return np.concatenate([column.flatten().to_numpy().reshape(len(column), -1) for column in columns])
