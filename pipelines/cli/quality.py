"""Commands that measure, select and publish the negatives of a run."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from . import options
from .choices import PICKS, PUBLISHED
from .group import CHECK_FAILED, negcap, warn, with_workers
from .options import FOLDER, PLACE


@negcap.command()
@options.run
@options.operators
@options.splits
@options.vetted
@options.seed
@options.settings(
    {
        "candidates": "negatives to choose from, per caption and operator; default: 10",
        "flows": "operators that must replace A by B as often as B by A, between commas, or none; default: numeral",
        "min_plausibility": "lowest plausibility to choose from, in nats; default: no limit",
        "most_plausible": "choose from this share of each operator's negatives, the most plausible ones; default: 1.0",
        "max_loss": "highest context_loss to choose from, in nats, except of negation; default: 2.2",
        "rounds": "how often the models are fitted again, at most; default: 8",
    }
)
@options.workers
def refine(run: Path, overwrite: bool, **given: Any) -> None:
    """Select negatives that cannot be guessed without the images.

    At most one negative per caption and operator is written to the table refined, selected so that several models
    which never see the images prefer captions and negatives equally often. One of the models, a regression on n-grams,
    is fitted again to each selection. Prints the yield. `negcap blind RUN --refined` measures the result.

    \b
    Example: negcap refine outputs/mine --operator noun --split val
    """
    from ..engine import provenance
    from ..stages.refine import INPUTS, RefineConfig, yields
    from ..stages.refine import refine as refined

    with with_workers(given) as (executor, progress):
        config = options.config_of(RefineConfig, given)
        metadata = provenance.of_stage(run, INPUTS, config)
        counts = refined(run, config, executor, metadata=metadata, progress=progress, overwrite=overwrite)
        print(yields(counts))


@negcap.command()
@options.run
@options.operators
@options.splits
@click.option("--refined", "table", flag_value="refined", help="Measure only what negcap refine kept.")
@options.one_of("--pick", PICKS, "Negative per caption and operator: the first drawn or a random one; default: first.")
@click.option("--limit", type=int, help="Pairs per operator, at most, of random images; default: 100000.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, intervals and cues included.")
@options.seed
def blind(run: Path, as_json: bool, **given: Any) -> None:
    """Measure how well negatives can be guessed without the images.

    Prints the accuracy with which models that never see an image tell a caption from its negative (one negative per
    caption); 50 % is chance. The models: a rule about formatting errors, "the shorter text is true", word log-odds, a
    language model of true captions, and a regression on n-grams; models that learn are tested on images on which they
    were not trained. ± is half of the 95 % interval (Wilson's, corrected for several pairs per image). Then come the
    words and n-grams that are typical of negatives.

    \b
    Example: negcap blind outputs/mine --split test
    """
    from ..quality.bias import BlindConfig, measure_run, to_json, to_text

    reports = measure_run(run, BlindConfig(together=True, **options.only_set(given)))
    print(to_json(reports) if as_json else to_text(reports))


@negcap.command()
@options.run
@click.option("--output", type=PLACE, metavar="DIR", help="Folder to write to; default: RUN/audit.")
@click.option("--n", type=int, help="Random negatives per operator; a third of each reason of rejection; default: 12.")
@click.option("--refined", is_flag=True, default=None, help="Plot and show only what negcap refine kept.")
@options.splits
@click.option("--no-blind", "blind", flag_value=False, default=None, help="Do not measure accuracy without the images.")
@click.option("--limit", type=int, help="Pairs per operator, at most, for that measurement; default: 100000.")
@click.option("--images", type=FOLDER, metavar="FOLDER", help="Folder of the image files, to show each row's photo.")
@click.option("--title", help="Title of the page.")
@options.seed
@options.quiet
def audit(run: Path, output: Path | None, quiet: bool, **given: Any) -> None:
    """Write an HTML page about the quality of the negatives.

    Coverage, yield, rejections, blind baselines, lengths, positions and words of edits, and random rows per operator
    and reason, each with the other captions of its image and its photo. audit.html needs no network and no script: it
    contains the photos, scaled down. audit.parquet has all numbers as rows.

    \b
    Example: negcap audit outputs/mine --split test
    """
    from ..engine.progress import report
    from ..quality.audit import AuditConfig
    from ..quality.audit import audit as write

    config = AuditConfig(**options.only_set(given))
    for file in write(run, output or run / "audit", config, report(quiet)):
        print(file)


@negcap.command()
@options.run
@click.option("--output", type=FOLDER, required=True, metavar="FILE", help="CSV to write the sheet to.")
@click.option("--key", type=FOLDER, metavar="FILE", help="CSV to write the answers to; default: beside it, *.key.csv.")
@click.option("--n", type=int, help="Pairs per operator, and as many controls; default: 50.")
@options.operators
@options.splits
@click.option("--refined", is_flag=True, default=None, help="Only pairs that negcap refine kept.")
@click.option("--votes", type=int, help="Annotators who share one sheet, each with columns of their own; default: 1.")
@options.seed
@click.option("--overwrite", is_flag=True, help="Replace an existing sheet and key.")
def sheet(run: Path, output: Path, key: Path | None, overwrite: bool, **given: Any) -> None:
    """Write an annotation sheet for people, and its answer key.

    Each row shows a caption and its negative, unlabelled; control rows show two true captions. Annotators answer which
    of the two texts describes the image, and which is fluent: a, b, both, neither or unsure. Give each annotator a copy
    of the sheet, but not the key. `negcap agree` reads the sheets.

    \b
    Example: negcap sheet outputs/mine --output sheet.csv --split test --n 100
    """
    from ..quality.annotation.sheet import SheetConfig, summary, write_sheet

    config = SheetConfig(**options.only_set(given))
    sheet, key, items = write_sheet(run, output, config, key, overwrite=overwrite)
    print(f"{sheet}: {summary(items)}")
    print(f"{key}: the answer key, not for annotators")


@negcap.command()
@click.argument("sheets", type=FOLDER, nargs=-1, required=True)
@click.option("--key", type=FOLDER, metavar="FILE", help="Answer key; default: the only *.key.csv beside the sheet.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the ids of the invalid negatives.")
@click.option(
    "--verdicts",
    "run",
    type=FOLDER,
    metavar="RUN",
    help="Compare people with the language models' verdicts in this run.",
)
def agree(sheets: tuple[Path, ...], key: Path | None, as_json: bool, run: Path | None) -> None:
    """Evaluate annotation sheets: validity and agreement.

    One sheet per annotator, or one sheet with columns describes_1, fluent_1, describes_2 … Prints, per operator, the
    share of negatives that a majority finds valid, false and fluent, with 95 % Wilson intervals, and Krippendorff's
    alpha. With --verdicts, the verdicts that negcap vet wrote are compared with the majority: how often they agree that
    a negative is false, and fluent (confusion and alpha).

    \b
    Example: negcap agree anna.csv ben.csv cleo.csv --key sheet.key.csv
    """
    from ..quality.annotation.agree import agree as judged
    from ..quality.annotation.agree import beside, beside_text, to_json, to_text

    report = judged(sheets, key)
    compared = [] if run is None else beside(sheets, run, key)
    if as_json:
        more = {"readers": [asdict(one) for one in compared]} if run is not None else {}
        print(json.dumps({**json.loads(to_json(report)), **more}, indent=1, ensure_ascii=False))
    else:
        print(to_text(report), *([] if run is None else ["", beside_text(compared)]), sep="\n")


@negcap.command()
@options.run
@options.one_of("--format", PUBLISHED, "Format to write.", required=True)
@click.option("--output", type=PLACE, required=True, metavar="DIR", help="Folder to write to, empty or new.")
@click.option("--license", required=True, help="Terms for captions and images: an SPDX id, a URL or a name.")
@options.several("--split", "split", "Only this split, e.g. test; default: all.")
@options.operators
@click.option("--refined", is_flag=True, default=None, help="Publish only what negcap refine kept.")
@options.vetted
@click.option("--per-caption", type=int, help="Negatives per caption and operator; default: as usual in the format.")
@options.one_of("--pick", PICKS, "Which of the negatives: the first drawn or random ones; default: first.")
@options.seed
@click.option("--images", type=FOLDER, metavar="FOLDER", help="Folder of the image files.")
@click.option("--allow-blind", is_flag=True, default=None, help="Publish even what can be guessed; the card says so.")
@options.settings(
    {
        "copy_images": "true: publish the image files too, in images/",
        "skip_missing": "true: leave out captions whose image file is missing",
        "boxes": "CSV of image_id,x,y,width,height instead of whole images",
        "image_root": "written before image paths that readers open as they are, e.g. an absolute folder",
        "names": "of sugarcrepe's files: operators (negcap), or SugarCrepe's parts (sugarcrepe); default: negcap",
        "votes": "annotation sheets, between commas, for valse",
        "max_blind": "highest allowed accuracy, in %, without the images; default: 60",
        "allow_unchecked": "true: publish negatives of presets vse-c-paper and univse-paper, which may be true; the "
        "data card says so",
        "skip_leaks": "true: leave out captions that are in the train split, too",
        "name": "of the data set; default: negcap-FORMAT",
        "url": "of the data set, for the Croissant metadata",
        "creator": "who publishes the data set, for the Croissant metadata",
        "date": "of publication, YYYY-MM-DD, for the Croissant metadata",
        "cite": "how to cite the data set, for the Croissant metadata",
    }
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier publication in DIR; other files are kept.")
@options.quiet
def publish(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> int:
    """Write a test set in a published format.

    With a data card, Croissant metadata and checksums. Writes nothing, and ends with status 1, if a model that never
    sees the images tells captions from negatives (the 95 % interval of its accuracy lies above max_blind), or if
    captions or images of the train split are in another split, too.

    \b
    Example: negcap publish outputs/mine --format sugarcrepe --output published --license CC-BY-4.0 --split test
    """
    from ..publish.config import PublishConfig
    from ..publish.formats import format_named
    from ..publish.publish import RefusedError, print_refusal
    from ..publish.publish import publish as write

    try:
        written = write(
            run, output, options.config_of(PublishConfig, given), overwrite=overwrite, say=lambda line: warn([line])
        )
    except RefusedError as refused:
        print_refusal(refused, sys.stdout)
        return CHECK_FAILED
    if not quiet:
        unit = "pairs" if format_named(given["format"]).negatives else "captions"
        splits = ", ".join(f"{split} {number:,} {unit}" for split, number in written.splits.items())
        print(f"{len(written.files):,} files in {output}: {splits}", file=sys.stderr)
    return 0
