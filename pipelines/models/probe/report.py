"""The word-level tasks from the folders of a run and of models to Markdown and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ....schemas.features import TABLE
from ...engine.storage import write_atomically, write_json
from ...tables.columns import UNSPLIT
from ..captions import Captions, read_captions
from ..config import cores
from ..features import Features, read_features
from ..markdown import format_interval, markdown_table
from ..trainer.pictures import photo_files
from ..vocabulary import SPECIALS, build_vocabulary
from .blanks import (
    KINDS,
    TOP,
    BlanksConfig,
    blank_ranks,
    frequency_ranks,
    read_blanks,
    recalls,
    train_filler,
)
from .image_to_word import (
    ImageToWordConfig,
    mean_average_precision,
    most_frequent,
    train_classifier,
)
from .objects import Objects, frequent_objects
from .saliency import SaliencyConfig, find_saliency
from .saliency_figure import choose_shown, draw_saliency
from .word_tables import FILE, word_tables

Say = Callable[[str], None]
TASKS = ("words", "blanks")


@dataclass(frozen=True)
class ProbeConfig:
    """A word-level task: what it is trained and tested on.

    vectors: a file of word vectors. models: the folders of the models whose vectors are joined to them. split: tested
    on; train_splits: trained on. features: as in TrainConfig. min_count: occurrences that an object (words), or a word
    of the vocabulary (blanks), needs; None: the default of the task. epochs, hidden: of the task; None: its default.
    """

    vectors: Path
    models: tuple[Path, ...] = ()
    split: str = "test"
    train_splits: tuple[str, ...] = ("train", "restval")
    features: str = TABLE
    min_count: int | None = None
    epochs: int | None = None
    hidden: int | None = None
    seed: int = 0
    threads: int = field(default_factory=cores)

    def __post_init__(self) -> None:
        for name in ("epochs", "hidden", "min_count"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be >= 1, was: {value}")


def probe(task: str, run: Path, config: ProbeConfig, output: Path, say: Say = lambda line: None) -> str:
    """Run a task of TASKS; writes TASK.json and TASK.md to `output`, and returns the tables as Markdown.

    Raises FileNotFoundError or ValueError for a run without what the task needs, and as `word_tables`.
    """
    torch.set_num_threads(config.threads)
    captions = read_captions(run)
    features = read_features(run, captions.image_ids, config.features)
    run_task = {"words": image_to_word, "blanks": fill_blanks}[task]
    metrics = run_task(run, config, captions, features, say)
    text = (words_markdown if task == "words" else blanks_markdown)(metrics)
    output.mkdir(parents=True, exist_ok=True)
    write_json(output / f"{task}.json", metrics)
    write_atomically(output / f"{task}.md", (text + "\n").encode())
    return text


def image_to_word(run: Path, config: ProbeConfig, captions: Captions, features: Features, say: Say) -> dict[str, Any]:
    """VSE-C's Table 6: how well each table of word vectors tells which objects an image shows."""
    objects = frequent_objects(run, captions.image_ids, config.min_count)
    tables = word_tables(config.vectors, config.models, objects.words, config.seed)
    known = ~tables[FILE].isnan().any(1)
    objects = Objects(
        [word for word, has in zip(objects.words, known.tolist(), strict=True) if has],
        objects.present[:, known],
        objects.absent[:, known],
    )
    values = pooled(features.values)
    train, test = (images_of(captions, features, splits) for splits in (config.train_splits, [config.split]))
    settings = ImageToWordConfig(seed=config.seed)
    settings = replace(settings, epochs=config.epochs or settings.epochs)
    seen, tested = (Objects(objects.words, objects.present[at], objects.absent[at]) for at in (train, test))
    frequent = most_frequent(seen)
    rows: dict[str, Callable[[Tensor], Tensor]] = {"most frequent objects": lambda x: frequent.expand(len(x), -1)}
    for name, table in tables.items():
        words = table[known]
        say(f"{name}: {words.shape[1]} numbers a word")
        classifier = train_classifier(words, values[train], seen, settings)
        rows[name] = partial(classifier.scores, words)
    found = {name: mean_average_precision(score, values[test], tested, config.seed) for name, score in rows.items()}
    return {
        "objects": len(objects.words),
        "without vector": int((~known).sum()),
        "train images": len(train),
        "test images": len(found[FILE].per_image),
        "epochs": settings.epochs,
        "rows": {name: {"MAP": one.mean, "interval": list(one.interval)} for name, one in found.items()},
    }


def words_markdown(metrics: Mapping[str, Any]) -> str:
    """The table of `image_to_word`."""
    head = (
        f"{metrics['objects']} objects, {metrics['train images']:,} images to train on in {metrics['epochs']} epochs, "
        f"{metrics['test images']:,} to test; 95 % bootstrap intervals over images."
    )
    rows = [[name, format_interval(one["MAP"], one["interval"])] for name, one in metrics["rows"].items()]
    return f"{head}\n\n{markdown_table(['image to word', 'MAP'], rows)}"


