"""The training loop of the embedding models: reads the folder of a run, writes that of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from ....schemas.captions import LANGUAGE
from ...engine.lock import locked
from ..batches import BatchSampler, TrainingBatch, shuffled_batches
from ..checkpoint import epoch_seed, prepare_folder
from ..config import (
    PER_FAMILY,
    RESUMABLE,
    DualConfig,
    RecurrentConfig,
    TrainConfig,
    TrainWithNegativesConfig,
    UniVseConfig,
)
from ..data import (
    KNOWN_WORDS,
    Captions,
    Corpus,
    Selection,
    TrainAndValidation,
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
from ..encoders import EmbeddingModel
from ..evaluation.protocols import first_negatives, ranks_with_own_negatives, score_negatives
from ..evaluation.retrieval import TOP, embed_split, recall_metrics, retrieval_metrics
from ..features import ImageFeatures, read_features
from ..figures import COLOURS, label_axes, legend_below, new_figure, plot_metric, write_png
from ..fit import Line, Say, TrainingStep, fit, silent
from ..vocabulary import WordVocabulary, build_vocabulary, read_vectors
from . import OBJECTIVES
from .evaluate import accepted_by_judges, in_left_out_part


@dataclass(frozen=True, kw_only=True)
class TrainingData(Corpus):
    """A corpus, and what is chosen of it for a training; `to_device_if_it_fits` has placed the features.

    Attributes:
        train: (n,) captions to train on, in the first language.
        validation: (n,) captions to validate on.
        attack: (P,) the negatives of validation captions that join the candidates if the config selects by `attacked`.
        sampler: draws what the loss needs beside a batch, such as negatives; None: it needs nothing more.
    """

    train: Tensor
    validation: Tensor
    attack: Tensor
    sampler: BatchSampler | None


def read_training_data(config: TrainConfig) -> TrainingData:
    """Read the tables of a run. Raises FileNotFoundError or ValueError if any is missing or unfit for training."""
    device = choose_device(config.device)
    objective = OBJECTIVES[config.model]
    captions = read_captions(config.run, config.extra, config.languages)
    features = read_features(config.run, captions.image_ids, config.table)
    chosen = _choose_captions(config, captions, features)
    names = component_names(config.run) if objective.needs_components else ()
    vocabularies = _build_vocabularies(config, captions, chosen.train, names)
    features = features._replace(values=to_device_if_it_fits(features.values, device))
    corpus = encode_run(config.run, captions, vocabularies, features, device, negatives_to_read(config))
    attack = torch.empty(0, dtype=torch.long)
    if config.selected_by == "attacked":
        attack = first_negatives(corpus, chosen.validation, torch.ones_like(corpus.known), PER_FAMILY)
        if objective.needs_components or not len(attack):
            raise ValueError("select attacked needs negatives of validation captions, and a model without components")
    if objective.needs_components:
        graphs = read_graphs(config.run, captions, corpus.vocabulary, device)
        if isinstance(config, UniVseConfig) and config.drop_components:
            graphs = graphs.thinned(chosen.train, config.drop_components, config.seed)
        corpus = corpus.with_graphs(graphs)
    return TrainingData(
        **vars(corpus),
        train=captions.in_language(chosen.train, config.languages[0]),
        validation=chosen.validation,
        attack=attack,
        sampler=None if objective.sampler is None else objective.sampler(config, corpus, chosen.train),
    )


def _choose_captions(config: TrainConfig, captions: Captions, features: ImageFeatures) -> TrainAndValidation:
    """The captions to train and to validate on, in all languages. Raises ValueError if there are too few."""
    train, validation = split_captions(
        captions, config.train_splits, config.validation_split, config.validation_images, features.available
    )
    if config.left_out:
        train = train[~in_left_out_part(captions, train, config.left_out)]
    if config.judges:
        train = train[accepted_by_judges(config, captions, features, train)]
    if config.train_captions:
        # of the captions by people, the first few of each image and language; generated ones (of the table `extra`) all
        # stay, and `extra_share` thins them out
        is_extra = captions.are_extra(train)
        kept = [train[:0]]
        for language in captions.languages:
            in_language = captions.in_language(train[~is_extra], language)
            kept.append(captions.first_of_images(in_language, config.train_captions))
        train = torch.cat([*kept, train[is_extra]])
    if len(train) < 2:
        raise ValueError(f"train_splits must have 2 captions of images with features, have: {len(train)}")
    # a batch has captions in the first language, and for each of them one of the same image in every further language
    captions.require_every_language(train, "to train on")
    captions.require_every_language(validation, "to validate on")
    return TrainAndValidation(train, validation)


def _build_vocabularies(
    config: TrainConfig, captions: Captions, train: Tensor, names: Sequence[str]
) -> dict[str, WordVocabulary]:
    """The vocabulary of each language: the frequent words of its train captions, and those of the names of components.

    Args:
        config: with the languages and the least count of a word.
        captions: of the run.
        train: (n,) the train captions, by index.
        names: of components, whose words are in the vocabulary whatever their counts.
    """
    vocabularies = {}
    for language in config.languages:
        texts = (captions.texts[n].as_py() for n in captions.in_language(train, language).tolist())
        vocabularies[language] = build_vocabulary(texts, config.min_count, names)
    return vocabularies


def negatives_to_read(config: TrainConfig) -> Selection | None:
    """The negatives that a training reads, of captions to train and to validate on; None: none."""
    if not isinstance(config, TrainWithNegativesConfig) or not config.reads_negatives:
        return None
    splits = (*config.train_splits, config.validation_split)
    return Selection(config.negative_families, config.negative_operators, splits, to_train=True)


def train(config: TrainConfig, *, overwrite: bool = False, say: Say = silent) -> Path:
    """Train a model and return its folder; an interrupted training resumes after the last epoch it completed.

    The folder holds config.json, vocabulary.json, metrics.jsonl (one line per epoch), curves.png, and as safetensors
    and JSON the weights of the epoch with the highest rsum on validation (`best`) and of the last one, with the
    optimizer (`last`). On one machine the same config gives the same weights, with or without interruptions; see
    `deterministic` for a GPU.

    Args:
        config: of the training.
        overwrite: replace a model trained with other settings.
        say: called with one line of progress per epoch.

    Raises:
        FileNotFoundError: the run lacks a table that the training needs.
        ValueError: the run is unfit for the training, or the folder holds anything else.
        LockedError: another command writes the folder.
    """
    with locked(config.output):
        return _train(config, overwrite, say)


def _train(config: TrainConfig, overwrite: bool, say: Say) -> Path:
    """Train in the folder of a config, which is locked; see `train`."""
    torch.set_num_threads(config.threads)
    data = read_training_data(config)
    objective = OBJECTIVES[config.model]
    # the model is built before the folder is touched, as that finds all faults of the settings
    model = _build_model(config, data).to(data.device)
    # the moving average of the weights, which begins as a copy
    mean = deepcopy(model).requires_grad_(False)
    components = COMPONENT_TABLES if objective.needs_components else ()
    tables = ("captions", "negatives", config.table, *components, *filter(None, [config.extra]))
    size = data.features.values.shape[-1]
    prepare_folder(config, RESUMABLE, size, data.features.backbone, tables, data.vocabularies, overwrite, say)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # one kernel for all weights, where there is a GPU to run it
    fused = data.device.type == "cuda"
    optimizer = torch.optim.Adam(trained, config.learning_rate, weight_decay=config.weight_decay, fused=fused)
    if lost := unknown_words_line(data.unknown_words, f"they are not trained on; {KNOWN_WORDS}"):
        say(lost)

    def step(sampled_batch: SampledBatch, epoch: int) -> TrainingStep:
        """The loss of a batch: the sum of the terms of the model's objective."""
        batch = sampled_batch.batch
        terms = objective.losses(model, batch, sampled_batch.sampled, config, epoch)
        return TrainingStep(torch.stack(list(terms.values())).sum(), terms, len(batch.captions))

    def report(history: Sequence[Line]) -> None:
        """Draw the curves up to the last epoch, and say what it brought."""
        # The end of the warm-up is marked if the loss changes there, from the sum of all hinges to the hardest: only a
        # loss with the term "sent" consists of hinges, and models in SUMMED keep the sum.
        is_switched = "sent" in history[-1]["terms"] and config.model not in SUMMED
        draw_curves(history, config.output / "curves.png", config.model, config.warm_up if is_switched else 0)
        say(describe_epoch(config, history))

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
        select=lambda line: line["validation"][config.selected_by],
        report=report,
        folder=config.output,
        say=say,
        about=_describe_data(config, data),
        length=-(-len(data.train) // config.batch_size),  # rounded up: the last batch may be smaller
    )
    return config.output


