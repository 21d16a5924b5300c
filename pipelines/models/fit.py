"""The training loop of all models."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from . import checkpoint, device

LOSS_POINTS = 20  # per epoch in the loss curve
SAY_AFTER = 10
SAY_TIMES = 5  # seconds, and a share of the epoch so far, between lines during an epoch
BatchT = TypeVar("BatchT")
Line = dict[str, Any]  # what is known of an epoch: a line of metrics.jsonl
Say = Callable[[str], None]  # is called with lines of progress


def silent(line: str) -> None:
    """Say nothing."""


class TrainingStep(NamedTuple):
    """What a model makes of a batch: the loss to minimize and terms to log, scalars; size: what they are sums over,
    such as pairs, 1 if they are means; optimizer: the one that moves.
    """

    loss: Tensor
    terms: Mapping[str, Tensor] = MappingProxyType({})
    size: int = 1
    optimizer: str = "optimizer"


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
    evaluate: Callable[[Line], Mapping[str, Any]] = lambda line: {},
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

    models, optimizers: by names that all differ. The models are trained in place; afterwards they have the weights of
        the last epoch, but without a folder the first one has those of the epoch that `select` chooses.
    batches: the batches of an epoch, from 1. Whatever is drawn at random must depend on the epoch only, see
        `checkpoint.epoch_seed`: then a training that was interrupted ends with the same bits as one that was not.
    step: the loss of a batch, in an epoch.
    clip: the maximum norm of the gradients. rate: the learning rate, by the epoch and the number of steps before;
        None: as the optimizers have it. after_step: called when the weights have moved.
    mean: a copy of the first model, which gets the moving average of its weights, see `move_average`.
    evaluate: called after an epoch with its line; what it returns is added to the line, or replaces entries.
    select: the value of an epoch by its line. Of the first epoch with the highest value, the first model's weights (or
        the mean's) are kept: as `best` in the folder, or by `keep`; None: no epoch's are.
    report: called after each epoch with all lines so far. stop: whether to end before the next epoch, by the same.
    folder: as `checkpoint.prepare_folder` left it. After each epoch it gets metrics.jsonl and, as `last`, all that is
        needed to resume after this epoch, which happens if they are there; None: nothing is written.
    say: called with `about`, before the first epoch, and during long epochs with the time left. length: the number of
        batches of an epoch, for that; None: nothing is said during an epoch.

    Raises ValueError for an epoch without batches, for a loss or term that is not finite, naming it, and for a folder
    with damaged files.
    """
    model = next(iter(models.values()))
    where = next(model.parameters()).device
    trained, chosen = (models, model) if mean is None else ({**models, "mean": mean}, mean)
    history: list[Line] = []
    state: dict[str, Any] = {"epoch": 0, "steps": 0, "best": {"epoch": 0, "value": -math.inf}}
    if folder is not None and (folder / f"{checkpoint.LAST}.safetensors").exists():
        kinds = {"epoch": int, "steps": int, "best": dict}
        last = checkpoint.restore(folder, checkpoint.LAST, trained, optimizers, kinds)
        state = last.state
        history = last.read_history()
    done = state["epoch"]
    steps = state["steps"]
    best = state["best"]
    weights: dict[str, Tensor] = {}
    say(about + (f"; resumed after epoch {done}" if done else ""))
    for epoch in range(done + 1, epochs + 1):
        if stop(history):
            break
        said = began = time.perf_counter()
        results = list[TrainingStep]()
        with device.deterministic(where):
            for batch in batches(epoch):
                result = step(batch, epoch)
                optimizer = optimizers[result.optimizer]
                for group in optimizer.param_groups:
                    group["lr"] = group["lr"] if rate is None else rate(epoch, steps)
                optimizer.zero_grad(set_to_none=True)
                result.loss.backward()
                if clip is not None:
                    clip_grad_norm_([each for group in optimizer.param_groups for each in group["params"]], clip)
                optimizer.step()
                after_step(batch)
                steps += 1
                if mean is not None:
                    move_average(mean, model, steps, decay)
                terms = {name: term.detach() for name, term in result.terms.items()}
                results.append(result._replace(loss=result.loss.detach(), terms=terms))
                now = time.perf_counter()
                if length and now - said > max(SAY_AFTER, (now - began) / SAY_TIMES):
                    said = now
                    say(progress(epoch, epochs, len(results) / length, now - began))
            line = {"epoch": epoch, **epoch_figures(results, epoch, began)}
            line["learning_rate"] = optimizer.param_groups[0]["lr"]
            line |= evaluate(line)
        history.append(line)
        if select is not None and select(line) > best["value"]:
            best = {"epoch": epoch, "value": select(line)}
            if keep is not None:
                keep(line)
            elif folder is not None:
                checkpoint.save(folder, checkpoint.BEST, {"model": chosen}, best)
            else:
                weights = {name: value.clone() for name, value in chosen.state_dict().items()}
        if folder is not None:
            state = {"epoch": epoch, "steps": steps, "best": best}
            checkpoint.save_last(folder, trained, state, optimizers, history)
        report(history)
    if weights:
        model.load_state_dict(weights)
    return history


