"""Verbs that train and evaluate models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pipelines import options
from pipelines.cli.group import negcap, one_line_errors


@negcap.command()
@options.run
@options.train
@options.device
def train(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Train an embedding of images and captions.

    VSE, VSE++, or VSE-C with negatives of the run. Reads captions, features and negatives. The folder MODEL gets
    weights, metrics.jsonl and curves.png. An interrupted training goes on after its last whole epoch.
    """
    from pipelines.trainer.config import configure

    given = {name: value for name, value in given.items() if value is not None}
    with one_line_errors():
        config = configure(run, output, **given)
        from pipelines.trainer.train import train as fit

        fit(config, overwrite=overwrite, say=lambda line: None if quiet else print(line, file=sys.stderr, flush=True))


@negcap.command()
@options.model
@options.run
@options.evaluate
@options.device
def evaluate(model: Path, run: Path, output: Path | None, **given: Any) -> None:
    """Measure retrieval, plain and under attack.

    Recalls, ranks and 95 % intervals without negatives; with each image's own (VSE-C's protocol) and with all in one
    set (UniVSE's); on captions that count; and how often a caption scores above its negative. Prints Markdown; JSON
    and the ranks as Parquet lie beside the model.
    """
    from pipelines.trainer.config import EvaluateConfig

    given = {name: value for name, value in given.items() if value is not None}
    with one_line_errors():
        config = EvaluateConfig(**given)
        from pipelines.trainer.evaluate import evaluate as measure

        print(measure(model, run, config, output))
