"""Commands for the captioner: train it, write captions with it, evaluate it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from . import options
from .choices import DECODINGS, PHASES
from .group import negcap, with_workers
from .options import FOLDER, PLACE

beam_width = click.option("--width", type=int, help="Width of the beam; default: 3.")


@negcap.command()
@options.run
@click.option("--output", type=FOLDER, required=True, metavar="MODEL", help="Folder of the captioner to write.")
@click.option("--mle-epochs", type=int, help="Epochs of maximum likelihood training; default: 20.")
@click.option(
    "--gan-epochs", type=int, help="Epochs of policy gradient training in all, finished ones included; default: 20."
)
@options.train_splits
@options.seed
@click.option("--overwrite", is_flag=True, help="Replace a captioner that was trained with other data or settings.")
@options.quiet
@options.device
@options.settings(
    {
        "discriminator_epochs": "epochs of the discriminator alone; default: 5",
        "stages": "stages per such epoch, each with one discriminator step; default: 20",
        "generator_steps": "generator steps per stage; default: 5",
        "batch_size": "captions per batch; default: 64",
        "rollout_every": "distance between rollout positions, in words; default: 3",
        "rollouts": "rollouts from each position; default: 2",
        "alpha": "weight of generated captions in the discriminator's loss; default: 1",
        "beta": "weight of mismatched captions in the discriminator's loss; default: 1",
        "validation_split": "split whose likelihood selects the generator; default: val",
        "words": "words per caption, at most, end token included; default: 20",
        "word_dim": "dimensions of the word vectors; default: 256",
        "hidden": "dimensions of the generator's state; default: 256",
        "joint": "dimensions of the discriminator's joint space; default: 256",
        "noise": "dimensions of the noise vector; default: 64",
        "dropout": "dropout of words and states in maximum likelihood; default: 0.3",
        "learning_rate": "learning rate of the policy gradient (Adam); default: 1e-4",
        "supervised_rate": "learning rate of likelihood and discriminator; default: 1e-4",
        "clip": "maximum norm of the gradients (clipping); default: 5",
        "collapse": "stop when distinct-2 falls below this share of its first value; default: 0.5",
        "validation_images": "train images held out where the run lacks the validation split; default: 500",
        "transform": "applied to image features: root, l2 or none; default: root",
        "min_count": "occurrences in the train captions that a word of the vocabulary needs; default: 4",
    }
)
def captioner(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Train a conditional GAN that writes captions.

    First the generator by maximum likelihood, then the discriminator, then both by policy gradient with rollouts. Reads
    captions and features. Writes weights, metrics.jsonl and curves.png to the folder MODEL. An interrupted training
    continues after its last complete epoch.

    \b
    Example: negcap captioner outputs/mine --output outputs/captioner
    """
    from ..models.captioner.config import CaptionerConfig

    config = options.config_of(CaptionerConfig, {"run": run, "output": output, **given})
    from ..models.captioner.train import train as fit

    fit(config, overwrite=overwrite, say=lambda line: None if quiet else print(line, file=sys.stderr, flush=True))


@negcap.command()
@options.model
@options.run
@options.one_of("--phase", PHASES, "Generator after maximum likelihood (mle) or policy gradient (gan); default: gan.")
@click.option("--n", type=int, help="Captions per image; default: 3.")
@options.one_of("--decoding", DECODINGS, "How words are chosen; default: sample.")
@beam_width
@options.several("--split", "splits", "Only images of this split; default: those the captioner was trained on.")
@click.option("--table", help="Table to write: generated or generated_NAME; default: generated.")
@options.seed
@options.workers
@options.settings(
    {
        "tries": "how often a refused caption is sampled again, at most; default: 4",
    }
)
def caption(model: Path, run: Path, phase: str | None, overwrite: bool, **given: Any) -> None:
    """Write captions for a run's images with a captioner.

    They go to the table generated. Captions that are degenerate, repeated or equal to an existing caption of the image
    go to refused_captions, with the reason. `negcap train RUN --extra generated` also trains on generated captions;
    `negcap enlarge` makes a new run of the existing and the generated ones.

    \b
    Example: negcap caption outputs/captioner outputs/mine --n 3 --split train
    """
    from ..engine import provenance
    from ..engine.run import Execution, run_stage
    from ..stages.caption import CaptionConfig, stage_of, summary

    with with_workers(given) as (executor, progress):
        from ..models.captioner.model import weights_file

        weights = weights_file(model, phase or "gan").absolute()
        config = options.config_of(CaptionConfig, {"weights": weights, **given})
        stage = stage_of(config.table)
        metadata = provenance.of_stage(run, (stage.input,), config)
        counts = run_stage(stage, run, config, Execution(executor, progress, overwrite), metadata=metadata)
        print(summary(counts, config))


@negcap.command()
@options.run
@click.option("--output", type=PLACE, required=True, metavar="NEW", help="Folder of the new run.")
@click.option("--extra", metavar="TABLE", help="Table of captions to add to the run's own; default: generated.")
@options.overwrite
@options.quiet
def enlarge(run: Path, output: Path, extra: str | None, overwrite: bool, quiet: bool) -> None:
    """Make a new run with a run's own and generated captions.

    The generated captions of an image come after its own; they, and the negatives made from them, have the origin
    generated. Continue with `negcap build --output NEW`.

    \b
    Example: negcap enlarge outputs/mine --output outputs/enlarged
    """
    from ..engine import provenance
    from ..engine.progress import report
    from ..stages.enlarge import EnlargeConfig
    from ..stages.enlarge import enlarge as make

    config = EnlargeConfig(extra) if extra else EnlargeConfig()
    counts = make(run, output, config, metadata=provenance.package(), progress=report(quiet), overwrite=overwrite)
    print(f"{counts['captions']:,} captions of {counts['images']:,} images, {counts['generated']:,} of them generated")


@negcap.command()
@options.model
@options.run
@options.evaluation
@click.option("--split", metavar="NAME", help="Split of the images to caption; default: test.")
@click.option(
    "--judge", type=FOLDER, metavar="MODEL", help="Model made by negcap train, which ranks the images for each caption."
)
@click.option("--n", type=int, help="Captions per image, for self-BLEU; default: 3.")
@beam_width
@options.limit_of_split
@click.option("--images", type=FOLDER, metavar="FOLDER", help="Folder of the photos, for samples.png.")
@options.seed
@options.device
@options.settings(
    {
        "shown": "number of photos in samples.png; default: 6",
    }
)
def assess(model: Path, run: Path, output: Path | None, **given: Any) -> None:
    """Evaluate the captions that a captioner writes.

    Before and after the policy gradient, with greedy decoding and sampling: BLEU, CIDEr-D, distinct words, novelty,
    self-BLEU, the discriminator's score, and how a model made by negcap train (--judge) ranks the images for the
    captions. Prints Markdown, and writes it with JSON and pictures to --output.

    \b
    Example: negcap assess outputs/captioner outputs/mine --split test --judge outputs/vse++
    """
    from ..models.captioner.config import CaptionerEvaluateConfig

    config = options.config_of(CaptionerEvaluateConfig, given)
    from ..models.captioner.evaluate import evaluate as measure

    print(measure(model, run, config, output))
