"""Models that map images and texts to vectors: a function per kind of model, from what follows `kind:` in its name to
an Encoder. Each raises FileNotFoundError or ValueError for what is no such model, ImportError without its library. They
read local files, never run code in them, and load a model when its first vector is asked for. And the vectors of a test
set: of an encoder, kept in the run, of a model of `negcap train`, or of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

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

Images = Callable[[Sequence[Path]], np.ndarray]  # the vectors (n, d) of n image files
Texts = Callable[[Sequence[str]], np.ndarray]  # the vectors (n, d) of n texts


class Encoder(NamedTuple):
    """A model whose score of a pair is the cosine of its vectors. identity: plain JSON that determines them (hashes of
    the model's files, the precision). images, texts: compute them; ValueError for a model that cannot be read.
    """

    name: str
    identity: Mapping[str, str]
    images: Images
    texts: Texts

    @classmethod
    def loaded(cls, name: str, identity: Mapping[str, str], load: Callable[[], tuple[Images, Texts]]) -> Encoder:
        """A model that is loaded when its first vector is asked for."""
        once = cache(load)
        return cls(name, identity, lambda files: once()[0](files), lambda texts: once()[1](texts))


class Torch(NamedTuple):
    """Where PyTorch computes (a torch.device), and in what precision."""

    device: Any
    precision: str

    @classmethod
    def of(cls, config: ScoreConfig) -> Torch:
        """As a config says. Raises ValueError for cuda without a GPU."""
        import torch

        from ..models.device import choose_device

        device = choose_device(config.device)
        if config.threads:
            torch.set_num_threads(config.threads)
        default = "bfloat16" if device.type == "cuda" else "float32"
        return cls(device, default if config.precision == "auto" else config.precision)

    def vectors(self, function: Callable[..., Any], *given: Any, **named: Any) -> np.ndarray:
        """The vectors (n, d), float32, of a model's function, without gradients, in mixed precision if asked."""
        import torch

        type = None if self.precision == "float32" else getattr(torch, self.precision)
        with torch.inference_mode(), torch.autocast(self.device.type, type, enabled=type is not None):
            output = function(*given, **named)
        found: np.ndarray = output.float().cpu().numpy()
        return found

    def identity(self, path: Path) -> dict[str, str]:
        """What determines the vectors of the model in `path`."""
        return {"files": hash_path(path), "precision": self.precision}


def hugging_face(rest: str, config: ScoreConfig) -> Encoder:
    """`hf:FOLDER`, or a name on the hub: a dual encoder of transformers (CLIP, SigLIP …) with its own processors."""
    path = pretrained.locate_hugging_face(rest)
    return _dual(Path(rest).name, path, config, lambda its: its.HuggingFace(pretrained.read_hugging_face(path)))


def open_clip(rest: str, config: ScoreConfig) -> Encoder:
    """`open_clip:ARCHITECTURE:WEIGHTS` (a file, or a name on the hub) or `open_clip:FOLDER`: a model of OpenCLIP."""
    found = pretrained.locate_open_clip(rest)
    name = found.weights.name if found.architecture.startswith(pretrained.LOCAL) else found.architecture
    settings = {key: str(value) for key, value in found.settings.items()}
    return _dual(name, found.weights, config, lambda its: its.OpenClip(rest), architecture=name, **settings)


def _dual(name: str, path: Path, config: ScoreConfig, make: Callable[[Any], Any], **more: str) -> Encoder:
    """A model of `models.clip.towers`, which `make` makes, given that module; more: what else determines it."""
    torch = Torch.of(config)

    def load() -> tuple[Images, Texts]:
        from torch import from_numpy

        from ..models.clip import towers

        model = make(towers).eval().to(torch.device)

        def images(files: Sequence[Path]) -> np.ndarray:
            pixels = np.concatenate([model.pixels(opened) for opened in open_images(files)])
            return torch.vectors(model.images, from_numpy(pixels).to(torch.device))

        return images, lambda texts: torch.vectors(model.texts, model.tokens(texts).to(torch.device))

    return Encoder.loaded(name, {**torch.identity(path), **more}, load)


def sentence_transformers(rest: str, config: ScoreConfig) -> Encoder:
    """`sentence-transformers:FOLDER`: a model of sentence-transformers that embeds images and texts."""
    path = Path(rest)
    pretrained.require_files("sentence-transformers", path, ("modules.json", "config.json"), ("**/*.safetensors",))
    needed = 'models of sentence-transformers need that library: pip install "negcap[score]" sentence-transformers'
    require_libraries(needed, "sentence_transformers")
    torch = Torch.of(config)

    def load() -> tuple[Images, Texts]:
        from sentence_transformers import SentenceTransformer

        with pretrained.reading(path, "model"):
            model = SentenceTransformer(str(path), device=torch.device.type, local_files_only=True)

        def vectors(items: Sequence[Any]) -> np.ndarray:  # the model tells images from texts
            given = {"batch_size": config.batch, "convert_to_tensor": True, "show_progress_bar": False}
            return torch.vectors(model.encode, list(items), **given)

        return lambda files: np.concatenate([vectors(images) for images in open_images(files)]), vectors

    return Encoder.loaded(path.name, torch.identity(path), load)


ENCODERS: dict[str, Callable[[str, ScoreConfig], Encoder]] = {
    "hf": hugging_face,
    "open_clip": open_clip,
    "sentence-transformers": sentence_transformers,
}


ROWS = 2048  # per shard
LISTS = ("images.txt", "texts.txt")


def arrays(rest: str, tests: TestSet) -> list[np.ndarray]:
    """`npy:IMAGES,TEXTS`: two memory-mapped arrays in the order of `--lists`. Raises FileNotFoundError, or
    ValueError if one does not fit.
    """
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
    from ..models.trainer import OBJECTIVES, load_model
    from ..models.trainer.evaluate import features_for

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
    column = pa.array(tests.texts, pa.string())
    graphs = None
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
    execution = Execution(progress=progress, overwrite=True)
    described = {**identity, "what": what, "rows": ROWS}
    metadata = {"model": model.name}
    run_source(run, "score", {table: EMBEDDINGS}, parts, described, execution, metadata=metadata, unit=what)
    columns = [shard["vector"].combine_chunks() for shard in read_table(run, table, ["vector"])]
    return np.concatenate([part.flatten().to_numpy().reshape(len(part), -1) for part in columns])
