"""The word-level tasks from the folders of a run and of models to Markdown and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...tables.columns import UNSPLIT
from ..captions import Captions, read_captions
from ..features import Features, read_features
from ..figures import format_interval, markdown_table, write_results
from ..trainer.pictures import photo_files
from ..vocabulary import SPECIALS, build_vocabulary
from .blanks import (
    FILE,
    KINDS,
    TOP,
    BlanksConfig,
    blank_ranks,
    frequency_ranks,
    read_blanks,
    recalls,
    train_filler,
    word_tables,
)
from .config import ProbeConfig, SaliencyConfig
from .objects import (
    ImageToWordConfig,
    Objects,
    frequent_objects,
    mean_average_precision,
    most_frequent,
    train_classifier,
)
from .saliency import choose_shown, draw_saliency, find_saliency, summarize

Say = Callable[[str], None]


def probe(task: str, run: Path, config: ProbeConfig, output: Path, say: Say = lambda line: None) -> str:
    """Run a task of TASKS; writes TASK.json and TASK.md to `output`, and returns the tables as Markdown.

    Raises FileNotFoundError or ValueError for a run without what the task needs, and as `word_tables`.
    """
    torch.set_num_threads(config.threads)
    captions = read_captions(run)
    features = read_features(run, captions.image_ids, config.features)
    train, test = (captions_of(captions, features, splits) for splits in (config.train_splits, [config.split]))
    values = features.values.float()
    values = values.mean(1) if values.dim() == 3 else values  # those of regions are averaged
    metrics, text = TASKS[task](run, config, captions, values, train, test, say)
    return write_results(output, task, metrics, text)


def image_to_word(
    run: Path, config: ProbeConfig, captions: Captions, features: Tensor, train: Tensor, test: Tensor, say: Say
) -> tuple[dict[str, Any], str]:
    """VSE-C's Table 6: how well each table of word vectors tells which objects an image shows.

    features: (I, D). train, test: captions, as indices. Returns the metrics, and their table as Markdown.
    """
    objects = frequent_objects(run, captions.image_ids, config.min_count)
    tables = word_tables(config.vectors, config.models, objects.words, config.seed)
    known = ~tables[FILE].isnan().any(1)
    train, test = (captions.image[rows].unique() for rows in (train, test))
    words = list(compress(objects.words, known.tolist()))
    seen, tested = (Objects(words, objects.present[at][:, known], objects.absent[at][:, known]) for at in (train, test))
    settings = ImageToWordConfig(seed=config.seed)
    settings = replace(settings, epochs=config.epochs or settings.epochs)
    frequent = most_frequent(seen)
    scores: dict[str, Callable[[Tensor], Tensor]] = {"most frequent objects": lambda x: frequent.expand(len(x), -1)}
    for name, table in tables.items():
        vectors = table[known]
        say(f"{name}: {vectors.shape[1]} numbers a word")
        scores[name] = partial(train_classifier(vectors, features[train], seen, settings).scores, vectors)
    found = {name: mean_average_precision(score, features[test], tested, config.seed) for name, score in scores.items()}
    metrics = {
        "objects": len(words),
        "without vector": int((~known).sum()),
        "train images": len(train),
        "test images": found[FILE][2],
        "epochs": settings.epochs,
        "rows": {name: {"MAP": mean, "interval": list(interval)} for name, (mean, interval, _) in found.items()},
    }
    head = (
        f"{metrics['objects']} objects, {len(train):,} images to train on in {settings.epochs} epochs, "
        f"{metrics['test images']:,} to test; 95 % bootstrap intervals over images."
    )
    rows = [[name, format_interval(mean, interval)] for name, (mean, interval, _) in found.items()]
    return metrics, f"{head}\n\n{markdown_table(['image to word', 'MAP'], rows)}"


def fill_blanks(
    run: Path, config: ProbeConfig, captions: Captions, features: Tensor, train: Tensor, test: Tensor, say: Say
) -> tuple[dict[str, Any], str]:
    """VSE-C's Table 7: how well blanked words are found with each table of word vectors, and without the image.

    Arguments and result as those of `image_to_word`.
    """
    vocabulary = build_vocabulary((captions.texts[int(n)].as_py() for n in train), config.min_count or 4)
    tables = word_tables(config.vectors, config.models, vocabulary.words[len(SPECIALS) :], config.seed)
    known = torch.cat([torch.zeros(len(SPECIALS), dtype=torch.bool), ~tables[FILE].isnan().any(1)])
    choices = known.nonzero()[:, 0]
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
        filler = train_filler(words, features, seen, own)
        found[name] = recalls(blank_ranks(filler, features, tested, choices), tested.kind)
    metrics = {
        "words": len(choices),
        "train captions": len(seen.image),
        "blanks": {name: int((tested.kind == n).sum()) for n, name in enumerate(KINDS)},
        "epochs": settings.epochs,
        "states": settings.states,
        "rows": found,
    }
    blanks = ", ".join(f"{int((tested.kind == n).sum()):,} of a {name}" for n, name in enumerate(KINDS))
    head = (
        f"{len(seen.image):,} captions to train on in {settings.epochs} epochs, {settings.states} units "
        f"per GRU; blanks: {blanks}; {len(choices):,} words to choose from."
    )
    columns = [(name, f"R@{k}") for name in (*KINDS, "both") for k in TOP]
    rows = [
        [name, *(f"{one[kind][k]:.1f}" if kind in one else "" for kind, k in columns)] for name, one in found.items()
    ]
    return metrics, f"{head}\n\n{markdown_table(['fill in the blank', *(' '.join(pair) for pair in columns)], rows)}"


TASKS = {"words": image_to_word, "blanks": fill_blanks}


def saliency(model: Path, run: Path, photos: Path | None, output: Path, config: SaliencyConfig) -> str:
    """VSE-C's Figure 2 with a measure: writes saliency.json, .md and .png to `output`; returns the table as Markdown.

    photos: the folder of the run's photos, to draw beside the negatives. Raises as `find_saliency`.
    """
    negatives = find_saliency(model, run, config)
    metrics = summarize(negatives, config.seed)
    rows = []
    for name, one in metrics.items():
        share, beyond = (format_interval(one[key], one[f"{key} interval"]) for key in ("share", "beyond chance"))
        rows.append([name, share, f"{one['chance']:.1f}", beyond, f"{one['negatives']:,}"])
    columns = ["saliency on edited words, %", "mean share", "by chance", "difference", "negatives"]
    text = write_results(output, "saliency", metrics, markdown_table(columns, rows))
    files = {} if photos is None else photo_files(run, photos)
    draw_saliency(choose_shown(negatives, files), files, output / "saliency.png")
    return text


def captions_of(captions: Captions, features: Features, splits: Sequence[str]) -> Tensor:
    """The captions, as indices (n,), of these splits whose images have features. Raises ValueError for none."""
    rows = captions.for_metrics(captions.of_splits(splits))
    rows = rows[features.available[captions.image[rows]]]
    if not len(rows):
        known = ", ".join(name or UNSPLIT for name in captions.splits.unique().to_pylist())
        raise ValueError(f"split must have captions of images with features ({known}), was: {', '.join(splits)}")
    return rows
