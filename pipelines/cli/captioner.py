"""Verbs of the captioner: train it, write captions with it, measure them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from pipelines import options
from pipelines.cli.group import at_work, negcap, one_line_errors


@negcap.command()
@options.run
@options.captioner
@options.device
def captioner(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Train a conditional GAN that writes captions.

    Likelihood, then the discriminator, then the policy gradient with rollouts. Reads captions and features. The folder
    MODEL gets weights, metrics.jsonl and curves.png. An interrupted training goes on after its last whole epoch.
    """
    from pipelines.captioner.config import CaptionerConfig

    given = {name: value for name, value in given.items() if value is not None}
    with one_line_errors():
        config = CaptionerConfig(run=run, output=output, **given)
        from pipelines.captioner.train import train as fit

        fit(config, overwrite=overwrite, say=lambda line: None if quiet else print(line, file=sys.stderr, flush=True))


@negcap.command()
@options.model
@options.run
@options.caption
@options.workers
def caption(model: Path, run: Path, phase: str | None, overwrite: bool, **given: Any) -> None:
    """Write captions of a run's images.

    Into the table generated, marked so; those that are degenerate, the image's own, or said twice go to
    refused_captions, with the reason. negcap train RUN --extra generated trains on them too; negcap enlarge makes a
    run of both, for all other verbs.
    """
    from pipelines import provenance
    from pipelines.engine.run import run_stage
    from pipelines.stages.caption import CaptionConfig, stage_of, summary

    with at_work(given) as (executor, progress):
        from pipelines.captioner.model import weights_file

        given = {name: value for name, value in given.items() if value is not None}
        config = CaptionConfig(weights=weights_file(model, phase or "gan").absolute(), **given)
        stage = stage_of(config.table)
        metadata = provenance.of_stage(run, (stage.input,), config)
        counts = run_stage(stage, run, config, executor, metadata=metadata, progress=progress, overwrite=overwrite)
        print(summary(counts, config))


@negcap.command()
@options.run
@click.option("--output", type=options.FOLDER, required=True, metavar="NEW", help="Folder of the new run.")
@click.option("--extra", metavar="TABLE", help="Captions that join the run's own; default: generated.")
@options.overwrite
@options.quiet
def enlarge(run: Path, output: Path, extra: str | None, overwrite: bool, quiet: bool) -> None:
    """Make a run of captions and those written beside them.

    The written ones follow each image's own, marked generated, and so are negatives made of them. The other verbs go on
    from there: parse, lexicon, components, truth, balance, negatives, train.
    """
    from pipelines import provenance
    from pipelines.progress import report
    from pipelines.stages.enlarge import EnlargeConfig
    from pipelines.stages.enlarge import enlarge as make

    with one_line_errors():
        config = EnlargeConfig(extra) if extra else EnlargeConfig()
        counts = make(run, output, config, metadata=provenance.package(), progress=report(quiet), overwrite=overwrite)
        print(
            f"{counts['captions']:,} captions of {counts['images']:,} images, {counts['generated']:,} of them generated"
        )


@negcap.command()
@options.model
@options.run
@options.assess
@options.device
def assess(model: Path, run: Path, output: Path | None, **given: Any) -> None:
    """Measure what a captioner writes.

    Before and after the policy gradient, greedy and sampled: BLEU, CIDEr-D, distinct words, novelty, self-BLEU, the
    discriminator's score, and how a model of negcap train ranks the images for it. Prints Markdown; JSON and pictures
    with captions lie beside the model.
    """
    given = {name: value for name, value in given.items() if value is not None}
    with one_line_errors():
        from pipelines.captioner.evaluate import CaptionerEvaluateConfig
        from pipelines.captioner.evaluate import evaluate as measure

        print(measure(model, run, CaptionerEvaluateConfig(**given), output))
