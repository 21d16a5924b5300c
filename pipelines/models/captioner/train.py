"""The losses of a captioner (Dai et al. 2017), and its training in three phases: reads a run, writes a folder.

Equation numbers are those of Chen et al. (2019). Their equations 2 and 3, as printed, weight each word with the sum of
the rewards of all prefixes, Σ_t ∇ log π(w_t | …) · Σ_t r(S_1:t). They follow Dai et al. (2017), who weight a word with
the expected reward of the sentences that begin so, less a baseline; so do `policy_loss` and `sample_with_values`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

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
from ..figures import COLOURS, label_axes, legend_below, new_figure, plot_metric, write_png
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


def discriminator_loss(
    real: Tensor, generated: Tensor, mismatched: Tensor, alpha: float = 1.0, beta: float = 1.0
) -> Tensor:
    """-E[log r(I, S)] - α E[log(1 - r(I, S_generated))] - β E[log(1 - r(I, S_other_image))], a scalar (eq. 4).

    r(I, S) is the probability that a person wrote sentence S about image I. In equation 4, α = β = 1, and S_other_image
    is printed as "semantic-matched", surely meant as mismatched.

    Args:
        real: the logits of r for sentences of people, of any shape.
        generated: the logits for generated sentences.
        mismatched: the logits for sentences of people about another image.
        alpha: α.
        beta: β.
    """
    # With r = σ(logit): -log r = softplus(-logit), and -log(1 - r) = softplus(logit).
    real_loss = functional.softplus(-real).mean()
    generated_loss = functional.softplus(generated).mean()
    mismatched_loss = functional.softplus(mismatched).mean()
    return real_loss + alpha * generated_loss + beta * mismatched_loss


def policy_loss(log_probs: Tensor, values: Tensor, baseline: Tensor) -> Tensor:
    """A scalar whose gradient is that of the policy, -E[Σ_t ∇ log π(w_t | …) (V(S_1:t) - b_t)] (eq. 2).

    Args:
        log_probs: (B, T) log π of the sampled words w_t.
        values: (B, T) the values V.
        baseline: (B, T) the baselines b_t.
    """
    return -(log_probs * (values - baseline).detach()).sum() / len(values)


def mean_of_others(values: Tensor) -> Tensor:
    """Baselines b_t (B, T) for values (B, T): the mean of the other sentences' values at word t; 0 if there are none.
    As sentences are sampled independently, this does not change the expectation of the gradient.
    """
    return (values.sum(0) - values) / max(len(values) - 1, 1)


class ValuedSentences(NamedTuple):
    """B sampled sentences, the values (B, T) of their words, and the rewards (B,) of whole sentences."""

    sentences: PaddedSentences
    values: Tensor
    rewards: Tensor


def sample_with_values(
    policy: Generator,
    state: LSTMState,
    uniforms: Tensor,
    reward: Reward,
    positions: Sequence[int],
    rollouts: int,
    rng: torch.Generator,
) -> ValuedSentences:
    """Sample one sentence per row, and estimate the value of each of its words (eq. 3).

    The value V(S_1:p) of the first p words is the mean reward of some sampled completions, at the rollout positions p.
    Word t gets the value of the next rollout position p >= t within the sentence; words after the last position get the
    reward of the sentence itself. So there are fewer rollouts than words. The expectation of the gradient is the same,
    as p does not depend on the words after it.

    Args:
        policy: the generator.
        state: of the generator before the first word, of B rows.
        uniforms: (B, T) in (0, 1) to sample the sentences by, on the device.
        reward: of sentences.
        positions: the rollout positions, in ascending order.
        rollouts: n, the completions per rollout position.
        rng: to sample completions.
    """
    rows, max_words = uniforms.shape
    device = uniforms.device
    empty = empty_sentences(rows, max_words, device)
    sentences, stops = complete(policy, state, empty, uniforms, positions)
    rewards = reward(sentences, torch.arange(rows, device=device))
    values = rewards[:, None].expand(rows, max_words).clone()
    if not (stops and rollouts):
        return ValuedSentences(sentences, values, rewards)

    # A stop is a rollout position, with the b sentences that are longer. All rollouts of all stops are completed
    # together: n copies of a stop's b sentences, then those of the next stop. Row k of a stop's part is sentence k % b.
    row = torch.cat([stop.rows.repeat(rollouts) for stop in stops])
    length = torch.cat([torch.full_like(stop.rows, stop.position).repeat(rollouts) for stop in stops])
    hidden = torch.cat([stop.state.hidden.repeat(rollouts, 1) for stop in stops])
    cell = torch.cat([stop.state.cell.repeat(rollouts, 1) for stop in stops])
    is_in_prefix = torch.arange(max_words, device=device)[None, :] < length[:, None]
    prefixes = PaddedSentences(sentences.words[row].where(is_in_prefix, PAD_ID), length)
    rollout_uniforms = torch.rand(len(row), max_words, generator=rng, device=rng.device).to(device)
    completed, _ = complete(policy, LSTMState(hidden, cell), prefixes, rollout_uniforms)
    rewards_of_stops = reward(completed, row).split([len(stop.rows) * rollouts for stop in stops])
    # From the last stop to the first, as each overwrites the values of all words before its position.
    for stop, stop_rewards in reversed(list(zip(stops, rewards_of_stops, strict=True))):
        value = stop_rewards.view(rollouts, -1).mean(0)  # (b,)
        values[stop.rows, : stop.position] = value[:, None].expand(-1, stop.position)
    return ValuedSentences(sentences, values, rewards)


DISCRIMINATOR = "discriminator"  # the second phase of the training, between MLE and GAN
CAPTION_KINDS = ("real", "generated", "mismatched")  # captions that the discriminator tells apart
DISTINCT_IMAGES = 512  # images that distinct-2 is measured on
AT_ONCE = 1024  # sentences per batch when no gradients are computed
LOGGED_CAPTIONS = 4  # sampled captions per line of metrics.jsonl


class GeneratorBatch(NamedTuple):
    """A step of the generator on captions `rows` (B,), or on their images.

    phase: MLE for a step on the likelihood of the captions, GAN for one of policy gradient. noise: what z, and the
    sentences of a policy gradient, are drawn from.
    """

    phase: str
    rows: Tensor
    noise: torch.Generator


class DiscriminatorBatch(NamedTuple):
    """A step of the discriminator on captions `rows` (B,) and captions generated for their images."""

    rows: Tensor
    generated: PaddedSentences


CaptionerBatch = GeneratorBatch | DiscriminatorBatch


class PhaseEpoch(NamedTuple):
    """An epoch of the training by its phase, and its number in this phase, from 1."""

    phase: str
    number: int


class Training:
    """The nets, and C captions of I images. features (I, D), tokens and offsets are on the device, the rest on the CPU.

    tokens, offsets: the captions as EncodedTexts. image: (C,) the image index of each caption. train, validation: (n,)
    indices of captions. known: the train captions without <unk>, on which the discriminator is trained, as it would
    otherwise learn that only people write <unk> (all train captions if fewer than two remain). distinct_images: indices
    of the first validation images, for distinct-2.

    Raises FileNotFoundError or ValueError if a table of the run is missing or unfit.
    """

    def __init__(self, config: CaptionerConfig) -> None:
        """Read the captions and features of the run, and make new nets."""
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
        # reduceat counts each caption's <unk>: from its first token to that of the next one.
        has_unknown = torch.from_numpy(np.add.reduceat(encoded.tokens == UNKNOWN_ID, encoded.offsets[:-1]) > 0)
        known = train[~has_unknown[train]]
        self.known = known if len(known) > 1 else train
        self.tokens = torch.from_numpy(encoded.tokens).to(self.device)
        self.offsets = torch.from_numpy(encoded.offsets).to(self.device)
        self.image = captions.image
        self.backbone = features.backbone
        self.distinct_images = captions.image[self.validation].unique()[:DISTINCT_IMAGES]
        # Transformed once and kept on the device, as every step of every phase reads them.
        self.features = transform_features(features.values, config.transform).to(self.device)
        self.nets = build_nets(config, self.features.shape[-1], len(self.vocabulary))
        for net in self.nets:
            net.to(self.device)
        self.nets.generator.dropout.eval()  # only used for likelihood; LSTMs stay in training mode, as cuDNN needs

    def sentences(self, captions: Tensor) -> PaddedSentences:
        """The first `words` words of captions (B,), without <start>."""
        captions = captions.to(self.device)
        # + 1 skips a caption's first token, <start>, which the nets put before a sentence themselves.
        starts = self.offsets[captions] + 1
        lengths = (self.offsets[captions + 1] - starts).clamp(max=self.config.words)
        position = torch.arange(int(lengths.max()), device=self.device)[None, :]
        # Positions after a caption's end are words of the next one, or past the last token; padding replaces them.
        words = self.tokens[(starts[:, None] + position).clamp(max=len(self.tokens) - 1)].long()
        return PaddedSentences(words.where(position < lengths[:, None], PAD_ID), lengths)

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

    def step(self, batch: CaptionerBatch) -> TrainingStep:
        """The loss of a batch of any phase, and the optimizer that is to minimize it."""
        if isinstance(batch, DiscriminatorBatch):
            return self.discriminator_step(batch.rows, batch.generated)
        if batch.phase == MLE:
            return TrainingStep(self.likelihood(batch.rows, batch.noise), optimizer="likelihood")
        return self.policy_step(batch.rows, batch.noise)

    def discriminator_step(self, rows: Tensor, generated: PaddedSentences) -> TrainingStep:
        """The loss of the discriminator on captions `rows` (B,), on generated ones of the same images, and on captions
        of other images. Its terms: the loss, and the accuracies on these three kinds, from 0 to 1.
        """
        discriminator = self.nets.discriminator
        images = discriminator.images(self.features_of(rows))
        sentences = discriminator.sentences(self.sentences(rows))
        real = (images * sentences).sum(1)
        fake = discriminator(images, generated)
        # Each image is also scored with the caption of the row before, unless that describes the same image.
        previous = (images * sentences.roll(1, 0)).sum(1)
        is_other_image = (self.image[rows] != self.image[rows].roll(1, 0)).to(self.device)
        if bool(is_other_image.any()):
            mismatched = previous[is_other_image]
        else:
            mismatched = torch.zeros_like(previous)  # a constant term, since a mean over nothing is not finite
        loss = discriminator_loss(real, fake, mismatched, self.config.alpha, self.config.beta)
        # A logit above 0 says that a person wrote the sentence about this image.
        accuracies = [(real > 0).float().mean(), (fake < 0).float().mean(), (mismatched < 0).float().mean()]
        terms = {"discriminator_loss": loss, **dict(zip(CAPTION_KINDS, accuracies, strict=True))}
        return TrainingStep(loss, terms, optimizer="discrimination")

    def policy_step(self, rows: Tensor, noise: torch.Generator) -> TrainingStep:
        """The loss of policy gradient on captions sampled for the images of captions `rows` (B,). Its terms: the mean
        reward; the policy's mean entropy per word in nats, estimated from the sampled words; the mean number of words.
        """
        config = self.config
        generator = self.nets.generator
        discriminator = self.nets.discriminator
        features = self.features_of(rows)
        with torch.no_grad():
            images = discriminator.images(features)

        def reward(sentences: PaddedSentences, row: Tensor) -> Tensor:
            """The discriminator's r(I, S), (b,), of sentences S; row: (b,), each image I as a position in the batch."""
            with torch.no_grad():
                return discriminator(images[row], sentences).sigmoid()

        state = generator.first_state(features, self.normal(len(rows), noise))
        positions = range(config.rollout_every, config.words, config.rollout_every)
        uniforms = self.uniforms(len(rows), noise)
        sampled = sample_with_values(generator, state, uniforms, reward, positions, config.rollouts, noise)
        log_probs = generator(state, sampled.sentences)  # (B, T)
        terms = {
            "reward": sampled.rewards.mean(),
            "entropy": -log_probs.detach()[sampled.sentences.mask].mean(),
            "words": sampled.sentences.lengths.float().mean(),
        }
        # A word counts by how much its value exceeds the mean of the batch's other sentences at the same place: (B, T).
        baseline = mean_of_others(sampled.values)
        loss = policy_loss(log_probs, sampled.values, baseline)
        return TrainingStep(loss, terms, optimizer="policy")

    def batches(self, epoch: PhaseEpoch, seed: int) -> Iterator[CaptionerBatch]:
        """The batches of an epoch, one at a time: each is sampled after the step on the one before it.

        Args:
            epoch: its phase, and its number in this phase. The first epoch after maximum likelihood begins by loading
                the generator with the least validation loss.
            seed: of all that is drawn in this epoch.
        """
        order = torch.Generator().manual_seed(seed)
        noise = torch.Generator(self.device).manual_seed(seed)
        after_likelihood = GAN if not self.config.discriminator_epochs else DISCRIMINATOR
        if epoch == PhaseEpoch(after_likelihood, 1):
            checkpoint.restore(self.config.output, MLE, {"generator": self.nets.generator})
        if epoch.phase == MLE:
            # Dropout draws from PyTorch's global generator, so this one is seeded, and put back afterwards.
            with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
                torch.manual_seed(seed)
                self.nets.generator.dropout.train()
                for rows in shuffled_batches(self.train, self.config.batch_size, order):
                    yield GeneratorBatch(MLE, rows, noise)
                self.nets.generator.dropout.eval()
        elif epoch.phase == DISCRIMINATOR:
            yield from self._discriminator_batches(order, noise)
        else:
            yield from self._adversarial_batches(order, noise)

    def _discriminator_batches(self, order: torch.Generator, noise: torch.Generator) -> Iterator[DiscriminatorBatch]:
        """Batches of all captions that the discriminator is trained on, in random order, with generated ones.

        order: draws the order. noise: what sentences are sampled from.

        Captions are generated for many batches at a time, as the generator does not change in this phase.
        """
        for rows in shuffled_batches(self.known, AT_ONCE, order):
            generated = self.sample(self.features_of(rows), noise)
            for part in torch.arange(len(rows)).split(self.config.batch_size):
                if len(part) > 1:  # a single caption has no other image
                    yield DiscriminatorBatch(rows[part], generated.select(part.to(self.device)))

    def _adversarial_batches(self, order: torch.Generator, noise: torch.Generator) -> Iterator[CaptionerBatch]:
        """`stages` times `generator_steps` steps of policy gradient, then one of the discriminator, on random captions.

        Args:
            order: what captions are drawn from.
            noise: what sentences are sampled from.
        """
        config = self.config

        def random_rows(captions: Tensor) -> Tensor:
            """A batch of captions (B,), drawn with replacement."""
            return captions[torch.randint(len(captions), (config.batch_size,), generator=order)]

        for _ in range(config.stages):
            for _ in range(config.generator_steps):
                yield GeneratorBatch(GAN, random_rows(self.train), noise)
            rows = random_rows(self.known)
            yield DiscriminatorBatch(rows, self.sample(self.features_of(rows), noise))

    def evaluate(self, line: Line, epoch: PhaseEpoch) -> Line:
        """The line of an epoch's losses with what is measured after it: the phase, the discriminator's accuracies on
        the CAPTION_KINDS, the validation loss (of the first phase only), distinct-2, and some sampled captions.
        """
        terms = line["terms"]
        accuracies = {name: value for name, value in terms.items() if name in CAPTION_KINDS}
        others = {name: value for name, value in terms.items() if name not in CAPTION_KINDS}
        line = {**line, "phase": epoch.phase, "phase_epoch": epoch.number, **others}
        if accuracies:
            line["accuracy"] = accuracies
        if epoch.phase == MLE:
            line["validation_loss"] = self.validation_loss()
        # The same noise after each epoch, so that the samples show what training has changed.
        noise = torch.Generator(self.device).manual_seed(self.config.seed)
        texts = join_words(self.sample(self.features[self.distinct_images], noise), self.vocabulary)
        line["distinct_2"] = distinct([text.split() for text in texts.to_pylist()], 2)
        line["samples"] = detokenize(texts[:LOGGED_CAPTIONS]).to_pylist()
        if epoch.phase == GAN:
            # Policy gradient can make the captions of all images alike; then the training stops.
            before = checkpoint.read_weights(self.config.output, MLE).state["distinct_2"]
            if line["distinct_2"] < self.config.collapse * before:
                line["collapsed"] = True
        return line

    def keep_generator(self, line: Line) -> None:
        """Write the generator as the weights of its phase."""
        saved_with = {name: line[name] for name in ("epoch", "distinct_2")}
        checkpoint.save(self.config.output, line["phase"], {"generator": self.nets.generator}, saved_with)

    def keep_after_gan(self, line: Line) -> None:
        """Keep the generator of an epoch of the third phase, unless its captions have become too much alike. Then the
        last good one stays; if there is none of this phase, it is that of the first phase.
        """
        folder = self.config.output
        if "collapsed" not in line:
            self.keep_generator(line)
        elif not (folder / f"{GAN}.safetensors").exists():
            for suffix in ("safetensors", "json"):
                write_atomically(folder / f"{GAN}.{suffix}", (folder / f"{MLE}.{suffix}").read_bytes())


