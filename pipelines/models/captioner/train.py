"""The training of a captioner in three phases: reads the folder of a run, writes that of a captioner."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Generator, Tensor

from .. import checkpoint
from ..captions import read_captions, split_captions
from ..checkpoint import epoch_seed, optimizer_step, read_history, write_history
from ..corpus import shuffled_batches
from ..device import choose_device, deterministic
from ..features import read_features
from ..figures import new_figure, plot_metric, write_png
from ..vocabulary import PAD_ID, UNKNOWN_ID, WordVocabulary, build_vocabulary
from .config import RESUMABLE, CaptionerConfig
from .evaluate import distinct
from .generate import generate_sentences, sample_by
from .generator import PaddedSentences
from .losses import Rollouts, discriminator_loss, likelihood_loss, mean_of_others, policy_loss, sample_with_values
from .model import GAN, MLE, PHASES, Nets, build_nets, detokenize, join_words, transform_features

COLOURS = {"mle": "tab:blue", "discriminator": "tab:orange", "gan": "tab:green"}


def draw_curves(history: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw likelihood, reward and entropy, the discriminator's accuracy, and distinct-2 over the epochs as a PNG.

    history: the lines of metrics.jsonl.
    """
    figure = new_figure(14, 3.4)
    loss, reward, accuracy, distinct = figure.subplots(1, 4)
    plot_metric(loss, history, "loss", "train")
    plot_metric(loss, history, "validation_loss", "validation")
    loss.set(xlabel="epoch", ylabel="- log likelihood per word", title="likelihood")
    plot_metric(reward, history, "reward", "reward", color="tab:green")
    beside = reward.twinx()
    plot_metric(beside, history, "entropy", "entropy", color="tab:gray")
    reward.set(xlabel="epoch", ylabel="reward (green)", title="policy gradient")
    beside.set(ylabel="entropy per word, nats (gray)")
    lines = [{"epoch": line["epoch"], **line["accuracy"]} for line in history if "accuracy" in line]
    for name in ("real", "generated", "mismatched"):
        plot_metric(accuracy, lines, name, name)
    accuracy.set(xlabel="epoch", ylabel="accuracy", ylim=(0, 1.02), title="discriminator")
    for phase, colour in COLOURS.items():
        plot_metric(distinct, [line for line in history if line["phase"] == phase], "distinct_2", phase, color=colour)
    distinct.set(xlabel="epoch", ylabel="distinct-2 of samples", ylim=(0, None), title="diversity")
    for axes in (loss, accuracy, distinct):
        if axes.lines:
            axes.legend(fontsize=7)
    write_png(figure, path, 110)


DISTINCT_IMAGES = 512  # images that distinct-2 is measured on


@dataclass(frozen=True)
class TrainingData:
    """C captions of I images. features (I, D), tokens and offsets are on the device, all other tensors on the CPU.

    tokens, offsets: the captions as EncodedTexts. image: (C,) the image index of each caption. train, validation: (n,)
    indices of captions. known: the train captions without <unk>, on which the discriminator is trained, as it would
    otherwise learn that only people write <unk> (all train captions if fewer than two remain). distinct_images: indices
    of the first validation images, for distinct-2. words: the maximum length of a caption.
    """

    vocabulary: WordVocabulary
    features: Tensor
    backbone: str
    tokens: Tensor
    offsets: Tensor
    image: Tensor
    train: Tensor
    known: Tensor
    validation: Tensor
    distinct_images: Tensor
    words: int
    device: torch.device

    def sentences(self, captions: Tensor) -> PaddedSentences:
        """The first `words` words of captions (B,), without <start>."""
        captions = captions.to(self.device)
        starts = self.offsets[captions] + 1
        lengths = (self.offsets[captions + 1] - starts).clamp(max=self.words)
        at = torch.arange(int(lengths.max()), device=self.device)[None, :]
        words = self.tokens[(starts[:, None] + at).clamp(max=len(self.tokens) - 1)].long()
        return PaddedSentences(words.where(at < lengths[:, None], PAD_ID), lengths)

    def features_of(self, captions: Tensor) -> Tensor:
        """The features (B, D) of the images of captions (B,)."""
        return self.features[self.image[captions].to(self.device)]


