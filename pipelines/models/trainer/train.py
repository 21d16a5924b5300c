"""The training loop of the embedding models: reads the folder of a run, writes that of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from ....schemas.captions import LANGUAGE
from ...engine.lock import locked
from ..batches import CaptionBatch, shuffled_batches
from ..checkpoint import epoch_seed, prepare_folder
from ..config import PER_FAMILY, RESUMABLE, TrainConfig
from ..data import (
    KNOWN_WORDS,
    Corpus,
    Selection,
    component_names,
    encode_run,
    read_captions,
    read_graphs,
    split_captions,
    unknown_words_line,
)
from ..data import TABLES as COMPONENT_TABLES
from ..device import choose_device, load_ahead, rows_to_device, to_device, to_device_if_it_fits
from ..dual import SUMMED
from ..evaluation.protocols import first_negatives, ranks_with_own_negatives, score_negatives
from ..evaluation.retrieval import TOP, embed_split, recall_metrics, retrieval_metrics
from ..features import read_features
from ..figures import new_figure, plot_metric, write_png
from ..fit import Line, Say, TrainingStep, fit, silent
from ..vocabulary import build_vocabulary, read_vectors
from . import OBJECTIVES
from .evaluate import believed, left_out


@dataclass(frozen=True, kw_only=True)
class TrainingData(Corpus):
    """A corpus, and what is chosen of it for a training; `to_device_if_it_fits` has placed the features. train, validation:
    (n,) captions; those to train on are in the first language. attack: (P,) the negatives of validation captions that
    join the candidates if the config selects by `attacked`. sampler: see Objective.
    """

    train: Tensor
    validation: Tensor
    attack: Tensor
    sampler: Any


def read_training_data(config: Any) -> TrainingData:
    """Read the tables of a run. Raises FileNotFoundError or ValueError if any is missing or unfit for training."""
    device = choose_device(config.device)
    objective = OBJECTIVES[config.model]
    captions = read_captions(config.run, config.extra, config.languages)
    features = read_features(config.run, captions.image_ids, config.table)
    train, validation = split_captions(
        captions, config.train_splits, config.validation_split, config.validation_images, features.available
    )
    if config.left_out:
        train = train[~left_out(captions, train, *config.left_out)]
    if config.judges:
        train = train[believed(config, captions, features, train)]
    if config.train_captions:
        extra = captions.are_extra(train)
        own = [captions.in_language(train[~extra], language) for language in captions.languages]
        train = torch.cat([*(captions.first_of_images(rows, config.train_captions) for rows in own), train[extra]])
    if len(train) < 2:
        raise ValueError(f"train_splits must have 2 captions of images with features, have: {len(train)}")
    captions.require_every_language(train, "to train on")
    captions.require_every_language(validation, "to validate on")
    names = component_names(config.run) if objective.needs_components else ()
    vocabularies = {}
    for language in config.languages:
        spoken = (captions.texts[n].as_py() for n in captions.in_language(train, language).tolist())
        vocabularies[language] = build_vocabulary(spoken, config.min_count, names)
    features = features._replace(values=to_device_if_it_fits(features.values, device))
    corpus = encode_run(config.run, captions, vocabularies, features, device, negatives_to_read(config))
    attack = torch.empty(0, dtype=torch.long)
    if getattr(config, "select", "rsum") == "attacked":
        attack = first_negatives(corpus, validation, torch.ones_like(corpus.known), PER_FAMILY)
        if objective.needs_components or not len(attack):
            raise ValueError("select attacked needs negatives of validation captions, and a model without components")
    if objective.needs_components:
        graphs = read_graphs(config.run, captions, corpus.vocabulary, device)
        if config.drop_components:
            graphs = graphs.thinned(train, config.drop_components, config.seed)
        corpus = corpus.with_graphs(graphs)
    sampler = objective.sampler(config, corpus, train)
    train = captions.in_language(train, config.languages[0])
    return TrainingData(**vars(corpus), train=train, validation=validation, attack=attack, sampler=sampler)


def negatives_to_read(config: Any) -> Selection | None:
    """The negatives that a training reads, of captions to train and to validate on; None: none."""
    if not config.reads_negatives:
        return None
    splits = (*config.train_splits, config.validation_split)
    return Selection(config.negative_families, config.negative_operators, splits, to_train=True)


def train(config: TrainConfig, *, overwrite: bool = False, say: Say = silent) -> Path:
    """Train a model and return its folder; an interrupted training resumes after the last epoch it completed.

    The folder holds config.json, vocabulary.json, metrics.jsonl (one line per epoch), curves.png, and as safetensors
    and JSON the weights of the epoch with the highest rsum on validation (`best`) and of the last one, with the
    optimizer (`last`). On one machine the same config gives the same weights, with or without interruptions; see
    `deterministic` for a GPU. overwrite: replace a model trained with other settings. say: called with one line of
    progress per epoch. Raises FileNotFoundError and ValueError for a run that lacks what the training needs, ValueError
    for a folder that holds anything else, LockedError for one that another command writes.
    """
    with locked(config.output):
        return _train(config, overwrite, say)


def _train(config: TrainConfig, overwrite: bool, say: Say) -> Path:
    torch.set_num_threads(config.threads)
    data = read_training_data(config)
    objective = OBJECTIVES[config.model]
    size = data.features.values.shape[-1]
    grounded = getattr(config, "grounded_dim", 0)
    if grounded and not config.vectors:
        raise ValueError(f"grounded_dim needs vectors to be joined to, has none: {grounded}")
    files = {config.languages[0]: config.vectors, **dict(getattr(config, "other_vectors", ()))}
    size_of = config.word_dim
    read = {name: read_vectors(file, data.vocabularies[name], size_of) for name, file in files.items() if file}
    words, *others = [(len(known), read.get(language)) for language, known in data.vocabularies.items()]
    model = objective.build(config, size, *words, *others).to(data.device)
    mean = deepcopy(model).requires_grad_(False)
    components = COMPONENT_TABLES if objective.needs_components else ()
    tables = ("captions", "negatives", config.table, *components, *filter(None, [config.extra]))
    prepare_folder(config, RESUMABLE, size, data.features.backbone, tables, data.vocabularies, overwrite, say)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    fused = data.device.type == "cuda"
    optimizer = torch.optim.Adam(trained, config.learning_rate, weight_decay=config.weight_decay, fused=fused)

    sampler = str(data.sampler or "")
    without = int((~data.features.available).sum())
    about = f"{config.model}: {len(data.train):,} captions to train on, {len(data.validation):,} to validate, "
    about += f"{len(data.vocabulary):,} words" + (f", {sampler}" if sampler else "")
    about += f"; {without:,} images have no features" if without else ""
    if lost := unknown_words_line(data.inserting, f"they are not trained on; {KNOWN_WORDS}"):
        say(lost)

    def step(drawn: tuple[CaptionBatch, Any], epoch: int) -> TrainingStep:
        terms = objective.losses(model, *drawn, config, epoch)
        return TrainingStep(torch.stack(list(terms.values())).sum(), terms, len(drawn[0].captions))

    def report(history: Sequence[Line]) -> None:
        draw_curves(history, config.output / "curves.png", config.model)
        line = history[-1]
        best = max(history, key=selected)
        rsum, highest = (its["validation"]["rsum"] for its in (line, best))
        shown = f"rsum {rsum:.1f} on validation (best {highest:.1f}, epoch {best['epoch']})"
        on = plateau(config, line)
        say(f"epoch {line['epoch']}: loss {line['loss']:.3f}, {shown}, {line['seconds']:.0f} s{on and f'; {on}'}")

    def selected(line: Line) -> float:
        return line["validation"][getattr(config, "select", "rsum")]

    fit(
        {"model": model},
        {"optimizer": optimizer},
        lambda epoch: epoch_batches(data, config, epoch),
        step,
        config.epochs,
        clip=config.clip,
        rate=lambda epoch, steps: config.rate(epoch),
        mean=mean,
        decay=config.average,
        evaluate=lambda line: {"validation": validate(mean, data)},
        select=selected,
        report=report,
        folder=config.output,
        say=say,
        about=about,
        length=-(-len(data.train) // config.batch_size),
    )
    return config.output


NEAR = 0.04  # the share by which a loss may differ from that of the plateau


def plateau(config: Any, line: Line) -> str:
    """What is said of an epoch whose loss is that of vectors which are all equal; empty of any other.

    While the hardest negative of most pairs is nearer than the true one, the loss falls by drawing all vectors
    together, down to one margin for each hinge: of the image, of the caption, and of the hardest own negative. Recalls
    rise there already, but models that end there are compared before they have learned to tell anything apart.
    """
    epoch = line["epoch"]
    hinges = 2
    if "sent" not in line["terms"] or config.model in SUMMED or epoch <= config.warm_up:
        return ""
    if config.trained_families and epoch > config.negatives_after:
        hinges += 1
    if abs(line["terms"]["sent"] / config.margin - hinges) > NEAR * hinges:
        return ""
    return f"loss = {hinges} margins: on the plateau of the hardest negative; more epochs or warm_up leave it"


def epoch_batches(data: TrainingData, config: Any, epoch: int) -> Iterator[tuple[CaptionBatch, Any]]:
    """The train captions of an epoch in random batches, each with what the objective samples for it."""
    seed = epoch_seed(config.seed, epoch)
    generator = Generator().manual_seed(seed)
    noise = Generator(data.device).manual_seed(seed)
    chosen = data.train
    image = data.captions.image
    if config.extra_share < 1:
        drawn = torch.rand(len(chosen), generator=generator) < config.extra_share
        chosen = chosen[~data.captions.are_extra(chosen) | drawn]
    batches = shuffled_batches(chosen, config.batch_size, generator)
    for captions, features in load_ahead(
        batches, lambda rows: rows_to_device(data.features.values, image[rows], data.device)
    ):
        sampled = data.sampler and data.sampler.sample(captions, generator)
        yield make_batch(data, captions, features, config, noise), sampled


def make_batch(data: TrainingData, captions: Tensor, features: Tensor, config: Any, noise: Generator) -> CaptionBatch:
    """A batch of captions (B,) and the features (B, …) of their images, a share `config.dropout` of which is set to 0;
    of several crops (B, R, D) a random one if the config pools by crop. noise: a generator on the data's device.
    """
    device = data.device
    image = data.captions.image[captions]
    if getattr(config, "image_pooling", "") == "crop" and features.dim() == 3:
        chosen = torch.randint(features.shape[1], (len(features),), generator=noise, device=device)
        features = features[torch.arange(len(features), device=device), chosen]
    if config.dropout:
        features = features * (torch.rand(features.shape, generator=noise, device=device) >= config.dropout)
    return CaptionBatch(captions, features, to_device(image[:, None] == image[None, :], device), data.texts)


def validate(model: Any, data: TrainingData) -> dict[str, float]:
    """Retrieval metrics of a model on the validation captions and their images, by name, see `retrieval_metrics`.

    They are of the first language; those of a further one begin with its code, "de t2i R@1", and rsum is the sum over
    all languages. With an attack also `attacked`, the sum of R@1, R@5 and R@10 of images when English negatives join
    their candidates.
    """
    split = embed_split(model, data, data.validation)
    languages = data.captions.languages
    ranks = {language: split.rank(number) for number, language in enumerate(languages)}
    metrics = retrieval_metrics(ranks[languages[0]])
    for language in languages[1:]:
        further = retrieval_metrics(ranks[language])
        metrics["rsum"] += further["rsum"]
        metrics |= {f"{language} {name}": value for name, value in further.items()}
    if len(data.attack):
        plain = ranks[LANGUAGE]
        own, _ = score_negatives(split, {"attack": data.attack}, plain.best)
        attacked = ranks_with_own_negatives(plain, own, data.attack, split.image_of_negative(data.attack))
        metrics["attacked"] = sum(recall_metrics(attacked)[f"R@{k}"] for k in TOP)
    return metrics


def draw_curves(history: Sequence[Mapping[str, Any]], path: Path, title: str) -> None:
    """Draw loss per pair, recalls on validation and rsum over the epochs as a PNG; history: lines of metrics.jsonl."""
    figure = new_figure(11, 3.6)
    left, middle, right = figure.subplots(1, 3)
    steps = []
    losses = []
    for line in history:
        parts = line["losses"]
        steps += [line["epoch"] - 1 + (n + 1) / len(parts) for n in range(len(parts))]
        losses += parts
    left.plot(steps, losses, color="tab:gray", linewidth=1)
    left.set(title=title, xlabel="epoch", ylabel="loss per pair", yscale="log")
    validation = [{"epoch": line["epoch"], **line["validation"]} for line in history]
    for way, style in (("i2t", "-"), ("t2i", "--")):
        for k, colour in ((1, "tab:blue"), (5, "tab:orange"), (10, "tab:green")):
            plot_metric(middle, validation, f"{way} R@{k}", f"{way} R@{k}", color=colour, linestyle=style)
    middle.set(xlabel="epoch", ylabel="recall on validation, %", ylim=(0, None))
    middle.legend(fontsize=7, ncols=2)
    plot_metric(right, validation, "rsum", "rsum", color="tab:red")
    right.set(xlabel="epoch", ylabel="rsum on validation")
    write_png(figure, path, 120)
