"""Small worlds, and a model of each kind trained on them once."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from negcap.pipelines.models.config import configure
from negcap.pipelines.models.trainer.train import train
from tests.conftest import GOLDEN
from tests.pipelines.models.worlds import write_german_world, write_univse_world

IMAGES = (("train", 100), ("test", 20))
COMMON: dict[str, Any] = {"batch_size": 32, "learning_rate": 0.01, "min_count": 2, "threads": 1, "average": 0.9}
SMALL_VSE = {**COMMON, "model": "vse++", "joint": 8, "word_dim": 6, "validation_images": 20, "epochs": 3}
SMALL_UNIVSE = {
    **{**COMMON, "model": "univse", "joint": 16, "word_dim": 8, "modifier_dim": 4, "validation_images": 20},
    **{"features": "grid", "dropout": 0.1, "epochs": 8},
}
SMALL_MHAD = {
    **{**COMMON, "model": "mha-d", "joint": 16, "word_dim": 8, "attention_dim": 8, "heads": 2, "features": "grid"},
    **{"validation_split": "test", "epochs": 6},
}


def history(folder: Path) -> list[dict[str, Any]]:
    """The lines of a model's metrics.jsonl."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="session")
def english(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with English captions, their components and negatives, and two tables of features."""
    return write_univse_world(tmp_path_factory.mktemp("english"), IMAGES)


@pytest.fixture(scope="session")
def german(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with English and German captions."""
    return write_german_world(tmp_path_factory.mktemp("german"), IMAGES)


@pytest.fixture(scope="session")
def vse(english: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained vse++ model; copy it to change it."""
    return train(configure(english, tmp_path_factory.mktemp("vse") / "m", **SMALL_VSE))


@pytest.fixture(scope="session")
def univse(english: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained UniVSE model; copy it to change it."""
    return train(configure(english, tmp_path_factory.mktemp("univse") / "m", **SMALL_UNIVSE))


@pytest.fixture(scope="session")
def mhad(german: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained MHA-D model of both languages; copy it to change it."""
    return train(configure(german, tmp_path_factory.mktemp("mhad") / "m", **SMALL_MHAD))


LossesAsBefore = Callable[[str], AbstractContextManager[None]]


@pytest.fixture
def losses_as_before(request: pytest.FixtureRequest) -> LossesAsBefore:
    """Compare every loss that is differentiated in a context with tests/golden/training_NAME.json, to 1e-4."""

    @contextmanager
    def compared(name: str) -> Iterator[None]:
        losses: list[float] = []
        backward = torch.Tensor.backward

        def spied(loss: torch.Tensor, *given: object, **named: object) -> None:
            losses.append(loss.item())
            backward(loss, *given, **named)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.Tensor, "backward", spied)
            yield
        path = GOLDEN / f"training_{name}.json"
        if request.config.getoption("--update-golden"):
            path.write_text(json.dumps(losses) + "\n", "utf-8")
        assert losses == pytest.approx(json.loads(path.read_text("utf-8")), rel=1e-4), f"losses must be those of {path}"

    return compared
