"""The training loop of all models."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from . import checkpoint, device

LOSS_POINTS = 20  # per epoch in the loss curve
# the pause between two lines of progress during an epoch: at least 10 seconds, and a fifth of the epoch so far
SAY_AFTER = 10
SAY_TIMES = 5
BatchT = TypeVar("BatchT")
Line = checkpoint.JsonObject  # what is known of an epoch: a line of metrics.jsonl
Say = Callable[[str], None]  # is called with lines of progress


def silent(line: str) -> None:
    """Say nothing."""


class TrainingStep(NamedTuple):
    """The result of a model on a batch: the loss to minimize, and terms to log, all scalars. size: the number of items,
    such as pairs, over which these are sums; 1 if they are means. optimizer: the name of the one for this loss.
    """

    loss: Tensor
    terms: Mapping[str, Tensor] = MappingProxyType({})
    size: int = 1
    optimizer: str = "optimizer"

    def detached(self) -> TrainingStep:
        """The same without the graph of its computation, which would keep all activations of an epoch in memory."""
        return self._replace(loss=self.loss.detach(), terms={name: term.detach() for name, term in self.terms.items()})


def fit(
    models: checkpoint.Models,
    optimizers: checkpoint.Optimizers,
    batches: Callable[[int], Iterable[BatchT]],
    step: Callable[[BatchT, int], TrainingStep],
    epochs: int,
    *,
    clip: float | None = None,
    rate: Callable[[int, int], float] | None = None,
    after_step: Callable[[BatchT], object] = lambda batch: None,
    mean: nn.Module | None = None,
    decay: float = 0.0,
    evaluate: Callable[[Line], Line] = lambda line: {},
    select: Callable[[Line], float] | None = None,
    keep: Callable[[Line], object] | None = None,
    report: Callable[[Sequence[Line]], object] = lambda history: None,
    stop: Callable[[Sequence[Line]], bool] = lambda history: False,
    folder: Path | None = None,
    say: Say = silent,
    about: str = "",
    length: int | None = None,
) -> list[Line]:
    """Train models by gradient descent; returns one line for each epoch, of the entries in `epoch_figures`.

    Args:
        models: by names that all differ, also from those of the optimizers. They are trained in place; afterwards they
            have the weights of the last epoch, but without a folder the first one has those of the epoch that `select`
            chooses.
        optimizers: by name.
        batches: the batches of an epoch, from 1. Whatever is drawn at random must depend on the epoch only, see
            `checkpoint.epoch_seed`: then a training that was interrupted ends with the same bits as one that was not.
        step: the loss of a batch, in an epoch.
        epochs: the number of epochs, those of an interrupted training included.
        clip: the maximum norm of the gradients; None: any.
        rate: (epoch, number of steps before) -> the learning rate; None: that of the optimizers.
        after_step: called when the weights have moved.
        mean: a copy of the first model, which gets the moving average of its weights, see `move_average`.
        decay: of that average.
        evaluate: called after an epoch with its line; what it returns is added to the line, or replaces entries.
        select: gives the value of an epoch, from its line. The first model's weights (or the mean's) of the first epoch
            with the highest value are kept: as `best` in the folder, or by `keep`; None: no weights are kept.
        keep: called with the line of an epoch whose weights are to be kept, see `select`.
        report: called after each epoch with all lines so far.
        stop: whether to end before the next epoch, by all lines so far.
        folder: as `checkpoint.prepare_folder` left it. After each epoch it gets metrics.jsonl and, as `last`, all that
            is needed to resume after this epoch, which happens if they are there; None: nothing is written.
        say: called with `about`, before the first epoch, and during long epochs with the time left.
        about: a line on what is trained.
        length: the number of batches of an epoch, for the time left; None: nothing is said during an epoch.

    Raises:
        ValueError: an epoch has no batches, a loss or term is not finite (which is named), or files are damaged.
    """
    model = next(iter(models.values()))
    # the averaged weights are evaluated and kept, the others are only trained on
    kept_model = model if mean is None else mean
    trained = models if mean is None else {**models, "mean": mean}
    progress = _resume(folder, trained, optimizers)
    kept_weights: dict[str, Tensor] = {}  # without a folder
    say(about + (f"; resumed after epoch {progress.epoch}" if progress.epoch else ""))

    for epoch in range(progress.epoch + 1, epochs + 1):
        if stop(progress.history):
            break
        results = list[TrainingStep]()
        clock = _EpochClock(epoch, epochs, length, say)
        # deterministic also in the evaluation, whose sums over indices decide which epoch is kept
        with device.deterministic(next(model.parameters()).device):
            for batch in batches(epoch):
                result = step(batch, epoch)
                optimizer = optimizers[result.optimizer]
                if rate is not None:
                    _set_rate(optimizer, rate(epoch, progress.steps))
                _move_weights(optimizer, result.loss, clip)
                after_step(batch)
                progress.steps += 1
                if mean is not None:
                    move_average(mean, model, progress.steps, decay)
                results.append(result.detached())
                clock.tell(len(results))
            line = {"epoch": epoch, **epoch_figures(results, epoch, clock.began)}
            # the rate of the last batch's optimizer: an epoch of a training with several has one rate
            line["learning_rate"] = optimizer.param_groups[0]["lr"]
            line |= evaluate(line)
        progress.history.append(line)

        if select is not None and select(line) > progress.best["value"]:
            progress.best = {"epoch": epoch, "value": select(line)}
            if keep is not None:
                keep(line)
            elif folder is not None:
                checkpoint.save(folder, checkpoint.BEST, {"model": kept_model}, progress.best)
            else:
                kept_weights = {name: value.clone() for name, value in kept_model.state_dict().items()}
        if folder is not None:  # after `best`: a training that is stopped between the two repeats this epoch
            state = {"epoch": epoch, "steps": progress.steps, "best": progress.best}
            checkpoint.save_last(folder, trained, state, optimizers, progress.history)
        report(progress.history)
    if kept_weights:
        model.load_state_dict(kept_weights)
    return progress.history


@dataclass
class _Progress:
    """How far a training is: its last epoch, the steps so far, the best epoch with its value, and a line per epoch."""

    epoch: int
    steps: int
    best: Line
    history: list[Line]


def _resume(folder: Path | None, models: checkpoint.Models, optimizers: checkpoint.Optimizers) -> _Progress:
    """The progress of the training in a folder, whose models and optimizers are loaded in place; a new one's if there
    is none.
    """
    if folder is None or not (folder / f"{checkpoint.LAST}.safetensors").exists():
        return _Progress(0, 0, {"epoch": 0, "value": -math.inf}, [])
    last = checkpoint.restore(folder, checkpoint.LAST, models, optimizers)
    return _Progress(last.state["epoch"], last.state["steps"], last.state["best"], last.read_history())


def _set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def _move_weights(optimizer: torch.optim.Optimizer, loss: Tensor, clip: float | None) -> None:
    """A step of the optimizer along the gradients of a loss, whose norm over all its weights is at most `clip`."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    if clip is not None:
        clip_grad_norm_([weights for group in optimizer.param_groups for weights in group["params"]], clip)
    optimizer.step()


