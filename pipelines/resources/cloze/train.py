"""Train a cloze model by sampled softmax: the softmax over a large vocabulary, estimated from a sample of it."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ....augment.cloze.file import read_about
from ....augment.cloze.states import SPECIAL
from ....augment.data import data_path
from ....augment.settings import given_only
from ...models.fit import Line, Say, TrainingStep, fit, silent
from . import corpus, network
from .config import JudgementConfig, Sizes, SurrogateConfig, TrainingConfig
from .network import UNKNOWN_UNIT, Cloze, log_frequencies

MEAN_LENGTH = 13  # of a caption in units, with START and END: what turns a batch of captions into one of words
SMALLEST_BATCH = 8


def sampled_loss(net: Cloze, contexts: Tensor, targets: Tensor, drawn: Tensor, log_q: Tensor) -> tuple[Tensor, Tensor]:
    """The mean loss of the targets in nats, and the mean squared log of the sum of all probabilities.

    With s(w) for the score of unit w in a context, t for its target, D for the drawn units and q(w) for the chance that
    w is among them, the sum of all probabilities is estimated as Z = exp s(t) + sum of exp s(w) / q(w) over D without
    t, and the loss is log Z - s(t): Jean, Cho, Memisevic and Bengio, "On Using Very Large Target Vocabulary for Neural
    Machine Translation", 2015. If D is the whole vocabulary, this is the softmax.

    contexts: (n, words). targets: (n,). drawn: (samples,), distinct. log_q: log q of each unit, (units,).
    """
    vectors = net.vectors
    true = (contexts * vectors[targets]).sum(-1) + net.bias[targets]
    others = contexts @ vectors[drawn].T + net.bias[drawn] - log_q[drawn]
    others = others.masked_fill(drawn[None] == targets[:, None], -torch.inf)
    total = torch.logaddexp(true, torch.logsumexp(others, -1))
    return (total - true).mean(), (total**2).mean()


class Drawing(NamedTuple):
    """How the words are drawn that a batch's targets are told from: each by itself, with a chance of its own. rates:
    (units,), float64. The chance of a unit is 1 - exp(-rate); log_chance, (units,), is its logarithm.
    """

    rates: Tensor
    log_chance: Tensor

    def draw(self, generator: torch.Generator) -> Tensor:
        """Some distinct units, in ascending order."""
        keys = torch.empty_like(self.rates).exponential_(generator=generator)
        return (keys < self.rates).nonzero()[:, 0]


def drawing(counts: np.ndarray, samples: int) -> Drawing:
    """Draw units in proportion to count^0.75, such that `samples` of them are expected; never the special ones. counts:
    of each unit, (units,); a unit without occurrences is drawn as one that occurs once.
    """
    weights = torch.from_numpy(np.maximum(counts, 1).astype(np.float64) ** 0.75)
    weights[: len(SPECIAL)] = 0.0
    samples = min(samples, len(weights) - len(SPECIAL))
    low = 0.0
    high = 1e12
    for _ in range(200):
        scale = (low + high) / 2
        expected = float((1 - torch.exp(-weights * scale)).sum())
        low, high = (scale, high) if expected < samples else (low, scale)
    chance = 1 - torch.exp(-weights * low)
    return Drawing(weights * low, torch.log(chance.clamp_min(1e-12)).float())


def batches(captions: list[np.ndarray], size: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Captions of equal length in batches (captions, length) of about `size` x MEAN_LENGTH units, in random order."""
    order = generator.permutation(len(captions))
    order = order[np.argsort([len(captions[i]) for i in order], kind="stable")]
    stacked = []
    for length, group in groupby(order, key=lambda i: len(captions[i])):
        numbers = list(group)
        rows = max(size * MEAN_LENGTH // length, SMALLEST_BATCH)
        stacked += [np.stack([captions[i] for i in numbers[at : at + rows]]) for at in range(0, len(numbers), rows)]
    return [stacked[i] for i in generator.permutation(len(stacked))]


@torch.random.fork_rng(devices=[])
def new_network(counts: np.ndarray, sizes: Sizes, config: TrainingConfig) -> Cloze:
    """A network with random weights, whose biases are the logs of the units' frequencies by counts (units,)."""
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
    config: TrainingConfig,
    report: Say,
    after_epoch: Callable[[Cloze, int], None] = lambda net, epoch: None,
) -> Cloze:
    """Train `net` in place on encoded captions, and return it with the moving average of its weights. counts: of each
    unit, (units,). report: called with lines of progress. after_epoch(net, epoch): called with the average after each
    epoch. The same arguments give the same weights on the same machine with the same number of threads.
    """
    torch.manual_seed(config.seed)  # of dropout, which takes no generator
    order = np.random.default_rng(config.seed)
    generator = torch.Generator().manual_seed(config.seed)
    sampling = drawing(counts, config.samples)
    average = copy.deepcopy(net)
    done = count(1)
    per_epoch = len(batches(captions, config.batch, np.random.default_rng(0)))
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=config.weight_decay, betas=(0.9, 0.98))

    def epoch_batches(epoch: int) -> Iterator[Tensor]:
        net.train()
        net.fixed_point = average.fixed_point = epoch > config.epochs - config.fixed_point
        told = (batch for batch in batches(captions, config.batch, order) if (batch[:, 1:-1] != UNKNOWN_UNIT).any())
        return (torch.from_numpy(batch).long() for batch in told)

    def step(units: Tensor, epoch: int) -> TrainingStep:
        loss, normal = _losses(net, units, sampling, config, generator)
        return TrainingStep(loss + config.normalise * normal, {"loss": loss, "squared log of the sum": normal})

    def after_step(units: Tensor) -> None:
        number = next(done)
        decay = min(config.average, (1 + number) / (10 + number))
        with torch.no_grad():
            torch._foreach_lerp_([*average.parameters()], [*net.parameters()], 1 - decay)

    def after(line: Line) -> Line:
        terms = ", ".join(f"{name} {value:.3f}" for name, value in line["terms"].items())
        report(f"epoch {line['epoch']} of {config.epochs}: {terms}")
        after_epoch(average, line["epoch"])
        return {}

    fit(
        {"net": net},
        {"optimizer": optimizer},
        epoch_batches,
        step,
        config.epochs,
        clip=1.0,
        rate=lambda epoch, before: config.learning_rate * rate(before, config.epochs * per_epoch, config.warm_up),
        after_step=after_step,
        evaluate=after,
        say=report,
        about=f"{len(captions):,} captions",
        length=per_epoch,
    )
    net.load_state_dict(average.state_dict())
    return net


