"""What a model has learned of words: VSE-C's word-level tasks (image to word, fill in the blank) and saliency."""

from __future__ import annotations

from pathlib import Path

import torch

from ..device import deterministic
from ..figures import write_results
from ..fit import Say, silent
from .blanks import fill_blanks
from .objects import image_to_word
from .task import ProbeConfig, Task

TASKS = {"words": image_to_word, "blanks": fill_blanks}


def probe(task: str, run: Path, config: ProbeConfig, output: Path, say: Say = silent) -> str:
    """Run a task of TASKS; writes TASK.json and TASK.md to `output`, and returns the tables as Markdown. Raises
    FileNotFoundError or ValueError for a run without what the task needs, or word vectors of none of its words.
    """
    torch.set_num_threads(config.threads)
    prepared = Task(run, config, say)
    with deterministic(prepared.device):
        result = TASKS[task](prepared)
    return write_results(output, task, result.metrics, result.text)
