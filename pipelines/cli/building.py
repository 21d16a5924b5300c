"""Commands that make the tables of a run, show and check them, and analyse a sentence."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import click

from . import options
from .group import CHECK_FAILED, negcap, to_json, warn, with_workers
from .options import STAGES, FlagValue, operator_words, reason_words


@negcap.command(
    configs="stages.build:BuildConfig ingestion.grouping:IngestConfig stages.parse:ParseConfig "
    "stages.lexicon:LexiconConfig stages.components:ComponentsConfig stages.truth:TruthConfig "
    "stages.balance:BalanceConfig stages.negatives:NegativesConfig",
    flags={
        "What is read": "format keep_columns language split limit strict",
        "What is made": "preset components per_family seed",
    },
)
@click.argument("captions", required=False)
@options.output
@options.several("--only", "only", "Make the tables of this stage only.", choices=STAGES)
@options.section(
    "What is read",
    options.columns(
        ("image", "caption", "split", "id", "language", "truth"),
        "Columns of a CSV, TSV, JSONL or Parquet table, e.g. image=photo,caption=sentence; ROLE: image, caption, "
        "split, id (identifies the images, e.g. one of URLs), language or truth (1 or 0: the caption is true of its "
        "image or not; truth=none: all are true); default: by their usual names. caption may be repeated, and NAME may "
        "be a path, regions.phrase.",
        repeated=("caption",),
    ),
)
@options.section(
    "What is made",
    options.several(
        "--operator",
        "operators",
        "Operator to run, instead of a preset, e.g. noun; uniform_NAME: as in its paper.",
        choices=operator_words,
    ),
)
@options.workers
def build(captions: str | None, run: Path, only: tuple[str, ...] | None, **given: FlagValue) -> int:
    """Make negatives of a caption file, folder or URL.

    CAPTIONS: COCO, Karpathy, Flickr, Multi30K or VSE++ files; CSV, TSV, JSON, JSONL or Parquet tables, also a folder or
    a pattern of them ('parts/*.parquet'); WebDataset tars; a folder of images with a text file each; or a text file
    with one caption per line; plain or compressed, local or by URL. Without CAPTIONS, those in RUN are used.

    The stages: ingest reads the captions (bad records go to rejected_records); parse finds words, tags, dependencies
    and noun phrases; lexicon counts which words captions use, and where; components (with --components or a preset of
    UniVSE) extracts objects, attributes and relations; truth estimates what is true although no caption says so;
    balance weights replacements so that no word is typical of negatives; negatives makes negatives, positives (true
    texts, as controls), rejections (with reasons) and excluded (words ruled out before sampling). Then coverage,
    rejections and examples are printed. Finished stages are kept: after an interruption, the same command continues.

    \b
    Example: negcap build captions.json --output outputs/mine --operator noun --operator verb
    """
    from ..engine.cluster import keep_pandas_unimported
    from ..report.info import write_page
    from ..report.summary import component_lines, corpus_lines, operator_errors, print_summary
    from ..stages import build as verbs

    keep_pandas_unimported()
    with with_workers(given) as execution:
        tables, warnings = verbs.build(captions, run, given, execution, only or ())
        warn(warnings)
        write_page(run)
        if "negatives" not in tables:
            print("\n".join(component_lines(run) if "components" in tables else corpus_lines(run)))
            return 0
        print_summary(run, execution.progress.timings, sys.stdout)
        failed = operator_errors(run)
        if failed:
            listed = f"negcap show {run} --reason operator_error lists them"
            warn([f"operators failed on captions, {failed:,} in all: {listed}"])
        return CHECK_FAILED if failed and given["strict"] else 0


@negcap.command()
@click.argument("run", type=options.PLACE, callback=options.no_file, required=False)
@click.option("--columns", "table", metavar="TABLE", help="Print the columns of this table instead, with descriptions.")
@click.option(
    "--diff", "other", type=options.PLACE, metavar="OTHER", help="Compare the negatives with another run's instead."
)
@click.option("--verify", is_flag=True, help="Check that every file is intact instead; exit with status 1 if not.")
@options.as_json
@click.pass_context
def info(
    ctx: click.Context, run: Path | None, table: str | None, other: Path | None, verify: bool, as_json: bool
) -> int:
    """Show the content of a run, or check it.

    Prints its tables with rows and sizes, whether each is finished and up to date with its input, and the images,
    captions, splits, operators, seed, parser and version. --verify reads all files again and prints one line per
    problem. --diff compares the negatives with those of another run, made with another threshold or seed, and says why
    it lacks some. Without RUN, --columns prints what this version of negcap writes.

    \b
    Example: negcap info outputs/mine --verify
    """
    if run is None and (table is None or verify or other):
        raise click.UsageError("RUN must be given, unless --columns is", ctx)
    from ...schemas.messages import number_of
    from ..engine.tables import verify as verify_run
    from ..report.info import columns_of, print_columns, print_info, read_info

    if run is not None and verify:
        verdict = verify_run(run)
        for problem in verdict.problems:
            print(problem)
        wrong = number_of(len(verdict.problems), "problem") if verdict.problems else "all as they were written"
        shards = number_of(verdict.shards, "shard")
        tables = number_of(verdict.tables, "table")
        print(f"{shards} of {tables}, {number_of(verdict.rows, 'row')}: {wrong}", file=sys.stderr)
        return CHECK_FAILED if verdict.problems else 0
    content: object
    if run is not None and other is not None:
        from ..report.difference import difference, print_difference

        differences = difference(run, other)
        content = differences
        show = partial(print_difference, differences)
    elif table is not None:
        columns = columns_of(table, run)
        content = columns
        show = partial(print_columns, columns)
    else:
        assert run is not None
        of_run = read_info(run)
        content = of_run
        show = partial(print_info, of_run)
    if as_json:
        print(to_json(content))
    else:
        show(sys.stdout)
    return 0


@negcap.command()
@options.run
@click.option("--n", type=int, help="Examples shown.  [default: 10, with --caption all]")
@options.operators
@options.splits
@options.several("--caption", "captions", "Only rows of this caption_id.")
@options.refined
@click.option("--rejections", "table", flag_value="rejections", help="Show rejected candidates.")
@options.several(
    "--reason",
    "reasons",
    "Only candidates rejected for this reason, e.g. likely_true; implies --rejections.",
    choices=reason_words,
)
@click.option("--why", is_flag=True, help="Explain the steps that each candidate goes through; implies --rejections.")
@options.as_json
@options.seed
def show(
    run: Path, n: int | None, table: str | None, why: bool, as_json: bool, seed: int | None, **given: FlagValue
) -> None:
    """Show random negatives with the edit marked.

    Edits are in colours on a terminal, and [-old-]{+new+} elsewhere or with NO_COLOR set; FORCE_COLOR keeps colours in
    a pipe. To see why a caption has no other negatives, use --why --caption ID.

    \b
    Example: negcap show outputs/mine --operator noun --split test --n 5
    """
    from ..report.rows import print_rows, print_steps
    from ..tables.columns import sample, table_of

    flags = {"operator": "operators", "split": "splits", "caption_id": "captions", "reason": "reasons"}
    wanted = {column: given[flag] or () for column, flag in flags.items()}
    if why or wanted["reason"]:
        table = "rejections"
    elif table is None:
        table = table_of(wanted["operator"])
    if n is None:
        n = sys.maxsize if given["captions"] else 10
    rows = sample(run, table, n, seed or 0, wanted)
    if as_json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
    else:
        print_rows(rows, sys.stdout)
        if why:
            print_steps(sys.stdout)


@negcap.command()
@click.argument("caption")
@click.option("--simple", is_flag=True, help="Simplify as UniVSE does: one word per name, one attribute per object.")
@click.option(
    "--spacy-model", metavar="NAME", help="Installed spaCy pipeline or its folder; default: the shipped parser."
)
def graph(caption: str, simple: bool, spacy_model: str | None) -> None:
    """Print the scene graph of a sentence.

    The graph has its objects, attributes and relations, as UniVSE extracts them.

    \b
    Example: negcap graph "A man in a tall hat rides a horse."
    """
    from ... import graph as read
    from ..report.rows import print_graph

    print_graph(read(caption, simple=simple, spacy_model=spacy_model), sys.stdout)


@negcap.command(configs="demo:DemoConfig", flags="port browser")
def demo(**given: FlagValue) -> None:
    """Try negcap on a page in the browser.

    Type captions and get their negatives, with rejected candidates and their reasons, scores, the scene graph, and the
    code that makes the same rows. The page is served on this machine only and needs no network; Ctrl-C ends it.

    \b
    Example: negcap demo --port 8000 --no-browser
    """
    from ..demo import DemoConfig, serve

    serve(DemoConfig.of(given))
