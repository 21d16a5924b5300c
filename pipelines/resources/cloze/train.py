"""Train a cloze model by sampled softmax: the softmax over a large vocabulary, estimated from a sample of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import count, groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ....augment.cloze.file import read_about
from ....augment.cloze.states import SPECIAL, Units
from ....augment.data import data_path
from ....augment.settings import given_only
from ...models.fit import Line, Say, TrainingStep, fit
from ..progress import report
from . import corpus, network
from .config import ClozeTrainingConfig, Sizes
from .network import UNKNOWN_UNIT, Cloze, log_frequencies

# The units of an average caption, with START and END: a batch of n captions may have n times so many units.
MEAN_LENGTH = 13
SMALLEST_BATCH = 8


class SampledLoss(NamedTuple):
    """The mean loss of the targets in nats, and the mean squared log of the sum of all probabilities: scalars."""

    loss: Tensor
    squared_log_sum: Tensor


def sampled_loss(net: Cloze, contexts: Tensor, targets: Tensor, drawn: Tensor, log_q: Tensor) -> SampledLoss:
    """The loss of a sampled softmax.

    With s(w) for the score of unit w in a context, t for its target, D for the drawn units and q(w) for the chance that
    w is among them, the sum of all probabilities is estimated as Z = exp s(t) + sum of exp s(w) / q(w) over D without
    t, and the loss is log Z - s(t): Jean, Cho, Memisevic and Bengio, "On Using Very Large Target Vocabulary for Neural
    Machine Translation", 2015. If D is the whole vocabulary, this is the softmax.

    Args:
        net: the model, whose word vectors and biases give the scores.
        contexts: (n, words).
        targets: the unit that stands in each context, (n,).
        drawn: the units of D, distinct, (samples,).
        log_q: log q of each unit of the vocabulary, (units,).
    """
    vectors = net.vectors
    true_scores = (contexts * vectors[targets]).sum(-1) + net.bias[targets]
    other_scores = contexts @ vectors[drawn].T + net.bias[drawn] - log_q[drawn]
    other_scores = other_scores.masked_fill(drawn[None] == targets[:, None], -torch.inf)
    log_sum = torch.logaddexp(true_scores, torch.logsumexp(other_scores, -1))
    return SampledLoss((log_sum - true_scores).mean(), (log_sum**2).mean())


class UnitSampler(NamedTuple):
    """Draws the units that a batch's targets are compared with, each independently of the others. rates: (units,),
    float64. A unit is drawn with the chance 1 - exp(-rate); log_chance: (units,), its logarithm.
    """

    rates: Tensor
    log_chance: Tensor

    def draw(self, generator: torch.Generator) -> Tensor:
        """Some distinct units, in ascending order."""
        # An exponential variable with rate 1 is below r with the chance 1 - exp(-r).
        keys = torch.empty_like(self.rates).exponential_(generator=generator)
        return (keys < self.rates).nonzero()[:, 0]


def unit_sampler(counts: np.ndarray, samples: int) -> UnitSampler:
    """A sampler of units at rates in proportion to count^0.75, as in word2vec; special units are never drawn.

    Args:
        counts: (units,) how often each unit occurs; a unit that never occurs is drawn as one that occurs once.
        samples: how many distinct units a draw has on average; at most all of them.
    """
    weights = torch.from_numpy(np.maximum(counts, 1).astype(np.float64) ** 0.75)
    weights[: len(SPECIAL)] = 0.0
    samples = min(samples, len(weights) - len(SPECIAL))
    # The scale of the rates, by bisection: a chance is not proportional to its rate, but grows with it.
    low = 0.0
    high = 1e12
    # Each turn halves the interval: long before 200 turns it is as small as float64 can tell.
    for _ in range(200):
        scale = (low + high) / 2
        expected = float((1 - torch.exp(-weights * scale)).sum())
        if expected < samples:
            low = scale
        else:
            high = scale
    chance = 1 - torch.exp(-weights * low)
    return UnitSampler(weights * low, torch.log(chance.clamp_min(1e-12)).float())


def batches(captions: list[np.ndarray], size: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Captions of equal length in batches (captions, length) of about `size` x MEAN_LENGTH units, in random order."""
    order = generator.permutation(len(captions))
    order = order[np.argsort([len(captions[i]) for i in order], kind="stable")]
    stacked = []
    for length, group in groupby(order, key=lambda i: len(captions[i])):
        numbers = list(group)
        size_of_batch = max(size * MEAN_LENGTH // length, SMALLEST_BATCH)
        for start in range(0, len(numbers), size_of_batch):
            stacked.append(np.stack([captions[i] for i in numbers[start : start + size_of_batch]]))
    return [stacked[i] for i in generator.permutation(len(stacked))]


@torch.random.fork_rng(devices=[])  # torch's own random generator is as before afterwards
def new_network(counts: np.ndarray, sizes: Sizes, config: ClozeTrainingConfig) -> Cloze:
    """A network with random weights, its biases the log frequencies of the units (words, phrases); counts: (units,)."""
    torch.manual_seed(config.seed)
    net = Cloze(len(counts), sizes, config.dropout)
    with torch.no_grad():
        net.bias.copy_(log_frequencies(counts))
    return net


@torch.random.fork_rng(devices=[])
def train(
    net: Cloze,
    captions: list[np.ndarray],
    counts: np.ndarray,
    config: ClozeTrainingConfig,
    report: Say,
    after_epoch: Callable[[Cloze, int], None] = lambda net, epoch: None,
) -> Cloze:
    """Train `net` in place on encoded captions, and return it with the moving average of its weights.

    The same arguments give the same weights on the same machine with the same number of threads.

    Args:
        net: the network to train.
        captions: as `negcap.pipelines.resources.cloze.corpus.encode` gives them.
        counts: how often each unit occurs, (units,).
        config: the schedule.
        report: called with lines of progress.
        after_epoch: called after each epoch with the averaged network and the number of the epoch, from 1.
    """
    # For dropout, which takes no generator.
    torch.manual_seed(config.seed)
    order = np.random.default_rng(config.seed)
    generator = torch.Generator().manual_seed(config.seed)
    sampler = unit_sampler(counts, config.samples)
    average = copy.deepcopy(net)
    step_numbers = count(1)
    steps_per_epoch = len(batches(captions, config.batch, np.random.default_rng(0)))
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=config.weight_decay, betas=(0.9, 0.98))

    def epoch_batches(epoch: int) -> Iterator[Tensor]:
        """The batches of an epoch, (captions, length) units. In the last `config.fixed_point` epochs the network rounds
        its weights as its file stores them, and so learns to work with rounded ones.
        """
        net.train()
        last_exact_epoch = config.epochs - config.fixed_point
        net.fixed_point = epoch > last_exact_epoch
        average.fixed_point = net.fixed_point
        for batch in batches(captions, config.batch, order):
            # Unknown words are no targets: a batch with no other words (between <s> and </s>) has no loss.
            if (batch[:, 1:-1] != UNKNOWN_UNIT).any():
                yield torch.from_numpy(batch).long()

    def step(units: Tensor, epoch: int) -> TrainingStep:
        """The loss of a batch of captions, (captions, length) numbers of units."""
        loss, squared_log_sum = _batch_loss(net, units, sampler, config, generator)
        # The second term draws the sums of probabilities to 1, so that scores need no normalising when used.
        terms = {"loss": loss, "squared log of the sum": squared_log_sum}
        return TrainingStep(loss + config.normalise * squared_log_sum, terms)

    def move_average(units: Tensor) -> None:
        """After each step, move the averaged weights a little towards the present ones."""
        number = next(step_numbers)
        # At first the weights move fast: a long memory would keep the random ones.
        decay = min(config.average, (1 + number) / (10 + number))
        with torch.no_grad():
            torch._foreach_lerp_([*average.parameters()], [*net.parameters()], 1 - decay)

    def evaluate(line: Line) -> Line:
        """After each epoch, report its losses and pass the averaged network to `after_epoch`."""
        terms = ", ".join(f"{name} {value:.3f}" for name, value in line["terms"].items())
        report(f"epoch {line['epoch']} of {config.epochs}: {terms}")
        after_epoch(average, line["epoch"])
        return {}  # nothing to add to the record of the epoch

    fit(
        {"net": net},
        {"optimizer": optimizer},
        epoch_batches,
        step,
        config.epochs,
        clip=1.0,
        rate=lambda epoch, before: config.learning_rate * rate(before, config.epochs * steps_per_epoch, config.warm_up),
        after_step=move_average,
        evaluate=evaluate,
        say=report,
        about=f"{len(captions):,} captions",
        length=steps_per_epoch,
    )
    net.load_state_dict(average.state_dict())
    return net