def progress(epoch: int, epochs: int, share: float, seconds: float) -> str:
    """How far a training is, by a share of an epoch: `epoch 3 of 12: 40 %, 2 min left of it, 31 min in all`."""
    share = min(share, 1.0)
    left = seconds * (1 / share - 1)
    whole = left + seconds / share * (epochs - epoch)
    return f"epoch {epoch} of {epochs}: {share:.0%}, {minutes(left)} left of it, {minutes(whole)} in all"


def minutes(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@torch.no_grad()
def move_average(mean: nn.Module, model: nn.Module, step: int, decay: float) -> None:
    """Move averaged weights towards those of the model after training step `step`, from 1, by 1 - decay of the
    difference, or by 1 / step if that is more: at first the average is the plain mean of all weights so far.
    """
    torch._foreach_lerp_(list[Tensor](mean.parameters()), list[Tensor](model.parameters()), max(1 - decay, 1 / step))


def epoch_figures(results: Sequence[TrainingStep], epoch: int, began: float) -> Line:
    """What the steps of an epoch say, per item: `loss`; `terms`, by name; `losses` of up to LOSS_POINTS parts. Also
    `steps`, `seconds` since `began`, and `per_second`, items. Raises as `fit`.
    """
    if not results:
        raise ValueError(f"an epoch must have batches of at least two captions, epoch {epoch} has none")
    sizes: dict[str, list[int]] = {}
    values: dict[str, list[Tensor]] = {}
    for result in results:
        for name, value in {
            "loss": result.loss,
            **{f"term {name}": term for name, term in result.terms.items()},
        }.items():
            values.setdefault(name, []).append(value)
            sizes.setdefault(name, []).append(result.size)
    figures = {name: torch.stack(each).double().cpu() for name, each in values.items()}  # waits for the device
    seconds = time.perf_counter() - began
    for name, each in sorted(figures.items(), reverse=True):  # terms tell more than the loss
        if not each.isfinite().all():
            at = int(each.isfinite().long().argmin()) + 1
            raise ValueError(f"the loss is not finite in epoch {epoch} ({name}, step {at}): lower the learning rate")
    means = {name.removeprefix("term "): each.sum().item() / sum(sizes[name]) for name, each in figures.items()}
    losses = (figures["loss"] / torch.tensor(sizes["loss"])).chunk(LOSS_POINTS)
    line = {"loss": means.pop("loss"), "terms": means, "losses": [part.mean().item() for part in losses]}
    speed = {"seconds": round(seconds, 2), "per_second": round(sum(sizes["loss"]) / seconds, 1)}
    return {**line, "steps": len(results), **speed}