def _build_model(config: TrainConfig, data: TrainingData) -> EmbeddingModel:
    """A new model with the word vectors of the config's files. Raises ValueError for files that do not fit."""
    if isinstance(config, DualConfig) and config.grounded_dim and not config.vectors:
        raise ValueError(f"grounded_dim needs vectors to be joined to, has none: {config.grounded_dim}")
    files = config.files_of_vectors
    words_of_languages = []  # of each language, how many words there are, and their vectors
    for language, vocabulary in data.vocabularies.items():
        file = files.get(language)
        vectors = read_vectors(file, vocabulary, config.word_dim) if file else None
        words_of_languages.append((len(vocabulary), vectors))
    (size, vectors), *further_languages = words_of_languages
    features = data.features.values.shape[-1]
    return OBJECTIVES[config.model].build(config, features, size, vectors, *further_languages)


def _describe_data(config: TrainConfig, data: TrainingData) -> str:
    """The line of progress before the first epoch: the sizes of the data."""
    about = f"{config.model}: {len(data.train):,} captions to train on, {len(data.validation):,} to validate, "
    about += f"{len(data.vocabulary):,} words"
    sampler = str(data.sampler or "")
    if sampler:
        about += f", {sampler}"
    without_features = int((~data.features.available).sum())
    return about + (f"; {without_features:,} images have no features" if without_features else "")