def fill_blanks(run: Path, config: ProbeConfig, captions: Captions, features: Features, say: Say) -> dict[str, Any]:
    """VSE-C's Table 7: how well blanked words are found with each table of word vectors, and without the image."""
    train, test = (captions_of(captions, features, splits) for splits in (config.train_splits, [config.split]))
    least = config.min_count or 4
    vocabulary = build_vocabulary((captions.texts[int(n)].as_py() for n in train), least)
    tables = word_tables(config.vectors, config.models, vocabulary.words[len(SPECIALS) :], config.seed)
    known = torch.cat([torch.zeros(len(SPECIALS), dtype=torch.bool), ~tables[FILE].isnan().any(1)])
    choices = known.nonzero()[:, 0]
    values = pooled(features.values)
    seen, tested = (
        read_blanks(run, [captions.ids[int(n)] for n in rows], captions.image[rows], vocabulary, known)
        for rows in (train, test)
    )
    settings = BlanksConfig(seed=config.seed)
    settings = replace(settings, epochs=config.epochs or settings.epochs, states=config.hidden or settings.states)
    found = {"most frequent words": recalls(frequency_ranks(seen, tested), tested.kind)}
    for name, table in {f"{FILE}, without the image": tables[FILE], **tables}.items():
        words = torch.cat([torch.zeros(len(SPECIALS), table.shape[1]), table.nan_to_num()])
        own = replace(settings, image=not name.endswith("without the image"))
        say(f"{name}: {words.shape[1]} numbers a word")
        filler = train_filler(words, values, seen, own)
        found[name] = recalls(blank_ranks(filler, values, tested, choices), tested.kind)
    return {
        "words": len(choices),
        "train captions": len(seen.image),
        "blanks": {name: int((tested.kind == n).sum()) for n, name in enumerate(KINDS)},
        "epochs": settings.epochs,
        "states": settings.states,
        "rows": found,
    }


def blanks_markdown(metrics: Mapping[str, Any]) -> str:
    """The table of `fill_blanks`."""
    blanks = ", ".join(f"{count:,} of a {name}" for name, count in metrics["blanks"].items())
    head = (
        f"{metrics['train captions']:,} captions to train on in {metrics['epochs']} epochs, {metrics['states']} units "
        f"per GRU; blanks: {blanks}; {metrics['words']:,} words to choose from."
    )
    columns = [(name, f"R@{k}") for name in (*KINDS, "both") for k in TOP]
    rows = [
        [name, *(f"{one[kind][k]:.1f}" if kind in one else "" for kind, k in columns)]
        for name, one in metrics["rows"].items()
    ]
    return f"{head}\n\n{markdown_table(['fill in the blank', *(' '.join(pair) for pair in columns)], rows)}"


def saliency(model: Path, run: Path, photos: Path | None, output: Path, config: SaliencyConfig) -> str:
    """VSE-C's Figure 2 with a measure: writes saliency.json, .md and .png to `output`; returns the table as Markdown.

    photos: the folder of the run's photos, to draw beside the negatives. Raises as `find_saliency`.
    """
    found = find_saliency(model, run, config)
    rows = [
        [
            name,
            format_interval(one["share"], one["share interval"]),
            f"{one['chance']:.1f}",
            format_interval(one["beyond chance"], one["beyond chance interval"]),
            f"{one['negatives']:,}",
        ]
        for name, one in found.metrics.items()
    ]
    columns = ["saliency on edited words, %", "mean share", "by chance", "difference", "negatives"]
    text = markdown_table(columns, rows)
    output.mkdir(parents=True, exist_ok=True)
    write_json(output / "saliency.json", found.metrics)
    write_atomically(output / "saliency.md", (text + "\n").encode())
    files = {} if photos is None else photo_files(run, photos)
    draw_saliency(choose_shown(found.negatives, files), files, output / "saliency.png")
    return text


def pooled(values: Tensor) -> Tensor:
    """Features (I, D), float32; those of regions (I, R, D) are averaged."""
    return values.float().mean(1) if values.dim() == 3 else values.float()


def images_of(captions: Captions, features: Features, splits: Sequence[str]) -> Tensor:
    """The images, as indices (n,), of captions of these splits that have features. Raises ValueError if none has."""
    return captions.image[captions_of(captions, features, splits)].unique()


def captions_of(captions: Captions, features: Features, splits: Sequence[str]) -> Tensor:
    """The captions, as indices (n,), of these splits whose images have features. Raises ValueError for none."""
    rows = captions.for_metrics(captions.of_splits(splits))
    rows = rows[features.available[captions.image[rows]]]
    if not len(rows):
        known = ", ".join(name or UNSPLIT for name in captions.splits.unique().to_pylist())
        raise ValueError(f"split must have captions of images with features ({known}), was: {', '.join(splits)}")
    return rows