def rate(step: int, steps: int, warm_up: int) -> float:
    """The share of the learning rate at a step, from 0: it rises for `warm_up` steps or a tenth of all, then falls."""
    warm_up = min(warm_up, steps // 10)
    return min((step + 1) / max(warm_up, 1), (steps - step) / max(steps - warm_up, 1))


def _losses(
    net: Cloze, units: Tensor, sampling: Drawing, config: TrainingConfig, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """What `sampled_loss` returns for a batch of captions, (captions, length)."""
    read = units
    if config.forget:
        forgotten = torch.rand(units.shape, generator=generator) < config.forget
        forgotten[:, [0, -1]] = False
        read = units.masked_fill(forgotten, UNKNOWN_UNIT)
    targets = units[:, 1:-1].flatten()
    known = targets != UNKNOWN_UNIT
    drawn = sampling.draw(generator)
    contexts = net.contexts(read).flatten(0, 1)
    return sampled_loss(net, contexts[known], targets[known], drawn, sampling.log_chance)


SHIPPED = "shipped"
CENTRED_ON = 5_000  # captions of the training set, at most, where none are held out
CONTINUED = {"epochs": 4, "learning_rate": 5e-4}  # where --continue is given and they are not


def train_on(
    captions: Sequence[str],
    output: Path,
    *,
    held_out: Sequence[str] = (),
    leave_out: Path | None = None,
    source: str = "",
    continued: Path | None = None,
    **given: Any,
) -> None:
    """Train a model on the captions of some sources, or train the model `continued` on, and write it to `output`.

    captions, held_out: sources that `negcap build` reads; the perplexity is measured on those held out. leave_out: a
    file with ids of photos. source: what the captions are; default: their names. continued: a model, or SHIPPED. given:
    fields of `Sizes` and `TrainingConfig`; None is not given. Raises OSError or ValueError for bad input.
    """
    given = given_only(given)
    if continued and (resized := [f"--{name}" for name in Sizes.model_fields if name in given]):
        raise ValueError(f"{', '.join(resized)} must not be given with --continue: the model has its sizes")
    if output.is_dir():
        raise ValueError(f"output must be a file, is a folder: {output}")
    if continued == Path(SHIPPED):
        continued = data_path("cloze") / "model.npz"
    config = TrainingConfig.of({**(CONTINUED if continued else {}), **given})
    sizes = Sizes.of(given)
    # With two threads that wait for each other actively on shared cores, it takes several times as long as with one:
    # the GRUs are many small products in a row. One thread also gives the same bytes on machines of any size.
    torch.set_num_threads(config.threads)

    left_out = corpus.read_photo_ids(leave_out) if leave_out else frozenset[str]()
    trained_on = [corpus.read_source(name, left_out) for name in captions]
    kept_apart = [corpus.read_source(name, held_out=True) for name in held_out]
    for read in (*trained_on, *kept_apart):
        found = f"{len(read.texts)} distinct captions, {read.left_out} left out for their photos"
        report(f"{read.name}: {found}, {read.rejected} unreadable")
    texts = list(dict.fromkeys(text for read in trained_on for text in read.texts))
    held_out_texts = list(dict.fromkeys(text for read in kept_apart for text in read.texts))
    if held_out_texts and set(held_out_texts) <= set(texts):
        raise ValueError("the captions held out must differ from those to train on, all of them are among these")

    words = list(corpus.tokenised(texts))
    old_units, old_net = network.load(continued, config.dropout) if continued else (None, None)
    known = old_units.names if old_units else SPECIAL
    phrases = {*corpus.phrases(), *(name for name in known if " " in name)}
    units, counts = corpus.vocabulary(words, phrases, config.min_count, known)
    if not counts[len(SPECIAL) :].any():
        raise ValueError(f"a word must occur at least {config.min_count} times (--set min_count), none does")
    if old_units and old_net:
        net = network.enlarged(old_net, old_units, units, counts)
    else:
        net = new_network(counts, sizes, config)
    encoded = corpus.encode(words, units)
    measured = corpus.encode(corpus.tokenised(held_out_texts), units)
    report(f"{len(texts)} distinct captions, {len(units.names)} units, {len(held_out_texts)} captions held out")

    def after_epoch(net: Cloze, epoch: int) -> None:
        if measured:
            perplexity, log_sum = network.perplexity(net, measured)
            report(f"epoch {epoch}: perplexity {perplexity:.3f}, mean log of the sum of probabilities {log_sum:.3f}")

    output.parent.mkdir(parents=True, exist_ok=True)
    after_epoch(net, 0)  # what cannot be measured is said before training
    train(net, encoded, counts, config, report, after_epoch)
    trained, apart = (", ".join(read.name for read in its) for its in (trained_on, kept_apart))
    facts = {"source": source or trained, "captions": len(texts), "held_out": apart}
    facts |= {"captions_left_out": sum(read.left_out for read in trained_on), "held_out_captions": len(held_out_texts)}
    facts |= {"training": config.model_dump(), "continues": read_about(continued) if continued else None}
    about = network.save(output, net, units, measured, facts, encoded[:: -(-len(encoded) // CENTRED_ON)])
    report(f"{output}: {output.stat().st_size / 1e6:.1f} MB, perplexity {about.get('perplexity', '-')}")


def report(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)


def one_cycle(
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    rows: int,
    error: Callable[[np.ndarray], Tensor],
    config: SurrogateConfig | JudgementConfig,
    say: Say = silent,
) -> None:
    """Train a network on random batches of `rows` rows in one cycle of the learning rate; error: of a batch's rows."""
    steps = max(1, rows // config.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, config.learning_rate, total_steps=config.epochs * steps)
    order = np.random.default_rng(config.seed)
    fit(
        {"net": net},
        {"optimizer": optimizer},
        lambda epoch: np.array_split(order.permutation(rows), steps),
        lambda numbers, epoch: TrainingStep(error(numbers)),
        config.epochs,
        after_step=lambda numbers: schedule.step(),
        report=lambda past: say(f"epoch {len(past)} of {config.epochs}: error {past[-1]['loss']:.4f}"),
    )
