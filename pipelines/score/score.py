"""Score models on a run or a published set. Scores are plain JSON: `model`, `about` (how it was asked) and `scores`,
with by protocol and group `model` and `without_image` (percentages of n cases with intervals), `baseline`, the most
telling of `negcap blind`, and `chance`, what guessing gets; null where it cannot be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...schemas.messages import did_you_mean
from ..engine.errors import require_libraries
from ..engine.lock import locked
from ..engine.progress import Progress
from ..engine.storage import refuse_link, write_atomically
from ..models.clip.pretrained import REPOSITORY
from ..models.figures import format_interval, ratios_with_intervals
from ..quality.accuracy import aligned
from ..quality.bias.baselines import Pair, format_rule, most_telling, shorter
from ..quality.bias.measure import cached_reports, read_corpus
from .encoders import ENCODERS, LISTS, arrays, embed, trained
from .protocols import Measured, Vectors, measure, unit
from .test_set import ScoreConfig, TestSet, is_run, read_test_set

MODELS = {  # kinds of models: what stands before the colon in a model's name -> what stands after it
    "npy": "IMAGES,TEXTS",
    "negcap": "FOLDER",
    "hf": "FOLDER",
    "open_clip": "ARCHITECTURE:WEIGHTS",
    "sentence-transformers": "FOLDER",
    "endpoint": "URL#MODEL",
}
PROTOCOLS = {  # what is right, and what guessing gets in %; None where that depends on the number of candidates
    "pairs": ("the caption scores above its negative", 50.0),
    "half-truth": ("the caption scores above the negative that only adds to it", 50.0),
    "two captions": ("both captions of the image score above the negative", 100 / 3),
    "two captions, text only": ("both captions are nearer to each other than to the negative", 100 / 3),
    "text": ("for two images, each own caption scores above the other", 25.0),
    "image": ("for two captions, each own image scores above the other", 25.0),
    "group": ("both", 100 / 6),
    "image to text": ("an own caption ranks first among all captions", None),
    "image to text, own negatives": ("the same with the negatives of the own captions", None),
    "image to text, all negatives": ("the same with all negatives", None),
    "both orders": ("of caption and negative, the model chooses the caption in either order", 25.0),
    "yes or no": ("the model says yes to the caption, and no to its negative", 25.0),
}
CACHE = Path(".cache", "score")  # of a published set
Scores = dict[str, Any]  # of a model, see above


def score(source: Path, models: Sequence[str], config: ScoreConfig, progress: Progress) -> list[Scores]:
    """How often each model puts a caption above its negatives, and more protocols, with 95 % intervals; see above.
    models: as `kind:rest` (`negcap score --help`). Vectors and answers are kept in the run, or beside the set, also if
    it fails. Raises FileNotFoundError or ValueError for an unusable source, model or image, ImportError without a
    library.
    """
    for model in models:
        kind, _, rest = model.partition(":")
        if kind not in MODELS or not rest:
            forms = ", ".join(map(":".join, MODELS.items()))
            is_named = REPOSITORY.fullmatch(model) or Path(model).is_dir()
            hint = f"; did you mean hf:{model}?" if is_named else did_you_mean(kind, MODELS)
            raise ValueError(f"model must be one of {forms}, was: {model}{hint}")
        if kind in (*ENCODERS, "negcap"):  # named at once, as the baselines would ask for scikit-learn alone
            libraries = ("torch", "sklearn", *(("transformers", "PIL.Image") if kind == "hf" else ()))
            require_libraries(f'{kind} models need more libraries: pip install "negcap[score]"', *libraries)
    tests = read_test_set(source, config)
    blind = baselines(tests, source, config.seed)
    place = source
    if not is_run(source):
        place = (source if source.is_dir() else source.parent) / CACHE
        refuse_link(place.parent)
        refuse_link(place)
    found: list[Scores] = []
    for model in models:
        kind, _, rest = model.partition(":")
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
            images = unit(images, f"{model}: vectors of images")
            texts = unit(texts, f"{model}: vectors of texts")
            measured = measure(Vectors.of_each(images, texts), tests)
            about = {"images": len(tests.image_ids), "captions": len(tests.captions), "pairs": len(tests.pairs)}
            about["pairs of images"] = len(tests.quads)
        about = {**about, "images left out, missing": tests.missing}
        scores = percentages(measured, tests, config)
        for row in scores:
            row |= {"baseline": blind.get((row["protocol"], row["group"])), "chance": says(row["protocol"])[1]}
        found.append({"model": model, "about": about, "scores": scores})
    return found


def percentages(measured: Sequence[Measured], tests: TestSet, config: ScoreConfig) -> list[Scores]:
    """The percentages right, with and without image, with the intervals of one bootstrap over all images."""
    images = len(tests.image_ids)
    cases = [(one.image, right) for one in measured for right in (one.right, one.blind) if right is not None]
    counts = np.stack([np.bincount(image, right, images) for image, right in cases], 1)
    sizes = np.stack([np.bincount(image, minlength=images) for image, _ in cases], 1)
    made = iter(ratios_with_intervals(counts, sizes, config.seed, config.resamples))

    def percentage(right: np.ndarray | None) -> Scores | None:
        if right is None:
            return None
        value, (low, high) = next(made)
        return {"value": value, "low": low, "high": high, "n": len(right)}

    return [
        {
            "protocol": one.protocol,
            "group": one.group,
            "model": percentage(one.right),
            "without_image": percentage(one.blind),
        }
        for one in measured
    ]


def baselines(tests: TestSet, source: Path, seed: int) -> dict[tuple[str, str], Scores]:
    """By protocol (`pairs`, `half-truth`) and group the most telling blind baseline; of half-truths, where the shorter
    is true by construction, and groups too small to train one, only rules are tried. Reports are cached in `source`.
    """
    corpus = read_corpus(source) if is_run(source) else []
    reports = cached_reports(source if source.is_dir() else source.parent, seed, corpus)
    found = {}
    first = tests.pairs[tests.pairs["first"]]
    for group, wanted in tests.groups.items():
        of_group = first[wanted[first["operator"]]]
        for protocol, rows in (("pairs", of_group), ("half-truth", of_group[of_group["adds"]])):
            if not len(rows):
                continue
            columns = (rows[name].tolist() for name in ("true", "false", "image"))
            pairs = [
                Pair(tests.texts[true], tests.texts[false], tests.image_ids[image])
                for true, false, image in zip(*columns, strict=True)
            ]
            tried = {"format rule": format_rule(pairs), "shorter is true": shorter(pairs)}
            if protocol == "pairs":
                with suppress(ValueError):  # too few to train on
                    tried = reports(group, pairs).baselines
            name, best = most_telling(tried)
            found[protocol, group] = {"name": name, "value": best.percent, "low": best.low, "high": best.high}
    return found


def write_lists(source: Path, folder: Path, config: ScoreConfig) -> list[Path]:
    """Write images.txt (files, else ids) and texts.txt, an entry a line: the order of rows of `npy:IMAGES,TEXTS`."""
    tests = read_test_set(source, config)
    images = [image if file is None else str(file) for image, file in zip(tests.image_ids, tests.files, strict=True)]
    entries = dict(zip(LISTS, (images, tests.texts), strict=True))
    for name, lines in entries.items():
        if bad := next((line for line in lines if "\n" in line or "\r" in line), None):
            raise ValueError(f"{name} has one entry a line, one has several lines: {bad!r:.80}")
    with locked(folder):
        for name, lines in entries.items():
            write_atomically(folder / name, "".join(f"{line}\n" for line in lines).encode())
    return [folder / name for name in LISTS]


def says(protocol: str) -> tuple[str, float | None]:
    """What is right in a protocol, and what guessing gets in %; see PROTOCOLS."""
    return PROTOCOLS.get(protocol, (protocol, None))


def interval(share: Scores | None) -> str:
    """`78.1 (76.0–80.2)`, with the name of a baseline; a dash for None."""
    return format_interval(share["value"], (share["low"], share["high"])) if share else "–"


def to_text(models: Sequence[Scores]) -> str:
    """A table per model and protocol: score with its interval, the model without image, the best blind baseline."""
    lines: list[str] = []
    for model in models:
        lines += [f"{model['model']}: " + ", ".join(f"{n:,} {name}" for name, n in model["about"].items() if n), ""]
        for protocol in dict.fromkeys(row["protocol"] for row in model["scores"]):
            said, chance = says(protocol)
            cells = [[f"{protocol}, %", "cases", "score", "without image", "blind baseline", "chance"]]
            for row in (row for row in model["scores"] if row["protocol"] == protocol):
                shares = [interval(row[name]) for name in ("model", "without_image", "baseline")]
                shares[2] += f" {row['baseline']['name']}" if row["baseline"] else ""
                cells.append(
                    [row["group"], f"{row['model']['n']:,}", *shares, "–" if chance is None else f"{chance:.0f}"]
                )
            lines += [f"{said}:", *aligned(cells), ""]
    return "\n".join(lines).rstrip()
