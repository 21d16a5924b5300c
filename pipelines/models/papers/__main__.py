"""Measure the papers' tables: `python -m negcap.pipelines.models.papers SOURCE --output DIR`.

SOURCE is a folder in the VSE++ layout, such as Flickr8k: {train,dev}_caps.txt and _ims.npy. Everything is run with
negcap's own commands (see --print). Finished commands are not run again, so that after an interruption the same command
goes on. Then tables.md is written to DIR; with --page the tables are put into a page of Markdown, between the markers
<!-- table NAME --> and <!-- end NAME -->.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ....schemas.markdown import replaced
from ...engine.storage import write_atomically, write_json
from ..fit import Say
from .plan import PapersConfig, PlanStep, finished, planned_steps
from .tables import TABLES, tables

NEGCAP = (sys.executable, "-m", "negcap")
POLL = 0.02  # seconds between looks at what runs


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, write the tables. Returns 0, 1 if a command failed, 2 for bad input, 130 if interrupted."""
    given = _parser().parse_args(arguments)
    try:
        settings = PapersConfig.of(vars(given))
        plan = planned_steps(settings)
        page = given.page.read_text("utf-8") if given.page else ""
        if given.page:
            insert_tables(page, dict.fromkeys(TABLES, ""))  # raises before anything is run
    except (OSError, ValueError) as error:
        print(f"papers: {error}", file=sys.stderr)
        return 2
    if given.print:
        print("\n".join(shlex.join(("negcap", *step.command)) for step in plan))
        return 0
    try:
        say = partial(print, file=sys.stderr, flush=True)
        failed = run_steps(plan, settings.source, settings.output, given.at_once, say)
    except KeyboardInterrupt:
        print("papers: interrupted; the same command goes on where this one ended", file=sys.stderr)
        return 130
    try:
        measured = tables(settings)
    except ValueError as error:
        print(f"papers: {error}", file=sys.stderr)
        return 1
    text = "\n\n".join(f"## {name}\n\n{table}" for name, table in measured.items())
    write_atomically(settings.output / "tables.md", (text + "\n").encode())
    if page:
        given.page.write_text(insert_tables(page, measured), "utf-8")
    print(settings.output / "tables.md", file=sys.stderr)
    return 1 if failed else 0


def insert_tables(page: str, tables_by_name: Mapping[str, str]) -> str:
    """A page with each table between its markers. Raises ValueError for a table without markers."""
    for name, table in tables_by_name.items():
        page = replaced(page, f"<!-- table {name} -->", f"<!-- end {name} -->", table)
    return page


def run_steps(plan: Sequence[PlanStep], source: Path, output: Path, at_once: int, say: Say) -> list[str]:
    """Run the commands of a plan; returns the names of the steps that failed.

    A step waits for those that it needs; if one of these fails, it is not run, and everything else is. A command's
    output is in OUTPUT/log, its arguments in OUTPUT/done; what is done, see `finished`, is not run again. If this call
    is interrupted, the commands that it has begun are ended.

    Args:
        plan: the steps, each behind those that it needs.
        source: the folder of the data.
        output: where results, logs and marks are.
        at_once: how many commands run in parallel.
        say: called with a line after each command.
    """
    done = finished(plan, source, output)
    failed: list[str] = []
    waiting = [step for step in plan if step.name not in done]
    running: dict[PlanStep, subprocess.Popen[bytes]] = {}
    for folder in ("done", "log"):
        (output / folder).mkdir(parents=True, exist_ok=True)
    try:
        while True:
            ready = [step for step in waiting if step.needs <= done]
            for step in ready[: at_once - len(running)]:
                waiting.remove(step)
                with (output / "log" / f"{step.name}.txt").open("wb") as log:
                    # In a new session, so that an interruption can end it with all its workers, see below
                    command = [*NEGCAP, *step.command]
                    running[step] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            if not running:
                break
            ended = [step for step, process in running.items() if process.poll() is not None]
            for step in ended:
                if running.pop(step).returncode:
                    failed.append(step.name)
                    say(f"{step.name}: negcap {step.command[0]} failed, see {output / 'log' / step.name}.txt")
                else:
                    write_json(output / "done" / f"{step.name}.json", list(step.command))
                    done.add(step.name)
                    say(f"{len(done)} of {len(plan)}: {step.name}, {step.command[0]}")
            time.sleep(POLL)
    finally:
        for process in running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
    if waiting:
        say(f"not run, as they need what failed: {', '.join(step.name for step in waiting)}")
    return failed


def _parser() -> argparse.ArgumentParser:
    """The parser of the command line: a flag for each setting of PapersConfig, and those of the run itself."""
    parser = argparse.ArgumentParser("papers", description=(__doc__ or "").splitlines()[0])
    for name, field in PapersConfig.model_fields.items():
        default = f"; default: {field.default}" if isinstance(field.default, (str, int)) else ""
        about = f"{field.description}{default}"
        if name == "source":
            parser.add_argument("source", help=about)
        elif name == "parts":
            parser.add_argument("--part", help=about, action="append", dest="parts")
        else:
            parser.add_argument(f"--{name}", help=about, required=name == "output")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="commands run in parallel; default: 2")
    parser.add_argument("--page", type=Path, metavar="FILE", help="page of Markdown to put the tables into")
    parser.add_argument("--print", action="store_true", help="only print the commands")
    return parser


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)  # so that run_steps ends what it has begun
    sys.exit(main())
