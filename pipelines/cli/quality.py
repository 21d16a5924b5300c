"""Commands that measure, select and publish the negatives of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ...schemas.messages import number_of
from . import options
from .group import CHECK_FAILED, negcap, to_json, warn, with_workers
from .options import FOLDER, PLACE, FlagValue


@negcap.command(configs="stages.refine:RefineConfig", flags="operators splits per_caption vetted seed")
@options.run
@options.workers
def refine(run: Path, **given: FlagValue) -> None:
    """Select negatives that cannot be guessed without the images.

    This is adversarial filtering: it writes at most one negative per caption and operator to the table refined,
    selected so that text-only baselines, which never see an image, choose the caption as often as the negative. One of
    them, a regression on n-grams, is fitted again to each selection. --per-caption N selects over all operators
    instead. Prints the share that is kept, and how many captions have a negative left. To measure the result, use
    `negcap blind RUN --refined`.

    \b
    Example: negcap refine outputs/mine --operator noun --split val
    """
    from ..stages.refine import RefineConfig, yields
    from ..stages.refine import refine as refined
    from ..tables.columns import captions_in

    with with_workers(given) as execution:
        counts = refined(run, RefineConfig.of(given), execution)
        together = RefineConfig.of(given).per_caption is not None
        print(yields(counts, captions_in(run, given.get("splits") or ()), together=together))


@negcap.command(configs="quality.bias.measure:BlindConfig", flags="operators splits max_pairs seed")
@options.run
@options.refined
@options.as_json
def blind(run: Path, as_json: bool, **given: FlagValue) -> None:
    """Measure how well negatives can be guessed without the images.

    Prints the accuracy with which text-only baselines distinguish a caption from its negative (one negative per
    caption); 50 % is chance. The baselines: a rule about formatting errors, "the shorter text is true", word log-odds,
    language models of true captions, and a regression on n-grams. Those that learn are tested on images on which they
    were not trained. ± is half of the 95 % interval (Wilson's, corrected for several pairs per image). Then come the
    words and n-grams that are typical of negatives.

    It does not measure models that see images (use `negcap score`), or whether negatives are false (use `negcap vet`).

    \b
    Example: negcap blind outputs/mine --split test
    """
    from ..quality.bias.measure import BlindConfig, measure_run, to_text

    bias = measure_run(run, BlindConfig.of(given, together=True))
    print(to_json(bias.plain()) if as_json else to_text(bias))


@negcap.command(configs="quality.audit.figures:AuditConfig", flags="n refined splits blind max_pairs images seed")
@options.run
@click.option("--output", type=PLACE, metavar="DIR", help="Folder to write to; default: RUN/audit.")
@options.quiet
def audit(run: Path, output: Path | None, quiet: bool, **given: FlagValue) -> None:
    """Write an HTML page about the quality of the negatives.

    Coverage, retention, rejections, text-only baselines, lengths, positions and words of edits, and random examples per
    operator and reason, each with the other captions of its image and its photo. audit.html needs no network: it
    contains the photos, scaled down. Its search reads the files in the folder rows beside it. audit.parquet has all
    numbers as rows.

    It rates no negative: to measure how many are false and natural, use `negcap vet`, or `negcap sheet` with people.

    \b
    Example: negcap audit outputs/mine --split test
    """
    from ..engine.progress import report
    from ..engine.storage import refuse_link
    from ..quality.audit import AuditConfig
    from ..quality.audit import audit as write

    for file in write(run, output or refuse_link(run / "audit"), AuditConfig.of(given), report(quiet)):
        print(file)


@negcap.command(configs="quality.annotation:SheetConfig", flags="n operators splits refined seed")
@options.run
@options.folder("CSV to write the sheet to.", metavar="FILE")
@click.option("--key", type=FOLDER, metavar="FILE", help="CSV to write the answers to; default: beside it, *.key.csv.")
@options.overwrite
def sheet(run: Path, output: Path, key: Path | None, overwrite: bool, **given: FlagValue) -> None:
    """Write an annotation sheet for people, and its answer key.

    Each row shows a caption and its negative, unlabelled. Annotators answer which of the two texts describes the image,
    and which is fluent: a, b, both, neither or unsure. Give each annotator a copy of the sheet, but not the key.
    `negcap agree` reads the sheets.

    \b
    Example: negcap sheet outputs/mine --output sheet.csv --split test --n 100
    """
    from ..quality.annotation import SheetConfig, summary, write_sheet

    sheet, key, items = write_sheet(run, output, SheetConfig.of(given), key, overwrite=overwrite)
    print(f"{sheet}: {summary(items)}")
    print(f"{key}: the answer key, not for annotators")


@negcap.command()
@click.argument("sheets", type=FOLDER, nargs=-1, required=True)
@click.option("--key", type=FOLDER, metavar="FILE", help="Answer key; default: the only *.key.csv beside the sheet.")
@options.as_json
def agree(sheets: tuple[Path, ...], key: Path | None, as_json: bool) -> None:
    """Evaluate annotation sheets of people: validity and agreement.

    Takes one sheet per annotator, made by `negcap sheet`. Prints, per operator, the share of negatives that a majority
    finds valid, false and fluent, with 95 % Wilson intervals, and Krippendorff's alpha.

    It does not read ratings by language models: `negcap vet` makes and measures these.

    \b
    Example: negcap agree anna.csv ben.csv cleo.csv --key sheet.key.csv
    """
    from ..quality.annotation import agree as judged
    from ..quality.annotation import to_text

    report = judged(sheets, key)
    print(to_json(report) if as_json else to_text(report))


@negcap.command(
    configs="publish.formats:PublishConfig",
    flags="format license split operators refined vetted per_operator seed images allow_blind",
)
@options.run
@click.option("--output", type=PLACE, required=True, metavar="DIR", help="Folder to write to, empty or new.")
@options.overwrite
@options.quiet
def publish(run: Path, output: Path, overwrite: bool, quiet: bool, **given: FlagValue) -> int:
    """Write a test set in a published format.

    Adds a data card, Croissant metadata and checksums. Writes nothing, and ends with status 1, if a text-only baseline
    distinguishes captions from negatives (the whole 95 % interval of its accuracy is above max_blind), or if captions
    or images of the train split are also in another split.

    \b
    Example: negcap publish outputs/mine --format sugarcrepe --output published --license CC-BY-4.0 --split test
    """
    from ..publish.formats import PublishConfig, format_named
    from ..publish.publish import RefusedError, print_refusal
    from ..publish.publish import publish as write

    # A refusal is no error: the set was measured, and what was found is printed as the result.
    try:
        written = write(run, output, PublishConfig.of(given), overwrite=overwrite, say=lambda line: warn([line]))
    except RefusedError as refused:
        print_refusal(refused, sys.stdout)
        return CHECK_FAILED
    if not quiet:
        unit = "pair" if format_named(given["format"]).negatives else "caption"
        splits = ", ".join(f"{split} {number_of(number, unit)}" for split, number in written.splits.items())
        print(f"{number_of(len(written.files), 'file')} in {output}: {splits}", file=sys.stderr)
    return 0
