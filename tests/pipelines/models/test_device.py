import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from negcap.pipelines.models.captioner import train as captioner_training
from negcap.pipelines.models.captioner.config import CaptionerConfig
from negcap.pipelines.models.config import TrainConfig
from negcap.pipelines.models.device import deterministic
from negcap.pipelines.models.trainer import train as training
from tests.pipelines.models.trainer_world import write_world


def modes() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def test_deterministic_algorithms_are_used_on_a_gpu_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    before = modes()
    with deterministic(torch.device("cpu")):
        assert modes() == before and "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    with deterministic(torch.device("cuda")):
        assert modes() == (True, True) and os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert modes() == before
    with pytest.raises(KeyError), deterministic(torch.device("cuda")):
        raise KeyError
    assert modes() == before


def test_both_trainings_compute_deterministically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[bool] = []

    @contextmanager
    def spy(device: torch.device) -> Iterator[None]:
        inside.append(True)
        yield
        inside[-1] = False

    def epoch(*arguments: object) -> None:
        assert inside == [True]
        raise KeyboardInterrupt

    run = write_world(tmp_path / "run", [("train", 20), ("test", 5)])
    common = {"run": run, "validation_images": 5, "min_count": 2, "joint": 8, "word_dim": 4, "threads": 1}
    for module, config in (
        (training, TrainConfig(output=tmp_path / "m", **common)),  # type: ignore[arg-type]
        (captioner_training, CaptionerConfig(output=tmp_path / "c", **common)),  # type: ignore[arg-type]
    ):
        inside.clear()
        monkeypatch.setattr(module, "deterministic", spy)
        monkeypatch.setattr(module, "train_epoch" if module is training else "_run_epoch", epoch)
        with pytest.raises(KeyboardInterrupt):
            module.train(config)  # type: ignore[arg-type]