def rate(step: int, steps: int, warm_up: int) -> float:
    """The share of the learning rate at a step, from 0: it rises for `warm_up` steps or a tenth of all, then falls."""
    warm_up = min(warm_up, steps // 10)
    rising = (step + 1) / max(warm_up, 1)
    falling = (steps - step) / max(steps - warm_up, 1)
    return min(rising, falling)


def _batch_loss(
    net: Cloze, units: Tensor, sampler: UnitSampler, config: ClozeTrainingConfig, generator: torch.Generator
) -> SampledLoss:
    """The loss of a batch of captions.

    Args:
        net: the model that is trained.
        units: (captions, length) the captions as numbers of units, from START to END.
        sampler: draws the units that the true ones are compared with.
        config: with the share of words that are read as unknown.
        generator: of all random numbers.
    """
    read = units
    if config.forget:
        # The model must also learn to read unknown words, of which the training captions have few.
        forgotten = torch.rand(units.shape, generator=generator) < config.forget
        forgotten[:, [0, -1]] = False  # START and END
        read = units.masked_fill(forgotten, UNKNOWN_UNIT)
    targets = units[:, 1:-1].flatten()
    is_known = targets != UNKNOWN_UNIT
    drawn = sampler.draw(generator)
    contexts = net.contexts(read).flatten(0, 1)
    return sampled_loss(net, contexts[is_known], targets[is_known], drawn, sampler.log_chance)


SHIPPED = "shipped"
# If no captions are held out, the biases are shifted for about this many captions of the training set.
CENTRED_ON = 5_000
# The values with --continue, if they are not given.
CONTINUED = {"epochs": 4, "learning_rate": 5e-4}


def train_on(
    captions: Sequence[str],
    output: Path,
    *,
    held_out: Sequence[str] = (),
    leave_out: Path | None = None,
    source: str = "",
    continued: Path | None = None,
    **given: object,
) -> None:
    """Train a model on the captions of some sources, or train the model `continued` on, and write it to `output`.

    Args:
        captions: sources that `negcap build` reads.
        output: the file to write.
        held_out: sources whose captions the perplexity is measured on.
        leave_out: a file with ids of photos whose captions are not trained on.
        source: what the captions are, for the model's metadata; default: the names of the sources.
        continued: a model's file, or SHIPPED for that of the package; None: a new network.
        given: fields of `Sizes` and `ClozeTrainingConfig`; None is not given.

    Raises:
        OSError, ValueError: the input is missing or bad.
    """
    given = given_only(given)
    if continued and (resized := [f"--{name}" for name in Sizes.model_fields if name in given]):
        raise ValueError(f"{', '.join(resized)} must not be given with --continue: the model has its sizes")
    if output.is_dir():
        raise ValueError(f"output must be a file, is a folder: {output}")
    if continued == Path(SHIPPED):
        continued = data_path("cloze") / "model.npz"
    config = ClozeTrainingConfig.of({**(CONTINUED if continued else {}), **given})
    sizes = Sizes.of(given)
    # With two threads that wait for each other actively on shared cores, it takes several times as long as with one:
    # the GRUs are many small products in a row. One thread also gives the same bytes on machines of any size.
    torch.set_num_threads(config.threads)

    trained_on = corpus.read_sources(captions, leave_out)
    kept_apart = [corpus.read_source(name, held_out=True) for name in held_out]
    for read in (*trained_on, *kept_apart):
        counted = f"{len(read.texts)} distinct captions, {read.left_out} left out for their photos"
        report(f"{read.name}: {counted}, {read.rejected} unreadable")
    texts = corpus.distinct_texts(trained_on)
    held_out_texts = corpus.distinct_texts(kept_apart)
    if held_out_texts and set(held_out_texts) <= set(texts):
        raise ValueError("the captions held out must differ from those to train on, all of them are among these")

    words = list(corpus.tokenise(texts))
    start = _prepare_start(words, config, sizes, continued)
    encoded = corpus.encode(words, start.units)
    encoded_held_out = corpus.encode(corpus.tokenise(held_out_texts), start.units)
    report(f"{len(texts)} distinct captions, {len(start.units.names)} units, {len(held_out_texts)} captions held out")

    def after_epoch(net: Cloze, epoch: int) -> None:
        """Report how well the network tells words of captions that it is not trained on."""
        if encoded_held_out:
            perplexity, log_sum = network.perplexity(net, encoded_held_out)
            report(f"epoch {epoch}: perplexity {perplexity:.3f}, mean log of the sum of probabilities {log_sum:.3f}")

    output.parent.mkdir(parents=True, exist_ok=True)
    # Also before training, so that captions which cannot be measured raise an error now.
    after_epoch(start.net, 0)
    net = train(start.net, encoded, start.counts, config, report, after_epoch)
    facts = {
        "source": source or ", ".join(read.name for read in trained_on),
        "captions": len(texts),
        "held_out": ", ".join(read.name for read in kept_apart),
        "captions_left_out": sum(read.left_out for read in trained_on),
        "held_out_captions": len(held_out_texts),
        "training": config.model_dump(),
        "continues": read_about(continued) if continued else None,
    }
    stride = -(-len(encoded) // CENTRED_ON)  # rounded up
    about = network.save(output, net, start.units, encoded_held_out, facts, encoded[::stride])
    report(f"{output}: {output.stat().st_size / 1e6:.1f} MB, perplexity {about.get('perplexity', '-')}")


class _Start(NamedTuple):
    """What a training starts from; counts: how often each unit occurs in the captions, (units,)."""

    units: Units
    counts: np.ndarray
    net: Cloze


def _prepare_start(
    words: Sequence[Sequence[str]], config: ClozeTrainingConfig, sizes: Sizes, continued: Path | None
) -> _Start:
    """The network that a training starts with, and its vocabulary, which has the words of the tokenised captions.

    sizes: of a new network. continued: the file of a network to train on, whose vocabulary grows; None: a new one.
    """
    old = network.load(continued, config.dropout) if continued else None
    known = old.units.names if old else SPECIAL
    phrases = {*corpus.phrases(), *(name for name in known if " " in name)}
    units, counts = corpus.vocabulary(words, phrases, config.min_count, known)
    if not counts[len(SPECIAL) :].any():
        raise ValueError(f"a word must occur at least {config.min_count} times (--set min_count), none does")
    if old:
        net = network.enlarged(old.net, old.units, units, counts)
    else:
        net = new_network(counts, sizes, config)
    return _Start(units, counts, net)
