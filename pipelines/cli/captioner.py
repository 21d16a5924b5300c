"""Verbs of the captioner: train it, write captions with it, measure them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from negcap.pipelines.cli import options
from negcap.pipelines.cli.group import at_work, negcap, one_line_errors
from negcap.pipelines.cli.options import FOLDER, Names

beam_width = click.option("--width", type=int, help="Of the beam; default: 3.")


@negcap.command()
@options.run
@click.option("--output", type=FOLDER, required=True, metavar="MODEL", help="Folder of the captioner.")
@click.option("--mle-epochs", type=int, help="Of likelihood; default: 20.")
@click.option("--discriminator-epochs", type=int, help="Of the discriminator alone; default: 5.")
@click.option("--gan-epochs", type=int, help="Of the policy gradient, those done before included; default: 20.")
@click.option("--stages", type=int, help="Stages of such an epoch, with one discriminator step each; default: 20.")
@click.option("--generator-steps", type=int, help="Steps of the policy gradient a stage; default: 5.")
@click.option("--batch-size", type=int, help="Captions at a time; default: 64.")
@click.option("--rollout-every", type=int, help="Words from one prefix that is gone on from to the next; default: 3.")
@click.option("--rollouts", type=int, help="Ways to go on from each; default: 2.")
@click.option("--alpha", type=float, help="Weight of generated captions for the discriminator; default: 0.5.")
@click.option("--beta", type=float, help="Weight of mismatched captions for it; default: 0.5.")
@options.train_splits
@click.option("--validation-split", help="Whose likelihood selects the generator; default: val.")
@options.validation_images
@click.option("--words", type=int, help="Most words of a caption, its end counted; default: 20.")
@click.option("--word-dim", type=int, help="Size of the word vectors; default: 256.")
@click.option("--hidden", type=int, help="Size of the generator's state; default: 256.")
@click.option("--joint", type=int, help="Size of the discriminator's space; default: 256.")
@click.option("--noise", type=int, help="Size of the noise; default: 64.")
@click.option("--dropout", type=float, help="Of words and states, for likelihood; default: 0.3.")
@options.transform
@options.min_count
@click.option("--learning-rate", type=float, help="Of the policy gradient (Adam); default: 1e-4.")
@click.option("--supervised-rate", type=float, help="Of likelihood and of the discriminator; default: 1e-4.")
@click.option("--clip", type=float, help="Norm that gradients are clipped to; default: 5.")
@click.option("--collapse", type=float, help="Share of distinct-2 under which training stops; default: 0.5.")
@options.seed
@click.option("--overwrite", is_flag=True, help="Replace a captioner that was trained otherwise.")
@options.quiet
@options.device
def captioner(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Train a conditional GAN that writes captions.

    Likelihood, then the discriminator, then the policy gradient with rollouts. Reads captions and features. The folder
    MODEL gets weights, metrics.jsonl and curves.png. An interrupted training goes on after its last whole epoch.
    """
    from negcap.pipelines.models.captioner.config import CaptionerConfig

    given = options.only_set(given)
    with one_line_errors():
        config = CaptionerConfig(run=run, output=output, **given)
        from negcap.pipelines.models.captioner.train import train as fit

        fit(config, overwrite=overwrite, say=lambda line: None if quiet else print(line, file=sys.stderr, flush=True))


@negcap.command()
@options.model
@options.run
@click.option("--phase", help="Whose generator: gan, or mle, before the policy gradient; default: gan.")
@click.option("--n", type=int, help="Captions an image; default: 3.")
@click.option("--decoding", help="sample, greedy or beam; default: sample.")
@beam_width
@click.option("--tries", type=int, help="How often what is refused is drawn again; default: 4.")
@click.option("--splits", type=Names(), help="Of these splits; default: those the captioner was trained on.")
@click.option("--table", help="Table to write: generated, or generated_NAME; default: generated.")
@options.seed
@options.workers
def caption(model: Path, run: Path, phase: str | None, overwrite: bool, **given: Any) -> None:
    """Write captions of a run's images.

    Into the table generated, marked so; those that are degenerate, the image's own, or said twice go to
    refused_captions, with the reason. negcap train RUN --extra generated trains on them too; negcap enlarge makes a
    run of both, for all other verbs.
    """
    from negcap.pipelines.engine import provenance
    from negcap.pipelines.engine.run import run_stage
    from negcap.pipelines.stages.caption import CaptionConfig, stage_of, summary

    with at_work(given) as (executor, progress):
        from negcap.pipelines.models.captioner.model import weights_file

        given = options.only_set(given)
        config = CaptionConfig(weights=weights_file(model, phase or "gan").absolute(), **given)
        stage = stage_of(config.table)
        metadata = provenance.of_stage(run, (stage.input,), config)
        counts = run_stage(stage, run, config, executor, metadata=metadata, progress=progress, overwrite=overwrite)
        print(summary(counts, config))


@negcap.command()
@options.run
@click.option("--output", type=FOLDER, required=True, metavar="NEW", help="Folder of the new run.")
@click.option("--extra", metavar="TABLE", help="Captions that join the run's own; default: generated.")
@options.overwrite
@options.quiet
def enlarge(run: Path, output: Path, extra: str | None, overwrite: bool, quiet: bool) -> None:
    """Make a run of captions and those written beside them.

    The written ones follow each image's own, marked generated, and so are negatives made of them. The other verbs go on
    from there: parse, lexicon, components, truth, balance, negatives, train.
    """
    from negcap.pipelines.engine import provenance
    from negcap.pipelines.engine.progress import report
    from negcap.pipelines.stages.enlarge import EnlargeConfig
    from negcap.pipelines.stages.enlarge import enlarge as make

    with one_line_errors():
        config = EnlargeConfig(extra) if extra else EnlargeConfig()
        counts = make(run, output, config, metadata=provenance.package(), progress=report(quiet), overwrite=overwrite)
        print(
            f"{counts['captions']:,} captions of {counts['images']:,} images, {counts['generated']:,} of them generated"
        )


@negcap.command()
@options.model
@options.run
@options.evaluation
@click.option("--split", help="Whose images are written of; default: test.")
@click.option("--judge", type=FOLDER, metavar="MODEL", help="A model of negcap train, to rank images for captions.")
@click.option("--n", type=int, help="Captions an image, for self-BLEU; default: 3.")
@beam_width
@options.limit_of_split
@click.option("--images", type=FOLDER, metavar="FOLDER", help="Of the pictures: draws samples.png.")
@click.option("--shown", type=int, help="Pictures in it; default: 6.")
@options.seed
@options.device
def assess(model: Path, run: Path, output: Path | None, **given: Any) -> None:
    """Measure what a captioner writes.

    Before and after the policy gradient, greedy and sampled: BLEU, CIDEr-D, distinct words, novelty, self-BLEU, the
    discriminator's score, and how a model of negcap train ranks the images for it. Prints Markdown; JSON and pictures
    with captions lie beside the model.
    """
    given = options.only_set(given)
    with one_line_errors():
        from negcap.pipelines.models.captioner.evaluate import CaptionerEvaluateConfig
        from negcap.pipelines.models.captioner.evaluate import evaluate as measure

        print(measure(model, run, CaptionerEvaluateConfig(**given), output))
