"""Measure the papers' tables: `python -m negcap.pipelines.models.papers SOURCE --output DIR`.

SOURCE is a folder in the VSE++ layout, such as Flickr8k: {train,dev}_caps.txt and _ims.npy. Everything is run with
negcap's own commands (see --print), which are not run again where they are done; then tables.md is written to DIR, and
with --page the tables are put into a page of Markdown, between the markers <!-- table NAME --> and <!-- end NAME -->.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from negcap.pipelines.engine.storage import write_atomically
from negcap.pipelines.models.papers.plan import PARTS, Settings, jobs
from negcap.pipelines.models.papers.run import cpu_minutes, run_jobs
from negcap.pipelines.models.papers.tables import tables
from negcap.schemas.markdown import replaced


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing and write the tables; returns 0, 1 if a command failed, or 2 for bad input."""
    given = _parser().parse_args(arguments)
    try:
        settings = Settings(
            given.source,
            given.output,
            tuple(given.part or PARTS),
            given.vectors,
            given.seeds,
            given.split,
            given.limit,
            given.size,
        )
        plan = jobs(settings)
        page = insert_tables(given.page.read_text("utf-8"), tables(settings)) if given.page else ""
    except (OSError, ValueError) as error:
        print(f"papers: {error}", file=sys.stderr)
        return 2
    if given.print:
        print("\n".join(shlex.join(("negcap", *command)) for job in plan for command in job.commands))
        return 0
    failed = run_jobs(plan, given.output, given.at_once, lambda line: print(line, file=sys.stderr, flush=True))
    made = tables(settings)
    text = "\n\n".join(f"## {name}\n\n{table}" for name, table in made.items())
    write_atomically(given.output / "tables.md", (text + "\n").encode())
    if page:
        given.page.write_text(insert_tables(page, made), "utf-8")
    print(f"{given.output / 'tables.md'}: {cpu_minutes(given.output):.1f} minutes of CPU in all", file=sys.stderr)
    return 1 if failed else 0


def insert_tables(page: str, made: dict[str, str]) -> str:
    """A page with each table between its markers. Raises ValueError for a table without markers."""
    for name, table in made.items():
        page = replaced(page, f"<!-- table {name} -->", f"<!-- end {name} -->", table)
    return page


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("papers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, help="folder in the VSE++ layout")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the run and its models")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be repeated")
    parser.add_argument("--vectors", type=Path, metavar="FILE", help="word vectors, for the parts words and blanks")
    parser.add_argument("--seeds", type=int, default=1, help="trainings per model of Tables 1 to 4; default: 1")
    parser.add_argument("--split", default="dev", help="split to evaluate on; default: dev")
    parser.add_argument("--limit", type=int, default=400, help="its first images; default: 400")
    parser.add_argument("--size", default="small", choices=("small", "full"), help="full: the papers'; default: small")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="commands run in parallel; default: 2")
    parser.add_argument("--page", type=Path, metavar="FILE", help="page of Markdown to put the tables into")
    parser.add_argument("--print", action="store_true", help="only print the commands")
    return parser


if __name__ == "__main__":
    sys.exit(main())
