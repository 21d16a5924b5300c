"""Score models on a run or a published set. Scores are plain JSON, see `ModelScores`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np

from ...schemas.messages import did_you_mean
from ..engine.errors import require_libraries
from ..engine.lock import locked
from ..engine.progress import Progress
from ..engine.storage import refuse_link, write_atomically
from ..models.clip.pretrained import REPOSITORY
from ..models.figures import format_interval, ratios_with_intervals
from ..quality.bias.baselines import TextPair, format_rule, most_telling, shorter
from ..quality.bias.measure import cached_reports, read_corpus
from ..report.tables import text_table
from .encoders import ENCODERS, LISTS, arrays, embed, trained
from .protocols import ProtocolOutcome, Vectors, measure, unit
from .test_set import ScoreConfig, TestSet, is_run, read_test_set

MODELS = {  # kinds of models: what stands before the colon in a model's name -> what stands after it
    "npy": "IMAGES,TEXTS",
    "negcap": "FOLDER",
    "hf": "FOLDER",
    "open_clip": "ARCHITECTURE:WEIGHTS",
    "sentence-transformers": "FOLDER",
    "endpoint": "URL#MODEL",
}


class ProtocolRule(NamedTuple):
    """When a model is right in a protocol, and the % that guessing gets; None if the number of candidates decides."""

    right: str
    chance: float | None


PROTOCOLS = {
    "pairs": ProtocolRule("the caption scores above its negative", 50.0),
    "half-truth": ProtocolRule("the caption scores above the negative that only adds to it", 50.0),
    "two captions": ProtocolRule("both captions of the image score above the negative", 100 / 3),
    "two captions, text only": ProtocolRule("both captions are nearer to each other than to the negative", 100 / 3),
    "text": ProtocolRule("for two images, each own caption scores above the other", 25.0),
    "image": ProtocolRule("for two captions, each own image scores above the other", 25.0),
    "group": ProtocolRule("both", 100 / 6),
    "image to text": ProtocolRule("an own caption ranks first among all captions", chance=None),
    "image to text, own negatives": ProtocolRule("the same with the negatives of the own captions", chance=None),
    "image to text, all negatives": ProtocolRule("the same with all negatives", chance=None),
    "both orders": ProtocolRule("of caption and negative, the model chooses the caption in either order", 25.0),
    "yes or no": ProtocolRule("the model says yes to the caption, and no to its negative", 25.0),
}
CACHE = Path(".cache", "score")  # of a published set


class Percentage(TypedDict):
    """A percentage of n cases that are right, and the bounds of its 95 % interval."""

    value: float
    low: float
    high: float
    n: int


class Baseline(TypedDict):
    """The most telling baseline of `negcap blind`: its percentage, without a look at the image, and its name."""

    name: str
    value: float
    low: float
    high: float


class ProtocolScore(TypedDict):
    """The score of a model in a protocol on a group of operators; None for what cannot be asked there.

    without_image: of the same model. baseline: of `negcap blind`. chance: what guessing gets.
    """

    protocol: str
    group: str
    model: Percentage
    without_image: Percentage | None
    baseline: Baseline | None
    chance: float | None


class ModelScores(TypedDict):
    """The scores of a model, and how it was asked: counts of images, captions, pairs …"""

    model: str
    about: dict[str, int]
    scores: list[ProtocolScore]


class GroupOfProtocol(NamedTuple):
    """The protocol and the group of cases, such as an operator, that a baseline is measured on."""

    protocol: str
    group: str


def score(source: Path, models: Sequence[str], config: ScoreConfig, progress: Progress) -> list[ModelScores]:
    """How often each model puts a caption above its negatives, and more protocols, with 95 % intervals.

    Args:
        source: a run or a published set. Vectors and answers are kept in the run, or beside the set, also if it fails.
        models: as `KIND:PATH` (`negcap score --help`).
        config: what is scored, and how.
        progress: told of vectors and answers.

    Raises:
        FileNotFoundError, ValueError: an unusable source, model or image.
        ImportError: a library is missing.
    """
    for model in models:
        _check_model(model)
    # The names of all models are checked, and all files of the set are read, before the first vector is computed.
    tests = read_test_set(source, config)
    blind = baselines(tests, source, config.seed)
    place = source
    if not is_run(source):
        place = (source if source.is_dir() else source.parent) / CACHE
        refuse_link(place.parent)
        refuse_link(place)
    scores: list[ModelScores] = []
    for model in models:
        if model.startswith("endpoint:"):
            from .chat import ask

            outcomes, about = ask(model.removeprefix("endpoint:"), model, tests, place, config, progress)
        else:
            outcomes = measure(_vectors_of_model(model, tests, source, place, config, progress), tests)
            about = {
                "images": len(tests.images),
                "captions": len(tests.captions),
                "pairs": len(tests.pairs),
                "pairs of images": len(tests.two_images),
            }
        about = {**about, "images left out, missing": tests.missing}
        scores.append({"model": model, "about": about, "scores": protocol_scores(outcomes, tests, blind, config)})
    return scores


def _check_model(model: str) -> None:
    """Raise ValueError for a name that is not KIND:PATH with a kind of MODELS, ImportError if its libraries miss."""
    kind, _, path = model.partition(":")
    if kind not in MODELS or not path:
        forms = ", ".join(f"{known_kind}:{form}" for known_kind, form in MODELS.items())
        is_named = REPOSITORY.fullmatch(model) or Path(model).is_dir()
        hint = f"; did you mean hf:{model}?" if is_named else did_you_mean(kind, MODELS)
        raise ValueError(f"model must be one of {forms}, was: {model}{hint}")
    if kind in (*ENCODERS, "negcap"):
        # One error names all missing libraries. scikit-learn is needed by the text-only baselines, which run before the
        # model: they would ask for it alone, and the model for the others in a second error.
        of_kind = ("transformers", "PIL.Image") if kind == "hf" else ()
        needed = f'{kind} models need more libraries: pip install "negcap[score]"'
        require_libraries(needed, "torch", "sklearn", *of_kind)


def _vectors_of_model(
    model: str, tests: TestSet, source: Path, place: Path, config: ScoreConfig, progress: Progress
) -> Vectors:
    """The unit vectors that a model, named as KIND:PATH, gives to the images and texts of a test set.

    source: the run or published set that the test set is of. place: the folder in which an encoder's vectors are kept.
    """
    kind, _, path = model.partition(":")
    if kind == "npy":
        images, texts = arrays(path, tests)
    elif kind == "negcap":
        images, texts = trained(path, tests, source, config)
    else:
        images, texts = embed(ENCODERS[kind](path, config), tests, place, config.batch, progress)
    if images.shape[1] != texts.shape[1]:
        widths = f"{images.shape[1]} and {texts.shape[1]}"
        raise ValueError(f"{model}: vectors of images and texts must be equally wide, are {widths}")
    return Vectors.of_each(unit(images, f"{model}: vectors of images"), unit(texts, f"{model}: vectors of texts"))


def protocol_scores(
    outcomes: Sequence[ProtocolOutcome], tests: TestSet, blind: Mapping[GroupOfProtocol, Baseline], config: ScoreConfig
) -> list[ProtocolScore]:
    """The percentages right, with and without the image, beside the baselines and chance.

    All intervals are of one bootstrap over images, so that they can be compared.

    Args:
        outcomes: of each protocol and group, which cases are right.
        tests: the test set.
        blind: the accuracy of baselines that see no image.
        config: with the seed and number of resamples.
    """
    images = len(tests.images)
    counts: list[np.ndarray] = []  # (I,) of each percentage: how many cases of each image are right
    sizes: list[np.ndarray] = []  # (I,) how many cases each image has
    for outcome in outcomes:
        for right in (outcome.right, outcome.blind):
            if right is not None:
                counts.append(np.bincount(outcome.image, right, images))
                sizes.append(np.bincount(outcome.image, minlength=images))
    percentages = iter(ratios_with_intervals(np.stack(counts, 1), np.stack(sizes, 1), config.seed, config.resamples))

    def next_percentage(outcome: ProtocolOutcome) -> Percentage:
        """The next percentage, in the order in which the counts were listed above."""
        value, (low, high) = next(percentages)
        return {"value": value, "low": low, "high": high, "n": len(outcome.right)}

    return [
        {
            "protocol": outcome.protocol,
            "group": outcome.group,
            "model": next_percentage(outcome),
            "without_image": None if outcome.blind is None else next_percentage(outcome),
            "baseline": blind.get(GroupOfProtocol(outcome.protocol, outcome.group)),
            "chance": rule_of(outcome.protocol).chance,
        }
        for outcome in outcomes
    ]


def baselines(tests: TestSet, source: Path, seed: int) -> dict[GroupOfProtocol, Baseline]:
    """The most telling blind baseline of `pairs` and `half-truth`, by group. Reports are cached in `source`.

    Only rules are tried for half-truths, whose shorter text is true by construction, and for groups that are too small
    to train a baseline.
    """
    corpus = read_corpus(source) if is_run(source) else []
    reports = cached_reports(source if source.is_dir() else source.parent, seed, corpus)
    # By the baseline that tells most, as a model must be better than any rule that sees no image.
    telling: dict[GroupOfProtocol, Baseline] = {}
    for group, members in tests.groups.items():
        # `members` is True for the numbers of the operators in the group; a pair has the number of its operator.
        rows = tests.first_pairs[members[tests.first_pairs["operator"]]]
        for protocol, cases in (("pairs", rows), ("half-truth", rows[rows["adds"]])):
            if not len(cases):
                continue
            columns = (cases["true"].tolist(), cases["false"].tolist(), cases["image"].tolist())
            pairs = [
                TextPair(tests.texts[true], tests.texts[false], tests.images[image].id)
                for true, false, image in zip(*columns, strict=True)
            ]
            tried = {"format rule": format_rule(pairs), "shorter is true": shorter(pairs)}
            # Of half-truths the rule "shorter is true" is always right, and a trained baseline could only learn it.
            if protocol == "pairs":
                with suppress(ValueError):  # too few to train on
                    tried = reports(group, pairs).baselines
            name, best = most_telling(tried)
            telling[GroupOfProtocol(protocol, group)] = {
                "name": name,
                "value": best.percent,
                "low": best.low,
                "high": best.high,
            }
    return telling


def write_lists(source: Path, folder: Path, config: ScoreConfig) -> list[Path]:
    """Write images.txt (files, else ids) and texts.txt, an entry a line: the order of rows of `npy:IMAGES,TEXTS`."""
    tests = read_test_set(source, config)
    images = [image.id if image.file is None else str(image.file) for image in tests.images]
    entries = dict(zip(LISTS, (images, list(tests.texts)), strict=True))
    for name, lines in entries.items():
        # A text of several lines would shift all later lines against the rows of the arrays, without an error.
        if bad := next((line for line in lines if "\n" in line or "\r" in line), None):
            raise ValueError(f"{name} has one entry a line, one has several lines: {bad!r:.80}")
    # The rows of both lists belong together: no other command is to write one of them meanwhile.
    with locked(folder):
        for name, lines in entries.items():
            write_atomically(folder / name, "".join(f"{line}\n" for line in lines).encode())
    return [folder / name for name in LISTS]


def rule_of(protocol: str) -> ProtocolRule:
    """What is right in a protocol; a protocol without an entry in PROTOCOLS is described by its name."""
    return PROTOCOLS.get(protocol, ProtocolRule(protocol, chance=None))


def interval(share: Percentage | Baseline | None) -> str:
    """`78.1 (76.0–80.2)`; a dash for None."""
    return format_interval(share["value"], (share["low"], share["high"])) if share else "–"


def to_text(models: Sequence[ModelScores]) -> str:
    """A table per model and protocol: score with its interval, the model without image, the best blind baseline."""
    lines: list[str] = []
    for model in models:
        counts = ", ".join(f"{count:,} {name}" for name, count in model["about"].items() if count)
        lines += [f"{model['model']}: {counts}", ""]
        by_protocol: dict[str, list[ProtocolScore]] = {}
        for row in model["scores"]:
            by_protocol.setdefault(row["protocol"], []).append(row)
        for protocol, rows in by_protocol.items():
            head = [f"{protocol}, %", "cases", "score", "without image", "blind baseline", "chance"]
            lines += [f"{rule_of(protocol).right}:", *text_table([head, *map(_table_cells, rows)]), ""]
    return "\n".join(lines).rstrip()


def _table_cells(row: ProtocolScore) -> list[str]:
    """The cells of a score in the table of its protocol."""
    baseline = row["baseline"]
    name = f" {baseline['name']}" if baseline else ""
    chance = row["chance"]
    return [
        row["group"],
        f"{row['model']['n']:,}",
        interval(row["model"]),
        interval(row["without_image"]),
        interval(baseline) + name,
        "–" if chance is None else f"{chance:.0f}",
    ]
