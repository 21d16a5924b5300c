"""Commands for images: features, and synthetic scenes with known ground truth."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from . import options
from .group import alone, negcap, to_json
from .options import FOLDER, PLACE


@negcap.command(
    configs="features.source:FeaturesConfig", flags="array backbone onnx layer images grid table limit strict"
)
@click.argument("source", type=PLACE)
@options.output
@options.overwrite
@options.quiet
def features(source: Path, run: Path, **given: Any) -> None:
    """Read or extract image features.

    SOURCE is a folder of VSE++ arrays or one of them; with --onnx a folder of photos, or a run whose captions name
    the photos in --images. Images without a feature go to rejected_images, with the reason.

    \b
    Example: negcap features outputs/mine --onnx resnet152.onnx --images photos --output outputs/mine
    """
    from ..features.source import FeaturesConfig
    from ..report.summary import features_line
    from ..stages.features import make_features

    config = FeaturesConfig.of(given)
    make_features(source, run, config, alone(given))
    print(features_line(run, config.table))


@negcap.command(configs="stages.scenes:ScenesConfig", flags="images seed")
@options.output
@options.overwrite
@options.quiet
def scenes(run: Path, **given: Any) -> None:
    """Generate synthetic scenes with known ground truth.

    Images, five captions each, features from a small fixed network, and the facts of each scene. Needs no data;
    continue with `negcap build --output RUN`.

    \b
    Example: negcap scenes --output outputs/scenes --images 2000
    """
    from ..stages.scenes import ScenesConfig, make_scenes

    counts = make_scenes(run, ScenesConfig.of(given), alone(given))
    print(f"{counts['captions']:,} captions of {counts['images']:,} synthetic scenes")


@negcap.command(configs="stages.scenes:CounterpartsConfig", flags="share splits operators seed")
@options.run
@click.option("--winoground", type=FOLDER, metavar="DIR", help="Also write them in Winoground's form to this folder.")
@options.overwrite
@options.quiet
def counterparts(run: Path, winoground: Path | None, **given: Any) -> None:
    """Draw pictures in which negatives of scenes are true.

    For the first negative of each operator: the scene with the least change after which the negative is true and its
    caption false, both by ground truth. Needs a run of `negcap scenes` with negatives.

    \b
    Example: negcap counterparts outputs/scenes --split test --winoground outputs/pairs
    """
    from ..stages.scenes import CounterpartsConfig, make_counterparts, write_winoground

    counts = make_counterparts(run, CounterpartsConfig.of(given), alone(given))
    for name in sorted(key.removesuffix(".negatives") for key in counts if key.endswith(".negatives")):
        print(f"{name}: {counts.get(f'{name}.pictures', 0):,} of {counts[f'{name}.negatives']:,} negatives drawn")
    print(f"{counts['pictures']:,} pictures for {counts['negatives']:,} negatives")
    if winoground is not None:
        print(f"{write_winoground(run, winoground):,} pairs of images and captions in {winoground}")


@negcap.command()
@options.run
@options.refined
@click.option("--n", type=int, default=5, show_default=True, help="Kinds of true negatives shown per operator.")
@options.as_json
def judge(run: Path, table: str | None, n: int, as_json: bool) -> None:
    """Count how many negatives of synthetic scenes are false.

    Compares every sentence with the facts of its scene, in two readings: as people use numbers ("a dog" is false of
    three dogs), and in logic ("a dog" is true of them). Captions and positives, which must be true, are judged, too. A
    sentence that is a matter of opinion, or that cannot be analysed, counts as undecided.

    \b
    Example: negcap judge outputs/scenes
    """
    from ..scenes.report import counts, judge_run, print_report

    judged = judge_run(run, table or "negatives")
    if as_json:
        print(to_json(counts(judged)))
    else:
        print_report(judged, sys.stdout, n)