def train(config: CaptionerConfig, *, overwrite: bool = False, say: Say = silent) -> Path:
    """Train a captioner and return its folder; an interrupted training resumes after the last epoch it completed.

    The folder holds config.json, vocabulary.json, metrics.jsonl (one line per epoch, with captions sampled for
    validation images), curves.png, and weights as safetensors and JSON: the generator with the least validation loss
    (`mle`), the last one before diversity collapsed (`gan`), and all that resuming needs (`last`). On one machine the
    same config gives the same weights; see `deterministic` for a GPU.

    Args:
        config: of the training.
        overwrite: replace a captioner trained with other settings.
        say: called with one line of progress per epoch.

    Raises:
        FileNotFoundError: the run lacks a table that the training needs.
        ValueError: the run is unfit for the training, or the folder holds anything else.
        LockedError: another command writes the folder.
    """
    with locked(config.output):
        return _train(config, overwrite, say)


def _train(config: CaptionerConfig, overwrite: bool, say: Say) -> Path:
    """Train in a folder that no other command writes."""
    torch.set_num_threads(config.threads)
    training = Training(config)
    folder = config.output
    nets = training.nets
    vocabulary = training.vocabulary
    size = training.features.shape[-1]
    tables = ("captions", "features")
    words = {LANGUAGE: vocabulary}
    checkpoint.prepare_folder(
        config, CAPTIONER_RESUMABLE, size, training.backbone, tables=tables, words=words, overwrite=overwrite, say=say
    )
    counts = {MLE: config.mle_epochs, DISCRIMINATOR: config.discriminator_epochs, GAN: config.gan_epochs}
    # The phases one after the other; epoch n of the whole training is epochs[n - 1].
    epochs = [PhaseEpoch(phase, number) for phase, count in counts.items() for number in range(1, count + 1)]

    def evaluate(line: Line) -> Line:
        """The line of an epoch with what is measured after it; also save the generator after one of policy gradient."""
        epoch = epochs[line["epoch"] - 1]
        line = training.evaluate(line, epoch)
        if epoch.phase == GAN:
            training.keep_after_gan(line)
        return line

    def report(history: Sequence[Line]) -> None:
        """Draw the curves of all epochs so far, and say how the last one went."""
        draw_curves(history, folder / "curves.png")
        say(describe_epoch(history[-1]))

    # One Adam for each loss; the likelihood's and the policy's move the same net.
    optimizers = {
        "likelihood": torch.optim.Adam(nets.generator.parameters(), lr=config.supervised_rate),
        "policy": torch.optim.Adam(nets.generator.parameters(), lr=config.learning_rate),
        "discrimination": torch.optim.Adam(nets.discriminator.parameters(), lr=config.supervised_rate),
    }
    captions = len(training.train)
    images = len(training.image[training.train].unique())
    history = fit(
        nets._asdict(),
        optimizers,
        lambda epoch: training.batches(epochs[epoch - 1], epoch_seed(config.seed, epoch)),
        lambda batch, epoch: training.step(batch),  # a batch says its phase, on which its loss and optimizer depend
        len(epochs),
        clip=config.clip,
        evaluate=evaluate,
        # Only the first phase has a validation loss; in the others no epoch is better than another.
        select=lambda line: -line["validation_loss"] if line["phase"] == MLE else -torch.inf,
        keep=training.keep_generator,
        report=report,
        stop=lambda history: bool(history) and "collapsed" in history[-1],
        folder=folder,
        say=say,
        about=f"captioner: {captions:,} captions of {images:,} images to train on, {len(vocabulary):,} words",
    )
    if "collapsed" in history[-1]:
        say(f"stopped: distinct-2 fell below {config.collapse:g} of its start; {GAN} holds the last good generator")
    return folder