def read_training_data(config: CaptionerConfig) -> TrainingData:
    """Read the tables of a run. Raises FileNotFoundError or ValueError if any is missing or unfit for training."""
    device = choose_device(config.device)
    captions = read_captions(config.run)
    features = read_features(config.run, captions.image_ids)
    train, validation = split_captions(
        captions, config.train_splits, config.validation_split, config.validation_images, features.available
    )
    train = captions.for_metrics(train)
    if len(train) < 2:
        raise ValueError(f"train_splits must have 2 captions of images with features, have: {len(train)}")
    vocabulary = build_vocabulary(captions.texts.take(pa.array(train.numpy())).to_pylist(), config.min_count)
    encoded = vocabulary.encode(captions.texts)
    has_unknown = torch.from_numpy(np.add.reduceat(encoded.tokens == UNKNOWN_ID, encoded.offsets[:-1]) > 0)
    known = train[~has_unknown[train]]
    return TrainingData(
        vocabulary,
        transform_features(features.values, config.transform).to(device),
        features.backbone,
        torch.from_numpy(encoded.tokens).to(device),
        torch.from_numpy(encoded.offsets).to(device),
        captions.image,
        train,
        known if len(known) > 1 else train,
        validation,
        captions.image[validation].unique()[:DISTINCT_IMAGES],
        config.words,
        device,
    )


AT_ONCE = 1024  # sentences per batch when no gradients are computed
CAPTION_KINDS = ("real", "generated", "mismatched")  # captions that the discriminator tells apart


@dataclass(frozen=True)
class Learner:
    """The state of a training: nets, optimizers by loss (likelihood, policy, discrimination), data and config."""

    nets: Nets
    optimizers: dict[str, torch.optim.Optimizer]
    data: TrainingData
    config: CaptionerConfig


@dataclass(frozen=True)
class Randomness:
    """The random generators of an epoch: `order` of captions (on the CPU) and `noise` (on the device)."""

    order: Generator
    noise: Generator

    @classmethod
    def seeded(cls, data: TrainingData, seed: int) -> Randomness:
        """Both generators, with the same seed."""
        return cls(Generator().manual_seed(seed), Generator(data.device).manual_seed(seed))


def mle_epoch(learner: Learner, seed: int) -> dict[str, Any]:
    """First phase: train the generator for one epoch by maximum likelihood of the train captions.

    Returns the mean losses per word on train and validation captions.
    """
    data, config, generator = learner.data, learner.config, learner.nets.generator
    generator.dropout.train()
    random = Randomness.seeded(data, seed)
    losses = []
    with torch.random.fork_rng(devices=[data.device] if data.device.type == "cuda" else []):
        torch.manual_seed(seed)  # of dropout
        for rows in shuffled_batches(data.train, config.batch_size, random.order):
            sentences = data.sentences(rows)
            state = generator.first_state(data.features_of(rows), normal_noise(len(rows), learner.nets, random.noise))
            loss = likelihood_loss(generator(state, sentences), sentences)
            optimizer_step(learner.optimizers["likelihood"], loss, generator.parameters(), config.clip)
            losses.append(loss.detach())
    generator.dropout.eval()
    return {"loss": torch.stack(losses).mean().item(), "validation_loss": validation_loss(learner.nets, data)}


@torch.no_grad()
def validation_loss(nets: Nets, data: TrainingData) -> float:
    """The mean negative log-likelihood per word of the validation captions, with the same noise in every call."""
    noise = Randomness.seeded(data, 0).noise
    total, words = 0.0, 0
    for rows in data.validation.split(AT_ONCE):
        sentences = data.sentences(rows)
        state = nets.generator.first_state(data.features_of(rows), normal_noise(len(rows), nets, noise))
        count = int(sentences.lengths.sum())
        total += count * likelihood_loss(nets.generator(state, sentences), sentences).item()
        words += count
    return total / words


