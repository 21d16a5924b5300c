import os

import pytest
import torch

from negcap.pipelines.models.device import deterministic


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
