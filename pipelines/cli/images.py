"""Commands for images: features, and synthetic scenes with known ground truth."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from . import options
from .choices import DTYPES
from .group import negcap, one_line_errors
from .options import FOLDER, PLACE


@negcap.command()
@click.argument("source", type=PLACE)
@options.output
@click.option("--array", metavar="NAME", help="Arrays to read of a VSE++ folder: SPLIT_NAME.npy; default: ims.")
@click.option("--backbone", metavar="NAME", help="Name of the model that made the arrays, for the metadata.")
@click.option("--onnx", type=FOLDER, metavar="MODEL", help="Extract features of photos with this ONNX model.")
@click.option("--layer", metavar="NAME", help="Output of the model to read; default: its first.")
@click.option("--images", type=FOLDER, metavar="FOLDER", help="Folder of the photos that a run's captions name.")
@click.option("--grid", is_flag=True, default=None, help="Keep the regions of the output instead of their mean.")
@click.option("--resize", type=int, help="Shorter side of a photo, in pixels; default: 256.")
@click.option("--crop", type=int, help="Sides of its centre that is used, in pixels; default: 224.")
@click.option("--batch", type=int, help="Photos computed at once; default: 32.")
@options.one_of("--device", ("cpu", "cuda"), "Where the model runs; default: cpu.")
@click.option("--threads", type=int, help="Threads that read photos and run the model; default: one per core.")
@options.one_of("--dtype", DTYPES, "Type to store; default: float16 for arrays of float16 or uint8, else float32.")
@click.option("--table", help="Table to write: features or features_NAME; default: features.")
@options.limit
@click.option(
    "--per-shard",
    "shard_size",
    type=int,
    help="Images per Parquet file, at most; default: what fits in 64 MiB, 1000 at most.",
)
@click.option("--strict", is_flag=True, default=None, help="Stop at the first bad image instead of rejecting it.")
@options.overwrite
@options.quiet
def features(source: Path, run: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Read or extract image features.

    SOURCE is a folder of VSE++ arrays or one of them; with --onnx a folder of photos, or a run whose captions name
    the photos in --images. Images without a feature go to rejected_images, with the reason.

    \b
    Example: negcap features outputs/mine --onnx resnet152.onnx --images photos --output outputs/mine
    """
    from ..engine import provenance
    from ..engine.progress import report
    from ..report.summary import features_line
    from ..stages.features import FeaturesConfig, make_features

    with one_line_errors():
        config = FeaturesConfig(**options.only_set(given))
        metadata = provenance.package()
        make_features(source, run, config, metadata=metadata, progress=report(quiet), overwrite=overwrite)
        print(features_line(run, config.table))


@negcap.command()
@options.output
@click.option("--images", type=int, help="Number of scenes; default: 2000.")
@options.seed
@options.overwrite
@options.quiet
def scenes(run: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Generate synthetic scenes with known ground truth.

    Images, five captions each, features from a small fixed network, and the facts of each scene. Needs no data;
    continue with `negcap build --output RUN`.

    \b
    Example: negcap scenes --output outputs/scenes --images 2000
    """
    from ..engine import provenance
    from ..engine.progress import report
    from ..stages.scenes import ScenesConfig, make_scenes

    with one_line_errors():
        config = ScenesConfig(**options.only_set(given))
        metadata = provenance.package()
        counts = make_scenes(run, config, metadata=metadata, progress=report(quiet), overwrite=overwrite)
        print(f"{counts['captions']:,} captions of {counts['images']:,} synthetic scenes")


@negcap.command()
@options.run
@click.option("--share", type=float, help="Share of the captions that get pictures; default: 0.2.")
@options.splits
@options.operators
@click.option("--winoground", type=FOLDER, metavar="DIR", help="Also write them in Winoground's form to this folder.")
@options.seed
@options.overwrite
@options.quiet
def counterparts(run: Path, winoground: Path | None, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Draw pictures in which negatives of scenes are true.

    For the first negative of each operator: the scene with the least change after which the negative is true and its
    caption false, both by ground truth. Needs a run of `negcap scenes` with negatives.

    \b
    Example: negcap counterparts outputs/scenes --split test --winoground outputs/pairs
    """
    from ..engine import provenance
    from ..engine.progress import report
    from ..stages.counterparts import CounterpartsConfig, make_counterparts, write_winoground

    with one_line_errors():
        config = CounterpartsConfig(**options.only_set(given))
        metadata = provenance.package()
        counts = make_counterparts(run, config, metadata=metadata, progress=report(quiet), overwrite=overwrite)
        for name in sorted(key.removesuffix(".negatives") for key in counts if key.endswith(".negatives")):
            print(f"{name}: {counts.get(f'{name}.pictures', 0):,} of {counts[f'{name}.negatives']:,} negatives drawn")
        print(f"{counts['pictures']:,} pictures for {counts['negatives']:,} negatives")
        if winoground is not None:
            print(f"{write_winoground(run, winoground):,} pairs of images and captions in {winoground}")


@negcap.command()
@options.run
@click.option("--refined", "table", flag_value="refined", help="Judge only what negcap refine kept.")
@click.option("--n", type=int, default=5, show_default=True, help="Kinds of true negatives shown per operator.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def judge(run: Path, table: str | None, n: int, as_json: bool) -> None:
    """Count how many negatives of synthetic scenes are false.

    Compares every sentence with the facts of its scene, in two readings: as people use numbers ("a dog" is false of
    three dogs), and in logic ("a dog" is true of them). Captions and positives, which must be true, are judged, too. A
    sentence that is a matter of opinion, or that cannot be analysed, counts as undecided.

    \b
    Example: negcap judge outputs/scenes
    """
    from ..scenes.report import judge_run, print_report, to_json

    with one_line_errors():
        tallies = judge_run(run, table or "negatives")
        if as_json:
            print(to_json(tallies))
        else:
            print_report(tallies, sys.stdout, n)
