"""Verbs that train and evaluate models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pipelines import options
from pipelines.cli.group import negcap, one_line_errors

SHARED = ("device", "threads")
EVALUATED = ("split", "per_family", "per_attack", *SHARED)


@negcap.command()
@options.run
@options.train
@options.device
def train(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Train an embedding of images and captions.

    VSE, VSE++, VSE-C with negatives of the run, or UniVSE with components. Reads captions, features, and negatives or
    components. The folder MODEL gets weights, metrics.jsonl and curves.png. An interrupted training goes on after its
    last whole epoch.
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
    set (UniVSE's); on captions that count; and how often a caption scores above its negative. With components in the
    run, retrieval by objects, attributes and relations; of UniVSE the curve of alpha and parsing by the image. Prints
    Markdown; JSON and the ranks as Parquet lie beside the model.
    """
    from pipelines.trainer.config import EvaluateConfig

    given = {name: value for name, value in given.items() if value is not None}
    with one_line_errors():
        config = EvaluateConfig(**given)
        from pipelines.trainer.evaluate import evaluate as measure

        print(measure(model, run, config, output))


@negcap.command()
@options.model
@options.run
@options.picture
def picture(model: Path, run: Path, output: Path | None, photos: Path | None, **given: Any) -> None:
    """Draw what a UniVSE model sees.

    relevance.png: where in photos it sees an object, an attributed object or a relation. neighbours.png: the run's
    frequent nouns, attributed nouns and triples in the plane, by t-SNE.
    """
    from pipelines.trainer.univse.pictures import PictureConfig, draw_pictures

    given = {name: value for name, value in given.items() if value is not None}
    with one_line_errors():
        for file in draw_pictures(model, run, photos, output or model / "pictures", PictureConfig(**given)):
            print(file)


@negcap.command()
@options.run
@options.compare
@options.device
def compare(run: Path, output: Path, overwrite: bool, quiet: bool, readme: Path | None, **given: Any) -> None:
    """Train and evaluate several models, side by side.

    VSE, VSE++ and VSE-C with negatives of each family and of all: retrieval plain and under attack, as the papers'
    tables have it. What is trained already is kept. Prints Markdown; DIR holds the models and the tables.
    """
    from pipelines.trainer.config import EvaluateConfig

    given = {name: value for name, value in given.items() if value is not None}
    with one_line_errors():
        from pipelines.trainer import compare as comparison

        chosen = {name: given.pop(name) for name in ("variants", "seeds") if name in given}
        measured = {name: given[name] for name in EVALUATED if name in given}
        for name in set(EVALUATED) - set(SHARED):
            given.pop(name, None)
        if readme:
            comparison.into(readme.read_text("utf-8"), "")  # fails before anything is trained
        text = comparison.compare(
            run,
            output,
            **chosen,
            given=given,
            config=EvaluateConfig(**measured),
            overwrite=overwrite,
            say=lambda line: None if quiet else print(line, file=sys.stderr, flush=True),
        )
        if readme:
            readme.write_text(comparison.into(readme.read_text("utf-8"), text), "utf-8")
        print(text)
