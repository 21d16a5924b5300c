"""Commands for images: features, and synthetic scenes with known ground truth."""

from __future__ import annotations

from pathlib import Path

import click

from ...schemas.messages import number_of
from . import options
from .group import in_this_process, negcap
from .options import PLACE, FlagValue


@negcap.command(
    configs="features.source:FeaturesConfig", flags="array backbone onnx layer images grid table limit strict"
)
@click.argument("source", type=PLACE)
@options.output
@options.overwrite
@options.quiet
def features(source: Path, run: Path, **given: FlagValue) -> None:
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
    make_features(source, run, config, in_this_process(given))
    print(features_line(run, config.table))


@negcap.command(configs="stages.scenes:ScenesConfig", flags="images seed")
@options.output
@options.overwrite
@options.quiet
def scenes(run: Path, **given: FlagValue) -> None:
    """Generate synthetic scenes with known ground truth.

    Writes images, five captions of each, features from a small fixed network, and the facts of each scene. Needs no
    data; continue with `negcap build --output RUN`.

    \b
    Example: negcap scenes --output outputs/scenes --images 2000
    """
    from ..stages.scenes import ScenesConfig, make_scenes

    counts = make_scenes(run, ScenesConfig.of(given), in_this_process(given))
    captions = number_of(counts["captions"], "caption")
    images = number_of(counts["images"], "synthetic scene")
    print(f"{captions} of {images}")