def describe_epoch(config: TrainConfig, history: Sequence[Line]) -> str:
    """The line of progress after an epoch: loss, rsum, and the best epoch so far. history: a line for each epoch."""
    line = history[-1]
    best = max(history, key=lambda other: other["validation"][config.selected_by])
    rsum = line["validation"]["rsum"]
    shown = f"rsum {rsum:.1f} on validation (best {best['validation']['rsum']:.1f}, epoch {best['epoch']})"
    on_plateau = describe_plateau(config, line)
    end = f"; {on_plateau}" if on_plateau else ""
    return f"epoch {line['epoch']}: loss {line['loss']:.3f}, {shown}, {line['seconds']:.0f} s{end}"


NEAR = 0.04  # the share by which a loss may differ from that of the plateau


def describe_plateau(config: TrainConfig, line: Line) -> str:
    """A hint after an epoch whose loss is the one of vectors that are all equal; "" after any other epoch.

    While the hardest false caption of most images scores above the true one, the loss falls by drawing all vectors
    together, down to one margin for each hinge: of the image, of the caption, and of the hardest own negative. Recalls
    rise there already, but a model that ends there has not yet learned to tell anything apart.
    """
    epoch = line["epoch"]
    # contrastive losses have no margin, and summed hinges no plateau
    if "sent" not in line["terms"] or config.model in SUMMED or epoch <= config.warm_up:
        return ""
    hinges = 2
    if isinstance(config, TrainWithNegativesConfig) and config.trained_families and epoch > config.negatives_after:
        hinges += 1
    if abs(line["terms"]["sent"] / config.margin - hinges) > NEAR * hinges:
        return ""
    return f"loss = {hinges} margins: on the plateau of the hardest negative; more epochs or warm_up leave it"


class SampledBatch(NamedTuple):
    """A batch, and what the sampler of the objective has sampled for it; None without a sampler."""

    batch: TrainingBatch
    sampled: object


def epoch_batches(data: TrainingData, config: TrainConfig, epoch: int) -> Iterator[SampledBatch]:
    """The train captions of an epoch in random batches, each with what the objective samples for it."""
    # seeded by the epoch, so that a training that is resumed here draws what one without interruption draws
    seed = epoch_seed(config.seed, epoch)
    generator = Generator().manual_seed(seed)
    # on the device, where the features are: dropout of a batch is as large as its features
    noise = Generator(data.device).manual_seed(seed)
    chosen = data.train
    image = data.captions.image
    if config.extra_share < 1:
        is_drawn = torch.rand(len(chosen), generator=generator) < config.extra_share
        # captions by people are all visited, of the generated ones a new share in each epoch
        chosen = chosen[~data.captions.are_extra(chosen) | is_drawn]
    batches = shuffled_batches(chosen, config.batch_size, generator)

    def load_features(captions: Tensor) -> Tensor:
        """The features (B, …) of the images of captions (B,), on the device."""
        return rows_to_device(data.features.values, image[captions], data.device)

    for loaded in load_ahead(batches, load_features):
        sampled = data.sampler.sample(loaded.rows, generator) if data.sampler else None
        yield SampledBatch(make_batch(data, loaded.rows, loaded.values, config, noise), sampled)


