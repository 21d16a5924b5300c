"""Verbs of images: features, and drawn scenes whose truth is known."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from pipelines import options
from pipelines.cli.group import negcap, one_line_errors


@negcap.command()
@click.argument("source", type=options.FOLDER)
@options.output
@options.features
@options.overwrite
@options.quiet
def features(source: Path, run: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Read or extract image features.

    SOURCE is a folder of VSE++ arrays or one of them; with --onnx a folder of photos, or a run whose captions name
    the photos in --images. Images without a feature go to rejected_images, with the reason.
    """
    from pipelines import provenance
    from pipelines.progress import report
    from pipelines.stages.features import FeaturesConfig, make_features
    from pipelines.summary import extracted

    with one_line_errors():
        config = FeaturesConfig(**{name: value for name, value in given.items() if value is not None})
        metadata = provenance.package()
        make_features(source, run, config, metadata=metadata, progress=report(quiet), overwrite=overwrite)
        print(extracted(run, config.table))


@negcap.command()
@options.output
@options.scenes
@options.overwrite
@options.quiet
def scenes(run: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Draw a small world whose truth is known.

    Pictures, five captions each, their features from a fixed small net, and what is true of each scene. The other
    verbs go on from there: parse, lexicon, components, balance, negatives.
    """
    from pipelines import provenance
    from pipelines.progress import report
    from pipelines.stages.scenes import ScenesConfig, make_scenes

    with one_line_errors():
        config = ScenesConfig(**{name: value for name, value in given.items() if value is not None})
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
    from pipelines.scenes.report import judge_run, print_report, to_json

    with one_line_errors():
        tallies = judge_run(run, table or "negatives")
        if as_json:
            print(to_json(tallies))
        else:
            print_report(tallies, sys.stdout, n)