def describe_epoch(line: Line) -> str:
    """A line of progress of an epoch: `mle 3: loss 2.104, validation 2.310, distinct-2 0.412, 8 s | A dog runs.`"""
    figures = {"loss": line["loss"] if line["phase"] == MLE else None, "validation": line.get("validation_loss")}
    figures |= {name: line.get(name) for name in ("reward", "entropy")}
    figures |= {f"accuracy on {name}": share for name, share in line.get("accuracy", {}).items()}
    figures["distinct-2"] = line["distinct_2"]
    shown = ", ".join(f"{name} {value:.3f}" for name, value in figures.items() if value is not None)
    return f"{line['phase']} {line['phase_epoch']}: {shown}, {line['seconds']:.0f} s | {line['samples'][0]}"


def draw_curves(history: Sequence[Line], path: Path) -> None:
    """Draw likelihood, reward, entropy, accuracy and distinct-2 by epoch, as lines of metrics.jsonl, as a PNG."""
    figure = new_figure(16, 3.8)
    loss, reward, entropy, accuracy, diversity = figure.subplots(1, 5)
    supervised = [line for line in history if line["phase"] == MLE]
    plot_metric(loss, supervised, "loss", "train", color=COLOURS[0])
    plot_metric(loss, history, "validation_loss", "validation", color=COLOURS[1])
    label_axes(loss, "Negative log-likelihood", "epoch", "nats per word")
    plot_metric(reward, history, "reward", "reward", color=COLOURS[0])
    label_axes(reward, "Reward", "epoch", "mean of a sample")
    plot_metric(entropy, history, "entropy", "entropy", color=COLOURS[0])
    label_axes(entropy, "Entropy", "epoch", "nats per word")

    lines = [{"epoch": line["epoch"], **line["accuracy"]} for line in history if "accuracy" in line]
    for number, name in enumerate(CAPTION_KINDS):
        plot_metric(accuracy, lines, name, name, color=COLOURS[number])
    label_axes(accuracy, "Discriminator", "epoch", "accuracy")
    accuracy.set(ylim=(0, 1.02))

    for number, phase in enumerate((MLE, DISCRIMINATOR, GAN)):
        of_phase = [line for line in history if line["phase"] == phase]
        plot_metric(diversity, of_phase, "distinct_2", phase, color=COLOURS[number])
    label_axes(diversity, "Diversity", "epoch", "distinct-2 of samples")
    diversity.set(ylim=(0, 1.02))
    for axes in (loss, accuracy, diversity):
        legend_below(axes, columns=1)
    write_png(figure, path, 110)
