"""Verbs that measure, choose, show and publish what a run holds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from pipelines import options
from pipelines.cli.group import CHECK_FAILED, at_work, negcap, one_line_errors, warn


@negcap.command()
@options.run
@options.refine
@options.workers
def refine(run: Path, overwrite: bool, **given: Any) -> None:
    """Keep negatives that models without the images cannot tell.

    At most one a caption and operator goes to the table refined: chosen so that the gaps of several models, each
    fitted to other images, lie evenly around 0; the regression on n-grams is fitted again and again to what was
    chosen. Prints the yield. `negcap blind RUN --refined` measures what is left.
    """
    from pipelines import provenance
    from pipelines.quality.refine import INPUTS, RefineConfig, yields
    from pipelines.quality.refine import refine as refined

    with at_work(given) as (executor, progress):
        config = RefineConfig(**{name: value for name, value in given.items() if value is not None})
        metadata = provenance.of_stage(run, INPUTS, config)
        counts = refined(run, config, executor, metadata=metadata, progress=progress, overwrite=overwrite)
        print(yields(counts))


@negcap.command()
@options.run
@options.blind
def blind(run: Path, operators: tuple[str, ...] | None, as_json: bool, table: str | None, **given: Any) -> None:
    """Measure how far the negatives can be told without the images.

    50 % is perfect. One negative a caption. A format rule, "the shorter is true", the log-odds of words, a language
    model of true captions and a regression on n-grams, out of fold by image; ± is half of the 95 % interval (Wilson's,
    with the design effect of several pairs an image). Then the words and n-grams that give most away.
    """
    from pipelines.quality.bias import measure_run, to_json, to_text

    given = {name: value for name, value in given.items() if value is not None}
    with one_line_errors():
        reports = measure_run(run, operators=operators, table=table or "negatives", together=True, **given)
        print(to_json(reports) if as_json else to_text(reports))


@negcap.command()
@options.run
@options.quiet
def verify(run: Path, quiet: bool) -> int:
    """Check every shard against its receipt and manifest.

    Hashes all bytes again; prints a line a problem, and ends with status 1 if there is any.
    """
    from pipelines.engine.verify import verify

    with one_line_errors():
        verdict = verify(run)
    for problem in verdict.problems:
        print(problem)
    if not quiet:
        wrong = f"{len(verdict.problems):,} problems" if verdict.problems else "all as they were written"
        print(f"{verdict.shards:,} shards of {verdict.tables} tables, {verdict.rows:,} rows: {wrong}", file=sys.stderr)
    return CHECK_FAILED if verdict.problems else 0


@negcap.command()
@options.run
@click.option("--operator", default="", help="Only rows of this operator.")
@click.option("--n", type=int, default=10, show_default=True, help="How many rows.")
@click.option("--rejections", "table", flag_value="rejections", help="Show refused candidates instead.")
@click.option("--reason", default="", help="Only refusals for this reason; implies --rejections.")
@options.seed
def show(run: Path, operator: str, n: int, table: str | None, reason: str, seed: int | None) -> None:
    """Show random negatives, the edit marked.

    In colour on a terminal, as [-old-]{+new+} elsewhere.
    """
    from pipelines.quality.show import print_rows, sample, table_of

    with one_line_errors():
        wanted = "rejections" if reason else table or table_of(operator)
        print_rows(sample(run, wanted, n, seed or 0, operator=operator, reason=reason), sys.stdout)


@negcap.command()
@options.run
@options.audit
def audit(run: Path, output: Path | None, quiet: bool, **given: Any) -> None:
    """Write a page that shows what the negatives are like.

    Coverage, yield, refusals, blind baselines, lengths, places and words of the edits, and random rows of every
    operator and reason. audit.html needs no network and no script; audit.parquet has the figures as rows.
    """
    from pipelines.progress import report
    from pipelines.quality.audit import AuditConfig
    from pipelines.quality.audit import audit as write

    with one_line_errors():
        config = AuditConfig(**{name: value for name, value in given.items() if value is not None})
        for file in write(run, output or run / "audit", config, report(quiet)):
            print(file)


@negcap.command()
@options.run
@options.sheet
def sheet(run: Path, output: Path, key: Path | None, overwrite: bool, **given: Any) -> None:
    """Write an annotation sheet for people, and its key.

    A caption and its negative side by side, not saying which is which, among controls of two true texts. Annotators
    answer which of them describes the image, and which is fluent: a, b, both, neither or unsure. Keep the key from
    them; give each a copy of the sheet.
    """
    from pipelines.quality.annotation.sheet import SheetConfig, summary, write_sheet

    with one_line_errors():
        config = SheetConfig(**{name: value for name, value in given.items() if value is not None})
        sheet, key, items = write_sheet(run, output, config, key, overwrite=overwrite)
        print(f"{sheet}: {summary(items)}")
        print(f"{key}: the key, not for annotators")


@negcap.command()
@options.agree
def agree(sheets: tuple[Path, ...], key: Path | None, as_json: bool) -> None:
    """Read annotation sheets back: validity and agreement.

    A sheet an annotator, or columns describes_1, fluent_1, describes_2 … in one. By operator, the share of negatives
    that a majority finds valid, false and fluent, with 95 % Wilson intervals, and Krippendorff's alpha.
    """
    from pipelines.quality.annotation.agree import agree as judged
    from pipelines.quality.annotation.agree import to_json, to_text

    with one_line_errors():
        report = judged(sheets, key)
        print(to_json(report) if as_json else to_text(report))


@negcap.command()
@options.run
@options.publish
def publish(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> int:
    """Write a test set in the format that others read.

    With a data card, Croissant metadata and digests. Ends with status 1, and nothing written, if a model without the
    images tells the negatives, or train captions stand in another split.
    """
    from pipelines.publish.gate import RefusedError
    from pipelines.publish.publish import PublishConfig
    from pipelines.publish.publish import publish as write

    given = {name: value for name, value in given.items() if value is not None}
    with one_line_errors():
        try:
            written = write(run, output, PublishConfig(**given), overwrite=overwrite, say=lambda line: warn([line]))
        except RefusedError as refused:
            print("\n".join(refused.lines))
            return CHECK_FAILED
    if not quiet:
        print(f"{len(written):,} files in {output}", file=sys.stderr)
    return 0