@dataclass
class _EpochClock:
    """Tells how far a long epoch is: after SAY_AFTER seconds, then ever more seldom.

    epoch: its number, from 1, of so many epochs. steps_in_all: of this epoch; None: not known, and nothing is said.
    began, last_said: times in seconds, the latter of the last line that was said.
    """

    epoch: int
    epochs: int
    steps_in_all: int | None
    say: Say
    began: float = field(default_factory=time.perf_counter)
    last_said: float = field(default_factory=time.perf_counter)

    def tell(self, steps: int) -> None:
        """Say how far the epoch is after so many steps, if it is time."""
        now = time.perf_counter()
        pause = max(SAY_AFTER, (now - self.began) / SAY_TIMES)
        if self.steps_in_all and now - self.last_said > pause:
            self.last_said = now
            self.say(format_progress(self.epoch, self.epochs, steps / self.steps_in_all, now - self.began))


def format_progress(epoch: int, epochs: int, share: float, seconds: float) -> str:
    """How far a training is: `epoch 3 of 12: 40%, 2 min left of it, 31 min in all`.

    Args:
        epoch: its number, from 1.
        epochs: how many there are.
        share: of the epoch that is done, above 0.
        seconds: since the epoch began.
    """
    # an epoch may have more batches than announced: then the time left is 0, not below
    share = min(share, 1.0)
    left = seconds * (1 / share - 1)
    whole = left + seconds / share * (epochs - epoch)
    return (
        f"epoch {epoch} of {epochs}: {share:.0%}, {format_duration(left)} left of it, {format_duration(whole)} in all"
    )


