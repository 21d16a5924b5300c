"""The training loop: resumed trainings, kept weights, steps, and what is said."""

import json
import os
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Generator, Tensor, nn

from negcap.pipelines.models import device as devices
from negcap.pipelines.models.checkpoint import epoch_seed
from negcap.pipelines.models.device import deterministic
from negcap.pipelines.models.fit import TrainingStep, fit, format_progress, move_average

TRUE = torch.tensor([2.0, -1.0])


def batches(epoch: int) -> Iterator[Tensor]:
    generator = Generator().manual_seed(epoch)
    return (torch.randn(4, 2, generator=generator) for _ in range(3))


def train(epochs: int, folder: Path | None = None, **given: Any) -> tuple[nn.Linear, list[dict[str, Any]], list[str]]:
    """Fit two weights to TRUE; returns the model, its history, and what was said."""
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    if given.get("mean"):
        given["mean"] = deepcopy(model)

    def step(batch: Tensor, epoch: int) -> TrainingStep:
        errors = (model(batch)[:, 0] - batch @ TRUE).square()
        return TrainingStep(errors.sum(), {"largest": errors.max() * len(batch)}, len(batch))

    said: list[str] = []
    optimizers = {"optimizer": torch.optim.Adam(model.parameters(), lr=0.1)}
    settings = {"evaluate": lambda line: {"error": (model.weight[0] - TRUE).norm().item()}, "say": said.append, **given}
    history = fit({"model": model}, optimizers, batches, step, epochs, folder=folder, about="two weights", **settings)
    return model, history, said


def test_an_interrupted_training_ends_with_the_same_bits(tmp_path: Path) -> None:
    given: dict[str, Any] = {"mean": True, "decay": 0.9, "select": lambda line: -line["error"]}
    given["rate"] = lambda epoch, steps: 0.1 / (1 + steps)
    (tmp_path / "whole").mkdir()
    (tmp_path / "part").mkdir()
    train(5, tmp_path / "whole", **given)
    train(2, tmp_path / "part", **given)
    metrics = tmp_path / "part/metrics.jsonl"
    metrics.write_text(metrics.read_text() + '{"epoch": 3}\n')  # as if stopped between writing two files
    _, history, said = train(5, tmp_path / "part", **given)
    assert said == ["two weights; resumed after epoch 2"]
    for name in ("best", "last"):
        whole, part = (load_file(tmp_path / folder / f"{name}.safetensors") for folder in ("whole", "part"))
        assert whole.keys() == part.keys() and all(torch.equal(whole[key], part[key]) for key in whole)
    assert [json.loads(line) for line in metrics.read_text().splitlines()] == history
    assert history[-1]["learning_rate"] == 0.1 / 15 and history[-1]["steps"] == 3
    assert history[-1]["loss"] < history[0]["loss"] < history[0]["terms"]["largest"] * 4


def test_the_best_weights_are_kept_without_a_folder_and_a_training_may_stop_early() -> None:
    errors: list[float] = []
    kept: list[int] = []

    def select(line: dict[str, Any]) -> float:
        return -abs(line["epoch"] - 2)

    model, _, _ = train(6, select=select, report=lambda history: errors.append(history[-1]["error"]))
    assert (model.weight[0] - TRUE).norm().item() == errors[1] != errors[-1]
    train(6, select=select, keep=lambda line: kept.append(line["epoch"]))
    assert kept == [1, 2]
    train(3, select=lambda line: 0.0, keep=lambda line: kept.append(line["epoch"]))
    assert kept == [1, 2, 1]  # of epochs that are as good, the first
    assert len(train(6, stop=lambda history: len(history) == 2)[1]) == 2


def test_a_loss_that_is_not_finite_is_named() -> None:
    model = nn.Linear(2, 1)
    optimizers = {"optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}

    def step(batch: Tensor, epoch: int) -> TrainingStep:
        return TrainingStep(model(batch).sum(), {"fine": batch.sum(), "bad": batch.sum() / (epoch < 2)})

    with pytest.raises(ValueError, match=r"not finite in epoch 2 \(term bad, step 1\)"):
        fit({"model": model}, optimizers, batches, step, 3)


def test_the_average_is_at_first_the_plain_mean_of_all_weights() -> None:
    model, mean = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    for step, value in ((1, 1.0), (2, 2.0), (3, 6.0)):
        nn.init.constant_(model.weight, value)
        move_average(mean, model, step, 0.9)
    assert mean.weight.item() == pytest.approx(3)
    move_average(mean, model, 100, 0.9)
    assert mean.weight.item() == pytest.approx(3 + 3 * 0.1)
    assert format_progress(3, 12, 0.4, 80.0) == "epoch 3 of 12: 40%, 2 min left of it, 32 min in all"


def test_an_epoch_computes_deterministically_on_a_gpu_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    seen: list[bool] = []
    train(1, evaluate=lambda line: seen.append(torch.are_deterministic_algorithms_enabled()) or {})
    on_a_gpu = partial(deterministic, torch.device("cuda"))
    monkeypatch.setattr(devices, "deterministic", lambda device: on_a_gpu())
    train(1, evaluate=lambda line: seen.append(torch.are_deterministic_algorithms_enabled()) or {})
    assert seen == [False, True] and os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not torch.are_deterministic_algorithms_enabled()


def test_no_two_seeds_share_the_random_numbers_of_an_epoch() -> None:
    seeds = [epoch_seed(seed, epoch) for seed in range(3) for epoch in range(1, 9)]
    assert len(set(seeds)) == len(seeds) and epoch_seed(0, 5) == 5
