"""Verbs of images: features, and drawn scenes whose truth is known."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from negcap.pipelines.cli import options
from negcap.pipelines.cli.group import negcap, one_line_errors
from negcap.pipelines.cli.options import FOLDER


@negcap.command()
@click.argument("source", type=FOLDER)
@options.output
@click.option("--array", help="Of a VSE++ folder, the arrays SPLIT_ARRAY.npy; default: ims.")
@click.option("--scale", type=FOLDER, metavar="FILE", help="Scale of uint8 arrays; default: ARRAY_scale.npz there.")
@click.option("--backbone", help="What made the arrays, for the metadata.")
@click.option("--onnx", type=FOLDER, metavar="MODEL", help="Extract from photos with this ONNX model.")
@click.option("--layer", help="A tensor or node of the model; default: its first output.")
@click.option("--images", type=FOLDER, metavar="FOLDER", help="The photos of a run's captions.")
@click.option("--grid", is_flag=True, default=None, help="The regions of the layer instead of their mean.")
@click.option("--ten-crop", is_flag=True, default=None, help="The mean of ten crops instead of the centre.")
@click.option("--resize", type=int, help="Pixels of a photo's shorter side; default: 256.")
@click.option("--crop", type=int, help="Pixels of a crop's sides; default: 224.")
@click.option("--batch", type=int, help="Crops at once; default: 32.")
@click.option("--device", help="cpu or cuda; default: cpu.")
@click.option("--threads", type=int, help="Threads that read photos and run the model; default: one a core.")
@click.option("--dtype", help="float16 or float32; default: float16 of float16 and uint8, else float32.")
@click.option("--table", help="Table to write: features, or features_NAME; default: features.")
@options.limit
@click.option("--per-shard", "shard_size", type=int, help="Images a shard, at most; default: 64 MiB or 1000.")
@click.option("--strict", is_flag=True, default=None, help="Stop at the first bad image instead of rejecting it.")
@options.overwrite
@options.quiet
def features(source: Path, run: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Read or extract image features.

    SOURCE is a folder of VSE++ arrays or one of them; with --onnx a folder of photos, or a run whose captions name
    the photos in --images. Images without a feature go to rejected_images, with the reason.
    """
    from negcap.pipelines.engine import provenance
    from negcap.pipelines.engine.progress import report
    from negcap.pipelines.stages.features import FeaturesConfig, make_features
    from negcap.pipelines.tables.summary import extracted

    with one_line_errors():
        config = FeaturesConfig(**options.only_set(given))
        metadata = provenance.package()
        make_features(source, run, config, metadata=metadata, progress=report(quiet), overwrite=overwrite)
        print(extracted(run, config.table))


@negcap.command()
@options.output
@click.option("--images", type=int, help="Scenes to draw; default: 2000.")
@options.seed
@options.overwrite
@options.quiet
def scenes(run: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Draw a small world whose truth is known.

    Pictures, five captions each, their features from a fixed small net, and what is true of each scene. The other
    verbs go on from there: parse, lexicon, components, balance, negatives.
    """
    from negcap.pipelines.engine import provenance
    from negcap.pipelines.engine.progress import report
    from negcap.pipelines.stages.scenes import ScenesConfig, make_scenes

    with one_line_errors():
        config = ScenesConfig(**options.only_set(given))
        metadata = provenance.package()
        counts = make_scenes(run, config, metadata=metadata, progress=report(quiet), overwrite=overwrite)
        print(f"{counts['captions']:,} captions of {counts['images']:,} drawn scenes")


@negcap.command()
@options.run
@click.option("--refined", "table", flag_value="refined", help="Judge what negcap refine kept.")
@click.option("--n", type=int, default=5, show_default=True, help="Kinds of wrong rows shown, an operator.")
@click.option("--json", "as_json", is_flag=True, help="The counts as JSON.")
def judge(run: Path, table: str | None, n: int, as_json: bool) -> None:
    """Judge the negatives of drawn scenes.

    By the truth of the scenes, how many negatives are false: as people count ("a dog" is false of three dogs), and in
    logic too. Captions and positives, which must be true, are judged with them. Where opinions may differ, or the
    judge cannot read a sentence, nothing is decided, and counted.
    """
    from negcap.pipelines.scenes.report import judge_run, print_report, to_json

    with one_line_errors():
        tallies = judge_run(run, table or "negatives")
        if as_json:
            print(to_json(tallies))
        else:
            print_report(tallies, sys.stdout, n)