def discriminator_epoch(learner: Learner, seed: int) -> dict[str, Any]:
    """Second phase: train the discriminator for one epoch to tell real from generated and mismatched captions.

    Returns its mean loss and its accuracy, from 0 to 1, on each of the three.
    """
    data = learner.data
    random = Randomness.seeded(data, seed)
    figures = []
    for rows in shuffled_batches(data.known, AT_ONCE, random.order):
        generated = sample(learner.nets, data.features_of(rows), data.words, random.noise)
        for part in torch.arange(len(rows)).split(learner.config.batch_size):
            if len(part) > 1:
                figures.append(discriminator_step(learner, rows[part], generated.select(part.to(data.device))))
    return _discriminator_figures(figures)


def discriminator_step(learner: Learner, rows: Tensor, generated: PaddedSentences) -> Tensor:
    """Train the discriminator on captions `rows` (B,), generated ones of the same images, and those of other images.

    Returns the loss and the accuracies on real, generated and mismatched captions, from 0 to 1: (4,).
    """
    data, config, discriminator = learner.data, learner.config, learner.nets.discriminator
    images = discriminator.images(data.features_of(rows))
    sentences = discriminator.sentences(data.sentences(rows))
    real = (images * sentences).sum(1)
    fake = discriminator(images, generated)
    other = (images * sentences.roll(1, 0)).sum(1)
    different_images = (data.image[rows] != data.image[rows].roll(1, 0)).to(data.device)
    mismatched = other[different_images] if bool(different_images.any()) else other.detach() * 0
    loss = discriminator_loss(real, fake, mismatched, config.alpha, config.beta)
    optimizer_step(learner.optimizers["discrimination"], loss, discriminator.parameters(), config.clip)
    accuracy = [(real > 0).float().mean(), (fake < 0).float().mean(), (mismatched < 0).float().mean()]
    return torch.stack([loss.detach(), *accuracy])


def gan_epoch(learner: Learner, seed: int) -> dict[str, Any]:
    """Third phase: `stages` times, `generator_steps` steps of policy gradient, then one step of the discriminator.

    Returns the mean reward, the policy's entropy per word in nats, the mean length of sampled captions, and what
    `discriminator_epoch` returns.
    """
    data, config = learner.data, learner.config
    random = Randomness.seeded(data, seed)
    generator_figures, discriminator_figures = [], []
    for _ in range(config.stages):
        for _ in range(config.generator_steps):
            rows = _sample_rows(data.train, config.batch_size, random.order)
            generator_figures.append(policy_step(learner, rows, random.noise))
        rows = _sample_rows(data.known, config.batch_size, random.order)
        generated = sample(learner.nets, data.features_of(rows), config.words, random.noise)
        discriminator_figures.append(discriminator_step(learner, rows, generated))
    reward, entropy, length = torch.stack(generator_figures).mean(0).tolist()
    return {"reward": reward, "entropy": entropy, "words": length, **_discriminator_figures(discriminator_figures)}


def policy_step(learner: Learner, rows: Tensor, noise: Generator) -> Tensor:
    """One step of policy gradient on captions sampled for the images of captions `rows` (B,).

    Returns the mean reward, the mean entropy per word in nats, and the mean length in words, (3,).
    """
    config, (generator, discriminator) = learner.config, learner.nets
    features = learner.data.features_of(rows)
    with torch.no_grad():
        images = discriminator.images(features)

    def reward(sentences: PaddedSentences, row: Tensor) -> Tensor:
        with torch.no_grad():
            return discriminator(images[row], sentences).sigmoid()

    state = generator.first_state(features, normal_noise(len(rows), learner.nets, noise))
    uniforms = torch.rand(len(rows), config.words, generator=noise, device=noise.device, dtype=torch.double)
    rollouts = Rollouts(config.positions, config.rollouts, noise)
    sentences, values, rewards = sample_with_values(generator, state, uniforms, reward, rollouts)
    scores, mask = generator(state, sentences), sentences.mask
    loss = policy_loss(scores, values, mean_of_others(values))
    optimizer_step(learner.optimizers["policy"], loss, generator.parameters(), config.clip)
    return torch.stack([rewards.mean(), scores.entropy[mask].mean(), sentences.lengths.float().mean()])


