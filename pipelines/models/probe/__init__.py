"""What a model has learned of words: VSE-C's word-level tasks (image to word, fill in the blank) and saliency."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def probe(name: str, run: Path, config: Any, output: Path, say: Callable[[str], None] = lambda line: None) -> str:
    """Run the task `words` or `blanks`; writes NAME.json and NAME.md to `output`, and returns the tables as Markdown.

    config: a ProbeConfig. Raises FileNotFoundError or ValueError for a run without what the task needs, and as
    `word_tables`.
    """
    import torch

    from ..figures import write_results
    from .blanks import fill_blanks
    from .objects import image_to_word
    from .task import read_task

    torch.set_num_threads(config.threads)
    metrics, text = {"words": image_to_word, "blanks": fill_blanks}[name](read_task(run, config, say))
    return write_results(output, name, metrics, text)
