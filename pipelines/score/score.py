"""Score models on a run or a published set: load, embed, measure, and compare with what is got blind."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ..engine.progress import Progress
from ..engine.storage import write_atomically
from .blind import Baseline, baselines
from .config import ScoreConfig
from .embeddings import embed
from .encoders.npy import LISTS
from .intervals import percents
from .items import is_run, read_test_set
from .protocols import Vectors, measure, unit
from .report import ModelScores, Score
from .test_set import TestSet

ENCODERS = "negcap.pipelines.score.encoders"
MODELS = {  # the part of a model's name before the colon -> module of its loader, and what stands after the colon
    "npy": ("npy", "IMAGES,TEXTS"),
    "negcap": ("negcap_model", "FOLDER"),
    "hf": ("hf", "FOLDER"),
    "open_clip": ("open_clip_model", "ARCHITECTURE:WEIGHTS"),
    "sentence-transformers": ("sentence_transformers_model", "FOLDER"),
    "onnx": ("onnx_model", "IMAGES,TEXTS"),
    "endpoint": ("", "URL#MODEL"),
}
CACHE = Path(".cache", "score")  # of a published set


def split_name(model: str) -> tuple[str, str]:
    """`hf:clip` -> ("hf", "clip"). Raises ValueError, with all kinds of models, for a name of another form."""
    kind, colon, rest = model.partition(":")
    if kind not in MODELS or not rest:
        forms = ", ".join(f"{name}:{form}" for name, (_, form) in MODELS.items())
        raise ValueError(f"model must be one of {forms}, was: {model}")
    return kind, rest


def score(source: Path, models: Sequence[str], config: ScoreConfig, progress: Progress) -> list[ModelScores]:
    """Score models (as `kind:rest`) on the captions and negatives of a run or published set.

    Raises FileNotFoundError or ValueError for a source, model or image that cannot be used, ImportError if a model
    needs a library that is not installed. What was computed until then is kept.
    """
    named = [split_name(model) for model in models]
    tests = read_test_set(source, config)
    blind = baselines(tests, source, config.seed)
    return [
        score_one(source, tests, model, *parts, blind, config, progress)
        for model, parts in zip(models, named, strict=True)
    ]


def score_one(
    source: Path,
    tests: TestSet,
    model: str,
    kind: str,
    rest: str,
    blind: dict[tuple[str, str], Baseline],
    config: ScoreConfig,
    progress: Progress,
) -> ModelScores:
    """The scores of one model on a test set.

    model: as the user names it, `kind:rest`. blind: for each protocol and each operator, family or "all", the baseline
    without the image that is right most often. Vectors and answers are kept in the run `source`, or beside it.
    """
    place = source if is_run(source) else (source if source.is_dir() else source.parent) / CACHE
    if kind == "endpoint":
        from .chat import score_endpoint

        return score_endpoint(rest, tests, place, model, blind, config, progress)
    loader: Any = import_module(f"{ENCODERS}.{MODELS[kind][0]}")
    embedder = loader.load(rest, tests, source, config)
    found = embed(embedder, tests, place, config.batch, progress)
    return measure_model(model, found, tests, blind, config)


def measure_model(
    model: str, found: Vectors, tests: TestSet, blind: dict[tuple[str, str], Baseline], config: ScoreConfig
) -> ModelScores:
    """All scores of a model from its vectors of the test set's images and texts, of any length."""
    if found.images.shape[1] != found.texts.shape[1]:
        wide = f"{found.images.shape[1]} and {found.texts.shape[1]}"
        raise ValueError(f"{model}: vectors of images and texts must be equally wide, are {wide}")
    vectors = Vectors(
        unit(found.images, f"{model}: vectors of images"), unit(found.texts, f"{model}: vectors of texts")
    )
    measured = measure(vectors, tests)
    cases = [one.model for one in measured] + [one.blind for one in measured]
    values = percents(cases, len(tests.image_ids), config.resamples, config.seed)
    scores = tuple(
        Score(one.protocol, one.group, value, without, blind.get((one.protocol, one.group)))
        for one, value, without in zip(measured, values[: len(measured)], values[len(measured) :], strict=True)
    )
    about = {"images": len(tests.image_ids), "captions": len(tests.captions), "pairs": len(tests.pairs)}
    about |= {"pairs of images": len(tests.quads), "images left out, missing": tests.missing}
    return ModelScores(model, scores, about)


def write_lists(source: Path, folder: Path, config: ScoreConfig) -> list[Path]:
    """Write images.txt and texts.txt, one image and one text a line: the order of the rows of `npy:IMAGES,TEXTS`.

    An image is given by its file, or by its id if there is no folder of images.
    """
    tests = read_test_set(source, config)
    folder.mkdir(parents=True, exist_ok=True)
    images = [image if file is None else str(file) for image, file in zip(tests.image_ids, tests.files, strict=True)]
    written = []
    for name, lines in ((LISTS["images"], images), (LISTS["texts"], list(tests.texts))):
        if bad := next((line for line in lines if "\n" in line or "\r" in line), None):
            raise ValueError(f"{name} has one entry a line, one has several lines: {bad!r:.80}")
        write_atomically(folder / name, "".join(f"{line}\n" for line in lines).encode())
        written.append(folder / name)
    return written
