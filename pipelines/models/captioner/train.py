"""The losses of a captioner (Dai et al. 2017), and its training in three phases: reads a run, writes a folder.

Equation numbers are those of Chen et al. (2019). Their equations 2 and 3, as printed, weight each word with the sum of
the rewards of all prefixes, Σ_t ∇ log π(w_t | …) · Σ_t r(S_1:t). They follow Dai et al. (2017), who weight a word with
the expected reward of the sentences that begin so, less a baseline; so do `policy_loss` and `sample_with_values`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn import functional

from ....schemas.captions import LANGUAGE
from ...engine.lock import locked
from ...engine.storage import write_atomically
from .. import checkpoint
from ..batches import shuffled_batches
from ..checkpoint import epoch_seed
from ..data import read_captions, split_captions
from ..device import choose_device
from ..features import read_features
from ..figures import new_figure, plot_metric, write_png
from ..fit import Line, Say, TrainingStep, fit, silent
from ..settings import CAPTIONER_RESUMABLE, CaptionerConfig
from ..vocabulary import PAD_ID, UNKNOWN_ID, build_vocabulary
from .evaluate import distinct
from .generate import complete, detokenize, empty_sentences, join_words, sample_sentences
from .model import GAN, MLE, Generator, LSTMState, PaddedSentences, build_nets, transform_features

Reward = Callable[[PaddedSentences, Tensor], Tensor]  # sentences, the batch row of each (b,) -> rewards (b,)


def likelihood_loss(log_probs: Tensor, sentences: PaddedSentences) -> Tensor:
    """The mean negative log-likelihood per word, a scalar, without <unk>; log_probs: (B, T) of the sentences' words."""
    counted = sentences.mask & (sentences.words != UNKNOWN_ID)
    return -log_probs.sum() / counted.sum()


