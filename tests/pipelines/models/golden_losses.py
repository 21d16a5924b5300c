"""Losses of trainings as they were once, in tests/golden/training_NAME.json."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from tests.conftest import GOLDEN


@contextmanager
def losses_as_before(name: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """Compare every loss that is differentiated in this context with the golden file, to 1e-4 of its value."""
    found: list[float] = []
    backward = torch.Tensor.backward

    def spied(loss: torch.Tensor, *given: object, **named: object) -> None:
        found.append(loss.item())
        backward(loss, *given, **named)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "backward", spied)
        yield
    path = GOLDEN / f"training_{name}.json"
    if request.config.getoption("--update-golden"):
        path.write_text(json.dumps(found) + "\n", "utf-8")
    assert found == pytest.approx(json.loads(path.read_text("utf-8")), rel=1e-4), f"losses must be those of {path}"
