"""Score models on a run or a published set: their vectors or answers, what they get right, and what is got blind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..engine.progress import Progress
from ..engine.storage import write_atomically
from ..quality.accuracy import Accuracy
from ..quality.bias import CachedReports, Pair, format_rule, most_telling, read_corpus, shorter
from .encoders import Encoder, HuggingFace, Onnx, OpenClip, SentenceTransformers
from .items import is_run, read_test_set
from .protocols import Vectors, measure, percents, unit
from .report import Baseline, ModelScores, Score
from .test_set import ScoreConfig, TestSet
from .vectors import LISTS, arrays, embed, trained

MODELS = {  # kinds of models: what stands before the colon in a model's name -> what stands after it
    "npy": "IMAGES,TEXTS",
    "negcap": "FOLDER",
    "hf": "FOLDER",
    "open_clip": "ARCHITECTURE:WEIGHTS",
    "sentence-transformers": "FOLDER",
    "onnx": "IMAGES,TEXTS",
    "endpoint": "URL#MODEL",
}
ENCODERS: dict[str, type[Encoder]] = {
    "hf": HuggingFace,
    "open_clip": OpenClip,
    "sentence-transformers": SentenceTransformers,
    "onnx": Onnx,
}
CACHE = Path(".cache", "score")  # of a published set


def score(source: Path, models: Sequence[str], config: ScoreConfig, progress: Progress) -> list[ModelScores]:
    """Score models (as `kind:rest`) on the captions and negatives of a run or published set.

    Vectors and answers are kept in the run, or beside the set. Raises FileNotFoundError or ValueError for a source,
    model or image that cannot be used, ImportError if a model needs a library that is not installed. What was computed
    until then is kept.
    """
    named = [model.partition(":") for model in models]
    for model, (kind, _, rest) in zip(models, named, strict=True):
        if kind not in MODELS or not rest:
            forms = ", ".join(map(":".join, MODELS.items()))
            raise ValueError(f"model must be one of {forms}, was: {model}")
    tests = read_test_set(source, config)
    blind = baselines(tests, source, config.seed)
    place = source if is_run(source) else (source if source.is_dir() else source.parent) / CACHE
    found = []
    for model, (kind, _, rest) in zip(models, named, strict=True):
        if kind == "endpoint":
            from .chat import ask

            measured, about = ask(rest, model, tests, place, config, progress)
        else:
            if kind in ENCODERS:
                images, texts = embed(ENCODERS[kind](rest, config), tests, place, config.batch, progress)
            else:
                images, texts = arrays(rest, tests) if kind == "npy" else trained(rest, tests, source, config)
            if images.shape[1] != texts.shape[1]:
                wide = f"{images.shape[1]} and {texts.shape[1]}"
                raise ValueError(f"{model}: vectors of images and texts must be equally wide, are {wide}")
            images, texts = unit(images, f"{model}: vectors of images"), unit(texts, f"{model}: vectors of texts")
            measured = measure(Vectors.of_each(images, texts), tests)
            about = {"images": len(tests.image_ids), "captions": len(tests.captions), "pairs": len(tests.pairs)}
            about["pairs of images"] = len(tests.quads)
        cases = [(one.image, right) for one in measured for right in (one.right, one.blind) if right is not None]
        values = iter(percents(cases, len(tests.image_ids), config.resamples, config.seed))
        scores = tuple(
            Score(
                one.protocol,
                one.group,
                next(values),
                None if one.blind is None else next(values),
                blind.get((one.protocol, one.group)),
            )
            for one in measured
        )
        found.append(ModelScores(model, scores, {**about, "images left out, missing": tests.missing}))
    return found


def baselines(tests: TestSet, source: Path, seed: int) -> dict[tuple[str, str], Baseline]:
    """By protocol (`pairs`, `half-truth`) and group of operators, the most telling of the blind baselines.

    For pairs it is one of those of `negcap blind`; of groups that are too small to train one, and for half-truths,
    where the shorter text is the true one by construction, only rules are tried. Reports are cached in `source`.
    """
    corpus = read_corpus(source) if is_run(source) else []
    measured = CachedReports(source if source.is_dir() else source.parent, seed, corpus)
    found: dict[tuple[str, str], Baseline] = {}
    for group, wanted in tests.groups.items():
        inside = wanted[tests.operator] & tests.first
        for protocol, rows in (("pairs", inside), ("half-truth", inside & tests.adds)):
            if not rows.any():
                continue
            pairs = [
                Pair(tests.texts[true], tests.texts[false], tests.image_ids[image])
                for image, true, false, _ in tests.pairs[rows].tolist()
            ]
            rules = [_turned("format rule", format_rule(pairs)), _turned("shorter is true", shorter(pairs))]
            best = max(rules, key=lambda one: (one.low, one.value))
            if protocol == "pairs":
                try:
                    name, accuracy, turned = most_telling(measured(group, pairs))
                    best = Baseline(name, accuracy.percent, accuracy.low, accuracy.high, turned)
                except ValueError:  # too few to train on
                    pass
            found[protocol, group] = best
    return found


def _turned(name: str, found: Accuracy) -> Baseline:
    """A rule, or its opposite where it is wrong more often than right."""
    if found.percent < 50:
        return Baseline(name, 100 - found.percent, 100 - found.high, 100 - found.low, True)
    return Baseline(name, found.percent, found.low, found.high, False)


def write_lists(source: Path, folder: Path, config: ScoreConfig) -> list[Path]:
    """Write images.txt and texts.txt, one image and one text a line: the order of the rows of `npy:IMAGES,TEXTS`.

    An image is given by its file, or by its id if there is no folder of images.
    """
    tests = read_test_set(source, config)
    folder.mkdir(parents=True, exist_ok=True)
    images = [image if file is None else str(file) for image, file in zip(tests.image_ids, tests.files, strict=True)]
    written = []
    for name, lines in zip(LISTS, (images, tests.texts), strict=True):
        if bad := next((line for line in lines if "\n" in line or "\r" in line), None):
            raise ValueError(f"{name} has one entry a line, one has several lines: {bad!r:.80}")
        write_atomically(folder / name, "".join(f"{line}\n" for line in lines).encode())
        written.append(folder / name)
    return written
