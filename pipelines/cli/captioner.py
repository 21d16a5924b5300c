"""Commands that generate captions: train a captioner, write captions with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import options
from .group import negcap, say, with_workers
from .models import overwrite
from .options import PHASES


@negcap.command(
    configs="models.settings:CaptionerConfig", flags="mle_epochs gan_epochs train_splits seed device threads"
)
@options.run
@options.folder("Folder of the captioner to write.", metavar="MODEL")
@overwrite
@options.quiet
def captioner(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Train a conditional GAN that writes captions.

    First the generator by maximum likelihood, then the discriminator, then both by policy gradient with rollouts. Reads
    captions and features. Writes weights, metrics.jsonl and curves.png to the folder MODEL. An interrupted training
    continues after its last complete epoch.

    \b
    Example: negcap captioner outputs/mine --output outputs/captioner
    """
    from ..models.settings import CaptionerConfig

    config = CaptionerConfig.of(given, run=run, output=output)
    from ..models.captioner.train import train as fit

    fit(config, overwrite=overwrite, say=say(quiet))


@negcap.command(configs="stages.caption:CaptionConfig", flags="n decoding width splits table seed")
@options.model
@options.run
@options.one_of("--phase", PHASES, "Generator after maximum likelihood (mle) or policy gradient (gan); default: gan.")
@options.workers
def caption(model: Path, run: Path, phase: str | None, **given: Any) -> None:
    """Write captions for a run's images with a captioner.

    They go to the table generated. Captions that are degenerate, repeated or equal to an existing caption of the image
    go to refused_captions, with the reason. `negcap train RUN --set extra=generated` also trains on generated captions.

    \b
    Example: negcap caption outputs/captioner outputs/mine --n 3 --split train
    """
    from ..engine.run import run_stage
    from ..models.captioner.model import weights_file
    from ..stages.caption import CaptionConfig, stage_of, summary

    with with_workers(given) as execution:
        config = CaptionConfig.of(given, weights=weights_file(model, phase or "gan").absolute())
        counts = run_stage(stage_of(config.table), run, config, execution)
        print(summary(counts, config))
