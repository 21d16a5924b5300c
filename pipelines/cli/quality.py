"""Commands that measure, choose and publish what a run holds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from negcap.pipelines.cli import options
from negcap.pipelines.cli.choices import OPERATORS, PICKS, PUBLISHED
from negcap.pipelines.cli.group import CHECK_FAILED, at_work, negcap, one_line_errors, warn
from negcap.pipelines.cli.options import FOLDER


@negcap.command()
@options.run
@options.operators
@options.splits
@click.option("--candidates", type=int, help="Negatives of a caption and operator to choose from; default: 10.")
@options.several(
    "--flows", "flows", "Operator of which A for B is kept as often as B for A; default: numeral.", choices=OPERATORS
)
@click.option("--rounds", type=int, help="Times that the models are fitted again, at most; default: 8.")
@options.seed
@options.workers
def refine(run: Path, overwrite: bool, **given: Any) -> None:
    """Keep negatives that cannot be guessed without the images.

    At most one a caption and operator goes to the table refined: chosen so that several models which never see the
    images prefer captions as often as negatives; their regression on n-grams is fitted again to every choice. Prints
    the yield. `negcap blind RUN --refined` measures what is left.

    \b
    Example: negcap refine outputs/mine --operator noun --split val
    """
    from negcap.pipelines.engine import provenance
    from negcap.pipelines.stages.refine import INPUTS, RefineConfig, yields
    from negcap.pipelines.stages.refine import refine as refined

    with at_work(given) as (executor, progress):
        config = RefineConfig(**options.only_set(given))
        metadata = provenance.of_stage(run, INPUTS, config)
        counts = refined(run, config, executor, metadata=metadata, progress=progress, overwrite=overwrite)
        print(yields(counts))


@negcap.command()
@options.run
@options.operators
@options.splits
@click.option("--refined", "table", flag_value="refined", help="Measure what negcap refine kept.")
@options.one_of("--pick", PICKS, "Which negative of a caption and operator: the first draw or any; default: first.")
@click.option("--limit", type=int, help="Pairs an operator, at most, of random images; default: 100000.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, intervals and cues included.")
@options.seed
def blind(run: Path, as_json: bool, **given: Any) -> None:
    """Measure how far the negatives can be guessed without the images.

    The accuracy of models that never see an image at telling a caption from its negative, one negative a caption; 50 %
    is chance. The models: a format rule, "the shorter is true", word log-odds, a language model of true captions, a
    regression on n-grams; those that learn are tested on images that they were not trained on. ± is half of the 95 %
    interval (Wilson's, with the design effect of several pairs an image). Then the words and n-grams that give the
    negatives away.

    \b
    Example: negcap blind outputs/mine --split test
    """
    from negcap.pipelines.quality.bias import BlindConfig, measure_run, to_json, to_text

    with one_line_errors():
        reports = measure_run(run, BlindConfig(together=True, **options.only_set(given)))
        print(to_json(reports) if as_json else to_text(reports))


@negcap.command()
@options.run
@click.option("--output", type=FOLDER, metavar="DIR", help="Folder to write to; default: RUN/audit.")
@click.option("--n", type=int, help="Random negatives an operator, a third as many refusals a reason; default: 12.")
@click.option("--refined", is_flag=True, default=None, help="Plot and show what negcap refine kept.")
@options.splits
@click.option("--no-blind", "blind", flag_value=False, default=None, help="Measure no models without the images.")
@click.option("--limit", type=int, help="Pairs an operator, at most, to measure these on; default: 100000.")
@click.option("--images", type=FOLDER, metavar="FOLDER", help="Where the image files are: show each row's photo.")
@click.option("--title", help="Title of the page.")
@options.seed
@options.quiet
def audit(run: Path, output: Path | None, quiet: bool, **given: Any) -> None:
    """Write a page that shows what the negatives are like.

    Coverage, yield, refusals, blind baselines, lengths, places and words of the edits, and random rows of every
    operator and reason, each beside the other captions of its image and its photo. audit.html needs no network and no
    script: photos are in the page, scaled down. audit.parquet has the figures as rows.

    \b
    Example: negcap audit outputs/mine --split test
    """
    from negcap.pipelines.engine.progress import report
    from negcap.pipelines.quality.audit import AuditConfig
    from negcap.pipelines.quality.audit import audit as write

    with one_line_errors():
        config = AuditConfig(**options.only_set(given))
        for file in write(run, output or run / "audit", config, report(quiet)):
            print(file)


@negcap.command()
@options.run
@click.option("--output", type=FOLDER, required=True, metavar="FILE", help="CSV to write the sheet to.")
@click.option("--key", type=FOLDER, metavar="FILE", help="CSV of the answers; default: sheet.key.csv beside it.")
@click.option("--n", type=int, help="Pairs an operator, and as many controls; default: 50.")
@options.operators
@options.splits
@click.option("--refined", is_flag=True, default=None, help="Of what negcap refine kept.")
@click.option("--votes", type=int, help="Annotators that share one sheet, each with own columns; default: 1.")
@options.seed
@click.option("--overwrite", is_flag=True, help="Replace a sheet and key that are there.")
def sheet(run: Path, output: Path, key: Path | None, overwrite: bool, **given: Any) -> None:
    """Write an annotation sheet for people, and its key.

    A caption and its negative side by side, not saying which is which, among controls of two true texts. Annotators
    answer which of them describes the image, and which is fluent: a, b, both, neither or unsure. Keep the key from
    them; give each a copy of the sheet. `negcap agree` reads the sheets back.

    \b
    Example: negcap sheet outputs/mine --output sheet.csv --split test --n 100
    """
    from negcap.pipelines.quality.annotation.sheet import SheetConfig, summary, write_sheet

    with one_line_errors():
        config = SheetConfig(**options.only_set(given))
        sheet, key, items = write_sheet(run, output, config, key, overwrite=overwrite)
        print(f"{sheet}: {summary(items)}")
        print(f"{key}: the key, not for annotators")


@negcap.command()
@click.argument("sheets", type=FOLDER, nargs=-1, required=True)
@click.option("--key", type=FOLDER, metavar="FILE", help="The key; default: the only *.key.csv beside the sheet.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the ids of the negatives found not valid.")
def agree(sheets: tuple[Path, ...], key: Path | None, as_json: bool) -> None:
    """Read annotation sheets back: validity and agreement.

    A sheet an annotator, or columns describes_1, fluent_1, describes_2 … in one. By operator, the share of negatives
    that a majority finds valid, false and fluent, with 95 % Wilson intervals, and Krippendorff's alpha.

    \b
    Example: negcap agree anna.csv ben.csv cleo.csv --key sheet.key.csv
    """
    from negcap.pipelines.quality.annotation.agree import agree as judged
    from negcap.pipelines.quality.annotation.agree import to_json, to_text

    with one_line_errors():
        report = judged(sheets, key)
        print(to_json(report) if as_json else to_text(report))


@negcap.command()
@options.run
@options.one_of("--format", PUBLISHED, "Layout to write.", required=True)
@click.option("--output", type=FOLDER, required=True, metavar="DIR", help="Folder to publish in, empty or new.")
@click.option("--license", required=True, help="Terms for captions and images: an SPDX id, a URL or a name.")
@options.several("--split", "split", "Only this split, e.g. test; default: all.")
@options.operators
@click.option("--refined", is_flag=True, default=None, help="Publish what negcap refine kept.")
@click.option("--per-caption", type=int, help="Negatives a caption and operator; default: as the format has it.")
@options.one_of("--pick", PICKS, "Which of them: the first draws or any; default: first.")
@options.seed
@click.option("--images", type=FOLDER, metavar="FOLDER", help="Where the image files are.")
@click.option("--copy-images", is_flag=True, default=None, help="Publish the image files too, in images/.")
@click.option("--skip-missing", is_flag=True, default=None, help="Leave out captions whose image is not there.")
@click.option("--boxes", type=FOLDER, metavar="FILE", help="CSV of image_id,x,y,width,height instead of whole images.")
@click.option("--max-blind", type=float, help="Highest accuracy in % of models without the images; default: 60.")
@click.option("--allow-blind", is_flag=True, default=None, help="Publish all the same; the data card says so.")
@click.option("--skip-leaks", is_flag=True, default=None, help="Leave out captions that the train split has too.")
@click.option("--name", help="Name of the set; default: negcap-FORMAT.")
@click.option("--url", help="Where it will be found, for the Croissant metadata.")
@click.option("--creator", help="Who publishes it, for the Croissant metadata.")
@click.option("--date", metavar="YYYY-MM-DD", help="Date of publication, for the Croissant metadata.")
@click.option("--cite", help="How to cite it, for the Croissant metadata.")
@click.option("--overwrite", is_flag=True, help="Replace what is published there; files of others stay.")
@options.quiet
def publish(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> int:
    """Write a test set in the format that others read.

    With a data card, Croissant metadata and digests. Ends with status 1, and nothing written, if a model that never
    sees the images tells captions from negatives (the 95 % interval of its accuracy lies above --max-blind), or if
    captions or images of the train split stand in another.

    \b
    Example: negcap publish outputs/mine --format sugarcrepe --output published --license CC-BY-4.0 --split test
    """
    from negcap.pipelines.publish.config import PublishConfig
    from negcap.pipelines.publish.publish import RefusedError, print_refusal
    from negcap.pipelines.publish.publish import publish as write

    given = options.only_set(given)
    with one_line_errors():
        try:
            written = write(run, output, PublishConfig(**given), overwrite=overwrite, say=lambda line: warn([line]))
        except RefusedError as refused:
            print_refusal(refused, sys.stdout)
            return CHECK_FAILED
    if not quiet:
        print(f"{len(written):,} files in {output}", file=sys.stderr)
    return 0
