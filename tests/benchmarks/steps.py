"""CPU time of a training step of UniVSE and of VSE++: `python -m tests.benchmarks.steps RUN`, a run with parses.

Both have a joint space of 1,024, batches of 128, one thread and a forward GRU, as in their papers; UniVSE trains all of
its losses. The run's components are made where it lacks them, and its features are random numbers, on which time does
not depend: use a copy.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator

from negcap.pipelines.engine.tables import has_table, read_table
from negcap.pipelines.models.batches import shuffled_batches
from negcap.pipelines.models.config import configure
from negcap.pipelines.models.device import rows_to_device
from negcap.pipelines.models.trainer import OBJECTIVES
from negcap.pipelines.models.trainer.train import TrainingData, make_batch, read_training_data
from tests.pipelines.models.worlds import write_features

TABLE, SIZE = "features_random", 1280
ROUNDS, STEPS = 3, 4
EPOCH = 4  # after the first ones, which have other losses


def main() -> None:
    """Print the milliseconds of both and their ratio."""
    univse, vse_pp = step_seconds(Path(sys.argv[1]))
    print(f"{univse / vse_pp:.2f}  ({1000 * univse:.0f} ÷ {1000 * vse_pp:.0f} ms of CPU)")


def step_seconds(run: Path) -> tuple[float, float]:
    """The median CPU seconds of a training step of UniVSE and of VSE++, measured in turn."""
    if not has_table(run, "components"):
        build = [sys.executable, "-m", "negcap", "build", "--output", str(run), "--only", "components", "--quiet"]
        made = subprocess.run(build, capture_output=True)
        if made.returncode:
            raise SystemExit(made.stderr.decode())
    if not has_table(run, TABLE):
        images = dict.fromkeys(name for part in read_table(run, "captions") for name in part["image_id"].to_pylist())
        values = np.random.default_rng(0).random((len(images), SIZE)).astype(np.float16)
        write_features(run, list(images), values, table=TABLE)
    splits = {name for part in read_table(run, "captions", ["split"]) for name in part["split"].to_pylist()}
    settings: dict[str, Any] = {"features": "random", "train_splits": tuple(sorted(splits)), "validation_images": 8}
    settings |= {"bidirectional": False, "pooling": "last", "threads": 1, "device": "cpu"}
    torch.set_num_threads(1)
    trainings = [_Training(configure(run, run / "none", model, **settings)) for model in ("univse", "vse++")]
    times = [[seconds for _ in range(ROUNDS) for seconds in training.steps(STEPS)] for training in trainings]
    univse, vse_pp = (statistics.median(its) for its in times)
    return univse, vse_pp


class _Training:
    def __init__(self, config: Any) -> None:
        self.config, self.data = config, read_training_data(config)
        self.model = OBJECTIVES[config.model].build(config, SIZE, len(self.data.vocabulary), None)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.learning_rate)
        self.random = Generator().manual_seed(0)

    def steps(self, n: int) -> list[float]:
        """The CPU seconds of n steps, after one that is not counted."""
        data: TrainingData = self.data
        objective, model, config, found = OBJECTIVES[self.config.model], self.model, self.config, []
        batches = shuffled_batches(data.train, config.batch_size, self.random)
        for _, captions in zip(range(n + 1), batches, strict=False):
            began = time.process_time()
            features = rows_to_device(data.features.values, data.captions.image[captions], data.device)
            sampled = data.sampler and data.sampler.sample(captions, self.random)
            batch = make_batch(data, captions, features, config, self.random)
            loss = torch.stack(list(objective.losses(model, batch, sampled, config, EPOCH).values())).sum()
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            self.optimizer.step()
            found.append(time.process_time() - began)
        return found[1:]


if __name__ == "__main__":
    main()