def make_batch(
    data: TrainingData, captions: Tensor, features: Tensor, config: TrainConfig, noise: Generator
) -> TrainingBatch:
    """The batch of these captions for a training step: their images' features, with dropout, and who shares an image.

    Args:
        data: the corpus that the captions are of.
        captions: (B,) their numbers in the corpus.
        features: of the image of each: (B, D), or (B, R, D) of R regions or crops, on the data's device.
        config: says whether one random crop stands for the image (image_pooling `crop`), and the share of single
            feature values that is set to 0 (dropout).
        noise: a generator on the data's device, for both.
    """
    device = data.device
    image = data.captions.image[captions]
    is_by_crop = isinstance(config, RecurrentConfig) and config.image_pooling == "crop"
    if is_by_crop and features.dim() == 3:
        crop = torch.randint(features.shape[1], (len(features),), generator=noise, device=device)
        features = features[torch.arange(len(features), device=device), crop]
    if config.dropout:
        # not divided by 1 - dropout: negcap's transform scales features to length 1 afterwards, which undoes any factor
        features = features * (torch.rand(features.shape, generator=noise, device=device) >= config.dropout)
    same_image = to_device(image[:, None] == image[None, :], device)
    return TrainingBatch(captions, features, same_image, data.texts)


def validate(model: EmbeddingModel, data: TrainingData) -> dict[str, float]:
    """Retrieval metrics of a model on the validation captions and their images, by name, see `retrieval_metrics`.

    They are of the first language; those of a further one begin with its code, "de t2i R@1", and rsum is the sum over
    all languages. With an attack also `attacked`, the sum of R@1, R@5 and R@10 of images when English negatives join
    their candidates.
    """
    split = embed_split(model, data, data.validation)
    languages = data.captions.languages
    ranks = {language: split.rank(number) for number, language in enumerate(languages)}
    metrics = retrieval_metrics(ranks[languages[0]])
    # the epoch to keep is to be good for all languages, not only for the first
    for language in languages[1:]:
        further = retrieval_metrics(ranks[language])
        metrics["rsum"] += further["rsum"]
        metrics |= {f"{language} {name}": value for name, value in further.items()}
    if len(data.attack):
        plain = ranks[LANGUAGE]
        own_scores, _ = score_negatives(split, {"attack": data.attack}, plain.best)
        attacked = ranks_with_own_negatives(plain, own_scores, data.attack, split.image_of_negative(data.attack))
        metrics["attacked"] = sum(recall_metrics(attacked)[f"R@{k}"] for k in TOP)
    return metrics


def draw_curves(history: Sequence[Line], path: Path, title: str, warm_up: int) -> None:
    """Draw loss per pair, recalls on validation and rsum over the epochs as a PNG.

    Args:
        history: lines of metrics.jsonl.
        path: the PNG to write.
        title: of the figure.
        warm_up: how many epochs have the sum of all hinges of a batch as their loss, before those of the hardest
            negatives: two losses that are not to be compared, in two curves.
    """
    figure = new_figure(11, 4.2)
    figure.suptitle(title)
    left, middle, right = figure.subplots(1, 3)
    steps = []
    losses = []
    for line in history:
        parts = line["losses"]
        # each part of the epoch stands where it ends, so that epoch 1 fills the axis from 0 to 1
        steps += [line["epoch"] - 1 + (n + 1) / len(parts) for n in range(len(parts))]
        losses += parts
    summed = sum(step <= warm_up for step in steps)
    if summed:
        left.plot(steps[:summed], losses[:summed], color=COLOURS[4], linewidth=1.2, label="sum of all hinges")
    left.plot(steps[summed:], losses[summed:], color=COLOURS[0], linewidth=1.2, label="hinges of the hardest")
    label_axes(left, "Training loss", "epoch", "loss per pair (log scale)")
    left.set(yscale="log")
    if summed:
        legend_below(left, columns=1)
    validation = [{"epoch": line["epoch"], **line["validation"]} for line in history]
    for way, style in (("i2t", "-"), ("t2i", "--")):
        for number, k in enumerate(TOP):
            plot_metric(middle, validation, f"{way} R@{k}", f"{way} R@{k}", color=COLOURS[number], linestyle=style)
    label_axes(middle, "Recall on validation", "epoch", "% of queries")
    middle.set(ylim=(0, None))
    legend_below(middle, columns=2)
    plot_metric(right, validation, "rsum", "rsum", color=COLOURS[0])
    label_axes(right, "Sum of the recalls (rsum)", "epoch", "points")
    right.set(ylim=(0, None))
    write_png(figure, path, 120)