@torch.no_grad()
def sample(nets: Nets, features: Tensor, words: int, noise: Generator) -> PaddedSentences:
    """Sample a sentence of up to `words` words per image; features: (B, D); noise: the random generator to use."""
    uniforms = torch.rand(len(features), words, generator=noise, device=noise.device, dtype=torch.double)
    normal = normal_noise(len(features), nets, noise)
    return generate_sentences(nets.generator, features, normal, words, sample_by(uniforms))


def normal_noise(rows: int, nets: Nets, noise: Generator) -> Tensor:
    """Standard normal noise z for the generator, (rows, z)."""
    return torch.randn(rows, nets.generator.noise, generator=noise, device=noise.device)


def _sample_rows(captions: Tensor, count: int, order: Generator) -> Tensor:
    """`count` of the captions, with replacement."""
    return captions[torch.randint(len(captions), (count,), generator=order)]


def _discriminator_figures(steps: list[Tensor]) -> dict[str, Any]:
    loss, *accuracy = torch.stack(steps).mean(0).tolist()
    return {"discriminator_loss": loss, "accuracy": dict(zip(CAPTION_KINDS, accuracy, strict=True))}


DISCRIMINATOR = "discriminator"
EPOCHS = {MLE: mle_epoch, DISCRIMINATOR: discriminator_epoch, GAN: gan_epoch}
INPUTS = ("captions", "features")
STATE = {"epoch": int, "collapsed": bool}
LOGGED_CAPTIONS = 4  # sampled captions per line of metrics.jsonl


def train(config: CaptionerConfig, *, overwrite: bool = False, say: Callable[[str], None] = lambda line: None) -> Path:
    """Train a captioner and return its folder; an interrupted training resumes after the last epoch it completed.

    The folder holds config.json, vocabulary.json, metrics.jsonl (one line per epoch, with captions sampled for
    validation images), curves.png, and weights as safetensors and JSON: the generator with the least validation loss
    (`mle`), the last one before diversity collapsed (`gan`), and all that resuming needs (`last`). On one machine the
    same config gives the same weights; see `deterministic` for a GPU. overwrite: replace a captioner trained with other
    settings. say: called with one line of progress per epoch. Raises FileNotFoundError and ValueError for a run that
    lacks what the training needs, ValueError for a folder that holds anything else.
    """
    torch.set_num_threads(config.threads)
    data = read_training_data(config)
    size, words, folder = data.features.shape[-1], len(data.vocabulary), config.output
    nets = build_nets(config, size, words)
    identity = checkpoint.training_identity(config, RESUMABLE, size, data.backbone, INPUTS)
    weights = (*PHASES, checkpoint.LAST)
    checkpoint.prepare_folder(folder, identity, data.vocabulary, overwrite=overwrite, weights=weights)
    for net in nets:
        net.to(data.device)
    nets.generator.dropout.eval()  # only used for likelihood; LSTMs stay in training mode, as cuDNN needs
    learner = Learner(nets, build_optimizers(nets, config), data, config)
    state: dict[str, Any] = {"epoch": 0, "best": None, "distinct_2": None, "collapsed": False}
    if (folder / f"{checkpoint.LAST}.safetensors").exists():
        state = checkpoint.restore(folder, checkpoint.LAST, nets._asdict(), learner.optimizers, STATE)
    history = read_history(folder / checkpoint.METRICS, state["epoch"])
    resumed = f"; resumed after epoch {state['epoch']}" if state["epoch"] else ""
    images = len(data.image[data.train].unique())
    say(f"captioner: {len(data.train):,} captions of {images:,} images to train on, {words:,} words{resumed}")
    for number, (phase, epoch) in enumerate(_all_epochs(config), 1):
        if number <= state["epoch"] or state["collapsed"]:
            continue
        if epoch == 1 and phase != MLE and (phase == DISCRIMINATOR or not config.discriminator_epochs):
            checkpoint.restore(folder, MLE, {"generator": nets.generator})
        with deterministic(data.device):
            line = {"epoch": number, "phase": phase, "phase_epoch": epoch, **_run_epoch(learner, phase, number)}
        state = _save_generator(learner, line, state)
        checkpoint.save(folder, checkpoint.LAST, nets._asdict(), state, learner.optimizers)
        history.append(line)
        write_history(folder / checkpoint.METRICS, history)
        draw_curves(history, folder / "curves.png")
        say(_progress(line))
    if state["collapsed"]:
        say(f"stopped: distinct-2 fell below {config.collapse:g} of its start; {GAN} holds the last good generator")
    return folder


