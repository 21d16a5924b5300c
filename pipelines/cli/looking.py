"""Commands that show or check the content of a run, or analyse a sentence."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from . import options
from .choices import REASONS
from .group import CHECK_FAILED, negcap


@negcap.command()
@click.argument("run", type=options.PLACE, callback=options.no_file, required=False)
@click.option("--columns", "table", metavar="TABLE", help="Print the columns of this table instead, with descriptions.")
@click.option("--verify", is_flag=True, help="Check that every file is intact instead; exit with status 1 if not.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.pass_context
def info(ctx: click.Context, run: Path | None, table: str | None, verify: bool, as_json: bool) -> int:
    """Show the content of a run, or check it.

    Its tables with rows and sizes, whether each is finished and up to date with its input, and the images, captions,
    splits, operators, seed, parser and version. --verify reads all files again, and prints one line per problem.
    Without RUN, --columns prints what this version of negcap writes.

    \b
    Example: negcap info outputs/mine --verify
    """
    if run is None and (table is None or verify):
        raise click.UsageError("RUN must be given, unless --columns is", ctx)
    from ..report.info import columns_of, print_columns, print_info, read_info

    if run is not None and verify:
        return _verify(run)
    held: Any = columns_of(table, run) if table is not None else read_info(run) if run is not None else None
    if as_json:
        print(json.dumps(held, indent=1, ensure_ascii=False))
    else:
        (print_columns if table is not None else print_info)(held, sys.stdout)
    return 0


def _verify(run: Path) -> int:
    """Print what is wrong with the files of a run; the exit status."""
    from ..engine.tables import verify

    verdict = verify(run)
    for problem in verdict.problems:
        print(problem)
    count = len(verdict.problems)
    wrong = f"{count:,} {'problem' if count == 1 else 'problems'}" if count else "all as they were written"
    print(f"{verdict.shards:,} shards of {verdict.tables} tables, {verdict.rows:,} rows: {wrong}", file=sys.stderr)
    return CHECK_FAILED if verdict.problems else 0


@negcap.command()
@options.run
@click.option("--n", type=int, default=10, show_default=True, help="Rows shown.")
@options.operators
@options.splits
@click.option("--refined", "table", flag_value="refined", help="Show only what negcap refine kept.")
@click.option("--rejections", "table", flag_value="rejections", help="Show rejected candidates.")
@options.several(
    "--reason",
    "reasons",
    "Only candidates rejected for this reason, e.g. likely_true; implies --rejections.",
    choices=REASONS,
)
@click.option("--json", "as_json", is_flag=True, help="Print whole rows as JSON, one per line.")
@options.seed
def show(
    run: Path,
    n: int,
    operators: tuple[str, ...] | None,
    splits: tuple[str, ...] | None,
    table: str | None,
    reasons: tuple[str, ...] | None,
    as_json: bool,
    seed: int | None,
) -> None:
    """Show random negatives with the edit marked.

    Edits are in colours on a terminal, and [-old-]{+new+} elsewhere or with NO_COLOR set; FORCE_COLOR keeps colours in
    a pipe.

    \b
    Example: negcap show outputs/mine --operator noun --split test --n 5
    """
    from ..report.rows import print_rows
    from ..tables.columns import sample, table_of

    shown = "rejections" if reasons else table or table_of(operators or ())
    wanted = {"operator": operators or (), "split": splits or (), "reason": reasons or ()}
    rows = sample(run, shown, n, seed or 0, wanted)
    if as_json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
    else:
        print_rows(rows, sys.stdout)


@negcap.command()
@click.argument("caption")
@click.option("--simple", is_flag=True, help="Simplify as UniVSE does: one word per name, one attribute per object.")
@options.spacy_model
@click.option("--dot", is_flag=True, help="Print Graphviz source instead, for dot -Tsvg.")
def graph(caption: str, simple: bool, spacy_model: str | None, dot: bool) -> None:
    """Print the scene graph of a sentence.

    Its objects, attributes and relations, as UniVSE reads a caption.

    \b
    Example: negcap graph "A man in a tall hat rides a horse."
    """
    from ..report.rows import print_graph

    print_graph(caption, sys.stdout, simple=simple, spacy_model=spacy_model, dot=dot)