def format_duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@torch.no_grad()
def move_average(mean: nn.Module, model: nn.Module, step: int, decay: float) -> None:
    """Move averaged weights towards those of the model after training step `step`, from 1, by 1 - decay of the
    difference, or by 1 / step if that is more: at first the average is the plain mean of all weights so far.
    """
    # one call for all weights, where a loop would start a kernel for each of them
    torch._foreach_lerp_(list[Tensor](mean.parameters()), list[Tensor](model.parameters()), max(1 - decay, 1 / step))


TERM = "term "  # put before the names of terms, one of which may be called "loss"


def epoch_figures(results: Sequence[TrainingStep], epoch: int, began: float) -> Line:
    """The figures of an epoch for its line of metrics.jsonl.

    `loss`, and `terms` by name: means per item over the epoch. `losses`: the mean loss per item in each of up to
    LOSS_POINTS parts of the epoch, as a curve. `steps`; `seconds`; `per_second`, the number of items.

    Args:
        results: its steps. Their losses and terms are sums over the items of a batch, such as pairs.
        epoch: its number, for messages.
        began: when it began, by the clock time.perf_counter.

    Raises:
        ValueError: there are no steps, or a loss or term is not finite (which is named).
    """
    if not results:
        raise ValueError(f"an epoch must have batches of at least two captions, epoch {epoch} has none")
    # by name, since a training with several optimizers has other terms in other steps
    sizes: dict[str, list[int]] = {}
    values: dict[str, list[Tensor]] = {}
    for result in results:
        figures = {"loss": result.loss, **{f"{TERM}{name}": term for name, term in result.terms.items()}}
        for name, value in figures.items():
            values.setdefault(name, []).append(value)
            sizes.setdefault(name, []).append(result.size)
    # a single copy from the device for each name; the clock is read after it, as it waits for the device
    per_step = {name: torch.stack(steps).double().cpu() for name, steps in values.items()}
    seconds = time.perf_counter() - began

    # the terms first: if one is not finite, neither is the loss, and the name of the term tells more
    names = sorted(per_step.keys() - {"loss"}, reverse=True)
    for name in (*names, "loss"):
        steps = per_step[name]
        if not steps.isfinite().all():
            first = int(steps.isfinite().long().argmin()) + 1
            raise ValueError(f"the loss is not finite in epoch {epoch} ({name}, step {first}): lower the learning rate")
    means = {name: steps.sum().item() / sum(sizes[name]) for name, steps in per_step.items()}
    curve = (per_step["loss"] / torch.tensor(sizes["loss"])).chunk(LOSS_POINTS)
    return {
        "loss": means.pop("loss"),
        "terms": {name.removeprefix(TERM): value for name, value in means.items()},
        "losses": [part.mean().item() for part in curve],
        "steps": len(results),
        "seconds": round(seconds, 2),
        "per_second": round(sum(sizes["loss"]) / seconds, 1),
    }