def build_optimizers(nets: Nets, config: CaptionerConfig) -> dict[str, torch.optim.Optimizer]:
    """One Adam per loss; their names differ from those of the nets, as the same file holds both."""
    rates = {
        "likelihood": (nets.generator, config.supervised_rate),
        "policy": (nets.generator, config.learning_rate),
        "discrimination": (nets.discriminator, config.supervised_rate),
    }
    return {name: torch.optim.Adam(net.parameters(), lr=rate) for name, (net, rate) in rates.items()}


def _all_epochs(config: CaptionerConfig) -> list[tuple[str, int]]:
    """The epochs of all phases in order: the phase, and the epoch's number within it, from 1."""
    counts = {MLE: config.mle_epochs, DISCRIMINATOR: config.discriminator_epochs, GAN: config.gan_epochs}
    return [(phase, epoch) for phase, count in counts.items() for epoch in range(1, count + 1)]


def _run_epoch(learner: Learner, phase: str, number: int) -> dict[str, Any]:
    """Run one epoch; returns its data for metrics.jsonl, with captions sampled after it.

    number: of the epoch, counted from 1 through all phases.
    """
    began = time.perf_counter()
    data, config = learner.data, learner.config
    figures = EPOCHS[phase](learner, epoch_seed(config.seed, number))
    if not all(math.isfinite(value) for value in figures.values() if isinstance(value, float)):
        raise ValueError(f"the loss is not finite in epoch {number} ({phase}): lower the learning rate")
    noise = Generator(data.device).manual_seed(config.seed)
    sentences = sample(learner.nets, data.features[data.distinct_images], config.words, noise)
    texts = join_words(sentences, data.vocabulary)
    return {
        **figures,
        "distinct_2": distinct([text.split() for text in texts.to_pylist()], 2),
        "samples": detokenize(texts[:LOGGED_CAPTIONS]).to_pylist(),
        "seconds": round(time.perf_counter() - began, 2),
    }


def _save_generator(learner: Learner, line: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Save the generator if it is the best of the first phase, or from the third and not collapsed; the new state."""
    folder, phase, generator = learner.config.output, line["phase"], learner.nets.generator
    state = {**state, "epoch": line["epoch"]}
    vocabulary = learner.data.vocabulary.sha256
    saved_with = {"epoch": line["epoch"], "distinct_2": line["distinct_2"], "vocabulary": vocabulary}
    if phase == MLE and (state["best"] is None or line["validation_loss"] < state["best"]):
        state |= {"best": line["validation_loss"], "distinct_2": line["distinct_2"]}
        checkpoint.save(folder, MLE, {"generator": generator}, saved_with)
    elif phase == GAN and line["distinct_2"] < learner.config.collapse * state["distinct_2"]:
        state["collapsed"] = line["collapsed"] = True
        if not (folder / f"{GAN}.safetensors").exists():  # the last good generator is that of the first phase
            checkpoint.copy(folder, MLE, GAN)
    elif phase == GAN:
        checkpoint.save(folder, GAN, {"generator": generator}, saved_with)
    return state


def _progress(line: dict[str, Any]) -> str:
    """A line of progress for an epoch; line: its data in metrics.jsonl."""
    figures = {
        "loss": line.get("loss"),
        "validation": line.get("validation_loss"),
        "reward": line.get("reward"),
        "entropy": line.get("entropy"),
        **{f"accuracy on {name}": share for name, share in line.get("accuracy", {}).items()},
        "distinct-2": line["distinct_2"],
    }
    shown = ", ".join(f"{name} {value:.3f}" for name, value in figures.items() if value is not None)
    return f"{line['phase']} {line['phase_epoch']}: {shown}, {line['seconds']:.0f} s | {line['samples'][0]}"