def discriminator_loss(real: Tensor, made: Tensor, other: Tensor, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    """-E[log r(I, S)] - α E[log(1 - r(I, S_generated))] - β E[log(1 - r(I, S_other_image))], a scalar (eq. 4). r(I, S)
    is the probability that a person wrote sentence S about image I. real, made, other: its logits, of any
    shape. In equation 4, α = β = 1, and S_other_image is printed as "semantic-matched", surely meant as mismatched.
    """
    of_real, of_made, of_other = (functional.softplus(logits).mean() for logits in (-real, made, other))
    return of_real + alpha * of_made + beta * of_other


def policy_loss(log_probs: Tensor, values: Tensor, baseline: Tensor) -> Tensor:
    """A scalar whose gradient is that of the policy, -E[Σ_t ∇ log π(w_t | …) (V(S_1:t) - b_t)] (eq. 2). log_probs: (B,
    T) log π of the sampled words w_t. values: (B, T) the values V. baseline: (B, T) the baselines b_t.
    """
    return -(log_probs * (values - baseline).detach()).sum() / len(values)


def mean_of_others(values: Tensor) -> Tensor:
    """Baselines b_t (B, T) for values (B, T): the mean of the other rows' values at t; 0 for a single row. As rows are
    sampled independently, this does not change the expectation of the gradient.
    """
    return (values.sum(0) - values) / max(len(values) - 1, 1)


def sample_with_values(
    policy: Generator, state: LSTMState, chance: Tensor, reward: Reward, at: Sequence[int], n: int, rng: torch.Generator
) -> tuple[PaddedSentences, Tensor, Tensor]:
    """Sample one sentence per row, and estimate the value of each of its words (eq. 3).

    The value V(S_1:p) of the first p words is the mean reward of `n` sampled completions, at rollout positions p
    (`at`). Word t gets the value of the next rollout position p >= t within the sentence; words after the last one get
    the reward of the sentence itself. So there are fewer rollouts than words; the expectation of the gradient is the
    same, as p does not depend on what follows it. state: of the generator before the first word, (B, hidden). chance:
    (B, T) in (0, 1), on the device. rng: to sample completions. Returns the sentences, the values (B, T) of their
    words, and the rewards (B,) of whole sentences.
    """
    rows, max_words = chance.shape
    device = chance.device
    sentences, stops = complete(policy, state, empty_sentences(rows, max_words, device), chance, at)
    rewards = reward(sentences, torch.arange(rows, device=device))
    values = rewards[:, None].expand(rows, max_words).clone()
    if stops and n:
        row = torch.cat([some.repeat(n) for _, some, _ in stops])
        length = torch.cat([torch.full_like(some, position).repeat(n) for position, some, _ in stops])
        parts = zip(*(state for *_, state in stops), strict=True)
        states = LSTMState(*(torch.cat([part.repeat(n, 1) for part in some]) for some in parts))
        inside = torch.arange(max_words, device=device)[None, :] < length[:, None]
        prefixes = PaddedSentences(sentences.words[row].where(inside, PAD_ID), length)
        sampled = torch.rand(len(row), max_words, generator=rng, device=rng.device).to(device)
        completed, _ = complete(policy, states, prefixes, sampled)
        of_stops = reward(completed, row).split([len(some) * n for _, some, _ in stops])
        for (position, some, _), its in reversed(list(zip(stops, of_stops, strict=True))):
            values[some, :position] = its.view(n, -1).mean(0)[:, None].expand(-1, position)
    return sentences, values, rewards


DISCRIMINATOR = "discriminator"
COLOURS = {MLE: "tab:blue", DISCRIMINATOR: "tab:orange", GAN: "tab:green"}
CAPTION_KINDS = ("real", "generated", "mismatched")  # captions that the discriminator tells apart
DISTINCT_IMAGES = 512  # images that distinct-2 is measured on
AT_ONCE = 1024  # sentences per batch when no gradients are computed
LOGGED_CAPTIONS = 4  # sampled captions per line of metrics.jsonl


class Training:
    """The nets, and C captions of I images. features (I, D), tokens and offsets are on the device, the rest on the CPU.

    tokens, offsets: the captions as EncodedTexts. image: (C,) the image index of each caption. train, validation: (n,)
    indices of captions. known: the train captions without <unk>, on which the discriminator is trained, as it would
    otherwise learn that only people write <unk> (all train captions if fewer than two remain). distinct_images: indices
    of the first validation images, for distinct-2.

    Raises FileNotFoundError or ValueError if a table of the run is missing or unfit.
    """

    def __init__(self, config: CaptionerConfig) -> None:
        self.config = config
        self.device = choose_device(config.device)
        captions = read_captions(config.run)
        features = read_features(config.run, captions.image_ids)
        train, self.validation = split_captions(
            captions, config.train_splits, config.validation_split, config.validation_images, features.available
        )
        train = captions.for_metrics(train)
        if config.train_captions:
            train = captions.first_of_images(train, config.train_captions)
        self.train = train
        if len(train) < 2:
            raise ValueError(f"train_splits must have 2 captions of images with features, have: {len(train)}")
        self.vocabulary = build_vocabulary(captions.texts.take(pa.array(train.numpy())).to_pylist(), config.min_count)
        encoded = self.vocabulary.encode(captions.texts)
        has_unknown = torch.from_numpy(np.add.reduceat(encoded.tokens == UNKNOWN_ID, encoded.offsets[:-1]) > 0)
        known = train[~has_unknown[train]]
        self.known = known if len(known) > 1 else train
        self.tokens, self.offsets = (torch.from_numpy(part).to(self.device) for part in encoded)
        self.image = captions.image
        self.backbone = features.backbone
        self.distinct_images = captions.image[self.validation].unique()[:DISTINCT_IMAGES]
        self.features = transform_features(features.values, config.transform).to(self.device)
        self.nets = build_nets(config, self.features.shape[-1], len(self.vocabulary))
        for net in self.nets:
            net.to(self.device)
        self.nets.generator.dropout.eval()  # only used for likelihood; LSTMs stay in training mode, as cuDNN needs

    def sentences(self, captions: Tensor) -> PaddedSentences:
        """The first `words` words of captions (B,), without <start>."""
        captions = captions.to(self.device)
        starts = self.offsets[captions] + 1
        lengths = (self.offsets[captions + 1] - starts).clamp(max=self.config.words)
        at = torch.arange(int(lengths.max()), device=self.device)[None, :]
        words = self.tokens[(starts[:, None] + at).clamp(max=len(self.tokens) - 1)].long()
        return PaddedSentences(words.where(at < lengths[:, None], PAD_ID), lengths)

    def features_of(self, captions: Tensor) -> Tensor:
        """The features (B, D) of the images of captions (B,)."""
        return self.features[self.image[captions].to(self.device)]

    def normal(self, rows: int, noise: torch.Generator) -> Tensor:
        """Standard normal noise z for the generator, (rows, z)."""
        return torch.randn(rows, self.config.noise, generator=noise, device=noise.device)

    def uniforms(self, rows: int, noise: torch.Generator) -> Tensor:
        """Random numbers (rows, words) to sample sentences by."""
        return torch.rand(rows, self.config.words, generator=noise, device=noise.device, dtype=torch.double)

    def sample(self, features: Tensor, noise: torch.Generator) -> PaddedSentences:
        """Sample a sentence per image; features: (B, D)."""
        uniforms = self.uniforms(len(features), noise)
        return sample_sentences(self.nets.generator, features, self.normal(len(features), noise), uniforms)

    def likelihood(self, rows: Tensor, noise: torch.Generator) -> Tensor:
        """The mean negative log-likelihood per word of captions `rows` (B,), a scalar."""
        sentences = self.sentences(rows)
        generator = self.nets.generator
        state = generator.first_state(self.features_of(rows), self.normal(len(rows), noise))
        return likelihood_loss(generator(state, sentences), sentences)

    @torch.no_grad()
    def validation_loss(self) -> float:
        """The mean negative log-likelihood per word of the validation captions, with the same noise in every call."""
        noise = torch.Generator(self.device).manual_seed(0)
        parts = self.validation.split(AT_ONCE)
        words = [int(self.sentences(rows).lengths.sum()) for rows in parts]
        losses = [self.likelihood(rows, noise).item() for rows in parts]
        return sum(count * loss for count, loss in zip(words, losses, strict=True)) / sum(words)

    def discriminator_step(self, rows: Tensor, generated: PaddedSentences) -> TrainingStep:
        """The discriminator on captions `rows` (B,), generated ones of the same images, and those of other images. Its
        terms: the loss, and the accuracies on the three kinds, from 0 to 1.
        """
        discriminator = self.nets.discriminator
        images = discriminator.images(self.features_of(rows))
        sentences = discriminator.sentences(self.sentences(rows))
        real = (images * sentences).sum(1)
        fake = discriminator(images, generated)
        other = (images * sentences.roll(1, 0)).sum(1)
        different_images = (self.image[rows] != self.image[rows].roll(1, 0)).to(self.device)
        mismatched = other[different_images] if bool(different_images.any()) else other.detach() * 0
        loss = discriminator_loss(real, fake, mismatched, self.config.alpha, self.config.beta)
        accuracy = [(real > 0).float().mean(), (fake < 0).float().mean(), (mismatched < 0).float().mean()]
        terms = {"discriminator_loss": loss, **dict(zip(CAPTION_KINDS, accuracy, strict=True))}
        return TrainingStep(loss, terms, optimizer="discrimination")

    def policy_step(self, rows: Tensor, noise: torch.Generator) -> TrainingStep:
        """The policy gradient on captions sampled for the images of captions `rows` (B,). Its terms: the mean reward,
        the policy's mean entropy per word in nats, estimated from the sampled words, and the mean number of words.
        """
        (generator, discriminator), config = self.nets, self.config
        features = self.features_of(rows)
        with torch.no_grad():
            images = discriminator.images(features)

        def reward(sentences: PaddedSentences, row: Tensor) -> Tensor:
            with torch.no_grad():
                return discriminator(images[row], sentences).sigmoid()

        state = generator.first_state(features, self.normal(len(rows), noise))
        positions = range(config.rollout_every, config.words, config.rollout_every)
        sentences, values, rewards = sample_with_values(
            generator, state, self.uniforms(len(rows), noise), reward, positions, config.rollouts, noise
        )
        log_probs = generator(state, sentences)
        terms = {"reward": rewards.mean(), "entropy": -log_probs.detach()[sentences.mask].mean()}
        terms["words"] = sentences.lengths.float().mean()
        return TrainingStep(policy_loss(log_probs, values, mean_of_others(values)), terms, optimizer="policy")

    def batches(self, phase: str, number: int, seed: int) -> Iterator[Callable[[], TrainingStep]]:
        """The steps of an epoch, each as a function that computes its loss; phase, number: the epoch, from 1 in its
        phase.

        The likelihood's go through the train captions, the discriminator's through those it knows; the third phase has
        `stages` times `generator_steps` steps of policy gradient, then one of the discriminator. After the first phase
        the generator is that with the least validation loss.
        """
        config = self.config
        generator = self.nets.generator
        order = torch.Generator().manual_seed(seed)
        noise = torch.Generator(self.device).manual_seed(seed)
        if number == 1 and (phase == DISCRIMINATOR or (phase == GAN and not config.discriminator_epochs)):
            checkpoint.restore(config.output, MLE, {"generator": generator})
        if phase == MLE:
            generator.dropout.train()
            with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
                torch.manual_seed(seed)  # of dropout
                for rows in shuffled_batches(self.train, config.batch_size, order):
                    yield lambda rows=rows: TrainingStep(self.likelihood(rows, noise), optimizer="likelihood")  # type: ignore[misc]
            generator.dropout.eval()
        elif phase == DISCRIMINATOR:
            for rows in shuffled_batches(self.known, AT_ONCE, order):
                generated = self.sample(self.features_of(rows), noise)
                for part in torch.arange(len(rows)).split(config.batch_size):
                    if len(part) > 1:
                        yield partial(self.discriminator_step, rows[part], generated.select(part.to(self.device)))
        else:
            for turn in range(config.stages * (config.generator_steps + 1)):
                with_policy = (turn + 1) % (config.generator_steps + 1) != 0
                captions = self.train if with_policy else self.known
                rows = captions[torch.randint(len(captions), (config.batch_size,), generator=order)]
                if with_policy:
                    yield partial(self.policy_step, rows, noise)
                else:
                    yield partial(self.discriminator_step, rows, self.sample(self.features_of(rows), noise))


def train(config: CaptionerConfig, *, overwrite: bool = False, say: Say = silent) -> Path:
    """Train a captioner and return its folder; an interrupted training resumes after the last epoch it completed.

    The folder holds config.json, vocabulary.json, metrics.jsonl (one line per epoch, with captions sampled for
    validation images), curves.png, and weights as safetensors and JSON: the generator with the least validation loss
    (`mle`), the last one before diversity collapsed (`gan`), and all that resuming needs (`last`). On one machine the
    same config gives the same weights; see `deterministic` for a GPU. overwrite: replace a captioner trained with other
    settings. say: called with one line of progress per epoch. Raises FileNotFoundError and ValueError for a run that
    lacks what the training needs, ValueError for a folder that holds anything else, LockedError for one that another
    command writes.
    """
    with locked(config.output):
        return _train(config, overwrite, say)


def _train(config: CaptionerConfig, overwrite: bool, say: Say) -> Path:
    torch.set_num_threads(config.threads)
    training = Training(config)
    folder = config.output
    nets = training.nets
    vocabulary = training.vocabulary
    size = training.features.shape[-1]
    tables = ("captions", "features")
    words = {LANGUAGE: vocabulary}
    checkpoint.prepare_folder(config, CAPTIONER_RESUMABLE, size, training.backbone, tables, words, overwrite, say)
    counts = {MLE: config.mle_epochs, DISCRIMINATOR: config.discriminator_epochs, GAN: config.gan_epochs}
    epochs = [(phase, number) for phase, count in counts.items() for number in range(1, count + 1)]

    def keep(line: Line) -> None:
        saved_with = {name: line[name] for name in ("epoch", "distinct_2")}
        checkpoint.save(folder, line["phase"], {"generator": nets.generator}, saved_with)

    def evaluate(line: Line) -> Line:
        phase, number = epochs[line["epoch"] - 1]
        accuracy = {name: value for name, value in line["terms"].items() if name in CAPTION_KINDS}
        terms = {name: value for name, value in line["terms"].items() if name not in CAPTION_KINDS}
        line = {**line, "phase": phase, "phase_epoch": number, **terms, **({"accuracy": accuracy} if accuracy else {})}
        if phase == MLE:
            line["validation_loss"] = training.validation_loss()
        noise = torch.Generator(training.device).manual_seed(config.seed)
        texts = join_words(training.sample(training.features[training.distinct_images], noise), vocabulary)
        line["distinct_2"] = distinct([text.split() for text in texts.to_pylist()], 2)
        line["samples"] = detokenize(texts[:LOGGED_CAPTIONS]).to_pylist()
        if phase == GAN:
            at_first = checkpoint.read_weights(folder, MLE).state["distinct_2"]
            if line["distinct_2"] >= config.collapse * at_first:
                keep(line)
            else:
                line["collapsed"] = True
                if not (folder / f"{GAN}.safetensors").exists():  # the last good generator is that of the first phase
                    for suffix in ("safetensors", "json"):
                        write_atomically(folder / f"{GAN}.{suffix}", (folder / f"{MLE}.{suffix}").read_bytes())
        return line

    def report(history: Sequence[Line]) -> None:
        draw_curves(history, folder / "curves.png")
        line = history[-1]
        figures = {"loss": line["loss"] if line["phase"] == MLE else None, "validation": line.get("validation_loss")}
        figures |= {name: line.get(name) for name in ("reward", "entropy")}
        figures |= {f"accuracy on {name}": share for name, share in line.get("accuracy", {}).items()}
        figures["distinct-2"] = line["distinct_2"]
        shown = ", ".join(f"{name} {value:.3f}" for name, value in figures.items() if value is not None)
        say(f"{line['phase']} {line['phase_epoch']}: {shown}, {line['seconds']:.0f} s | {line['samples'][0]}")

    rates = {  # of an Adam per loss
        "likelihood": (nets.generator, config.supervised_rate),
        "policy": (nets.generator, config.learning_rate),
        "discrimination": (nets.discriminator, config.supervised_rate),
    }
    captions = len(training.train)
    images = len(training.image[training.train].unique())
    history = fit(
        nets._asdict(),
        {name: torch.optim.Adam(net.parameters(), lr=rate) for name, (net, rate) in rates.items()},
        lambda epoch: training.batches(*epochs[epoch - 1], epoch_seed(config.seed, epoch)),
        lambda batch, epoch: batch(),
        len(epochs),
        clip=config.clip,
        evaluate=evaluate,
        select=lambda line: -line["validation_loss"] if line["phase"] == MLE else -torch.inf,
        keep=keep,
        report=report,
        stop=lambda history: bool(history) and "collapsed" in history[-1],
        folder=folder,
        say=say,
        about=f"captioner: {captions:,} captions of {images:,} images to train on, {len(vocabulary):,} words",
    )
    if "collapsed" in history[-1]:
        say(f"stopped: distinct-2 fell below {config.collapse:g} of its start; {GAN} holds the last good generator")
    return folder


def draw_curves(history: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw likelihood, reward, entropy, accuracy and distinct-2 by epoch, as lines of metrics.jsonl, as a PNG."""
    figure = new_figure(14, 3.4)
    loss, reward, accuracy, distinct = figure.subplots(1, 4)
    plot_metric(loss, [line for line in history if line["phase"] == MLE], "loss", "train")
    plot_metric(loss, history, "validation_loss", "validation")
    loss.set(xlabel="epoch", ylabel="- log likelihood per word", title="likelihood")
    plot_metric(reward, history, "reward", "reward", color="tab:green")
    beside = reward.twinx()
    plot_metric(beside, history, "entropy", "entropy", color="tab:gray")
    reward.set(xlabel="epoch", ylabel="reward (green)", title="policy gradient")
    beside.set(ylabel="entropy per word, nats (gray)")
    lines = [{"epoch": line["epoch"], **line["accuracy"]} for line in history if "accuracy" in line]
    for name in CAPTION_KINDS:
        plot_metric(accuracy, lines, name, name)
    accuracy.set(xlabel="epoch", ylabel="accuracy", ylim=(0, 1.02), title="discriminator")
    for phase, colour in COLOURS.items():
        plot_metric(distinct, [line for line in history if line["phase"] == phase], "distinct_2", phase, color=colour)
    distinct.set(xlabel="epoch", ylabel="distinct-2 of samples", ylim=(0, None), title="diversity")
    for axes in (loss, accuracy, distinct):
        if axes.lines:
            axes.legend(fontsize=7)
    write_png(figure, path, 110)
