"""Runs the commands of a plan, several at once, and keeps what each took; what is done is not done again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ...engine.storage import write_json
from .plan import Job

NEGCAP = (sys.executable, "-m", "negcap")


class Step(NamedTuple):
    """One command of a job: its name, its arguments, and the names of the steps that must be done before."""

    name: str
    command: tuple[str, ...]
    needs: frozenset[str]


class Taken(NamedTuple):
    """What a command took, in seconds."""

    cpu: float
    wall: float


def steps_of(jobs: Sequence[Job]) -> list[Step]:
    """The commands of all jobs in turn. Raises KeyError if a job needs one that is not before it."""
    last: dict[str, str] = {}
    steps = []
    for job in jobs:
        needs = frozenset(last[name] for name in job.needs)
        for number, command in enumerate(job.commands):
            steps.append(Step(f"{job.name}-{number}".replace(" ", "-"), command, needs))
            last[job.name] = steps[-1].name
            needs = frozenset([steps[-1].name])
    return steps


def times(jobs: Sequence[Job], output: Path) -> dict[str, Taken]:
    """What the commands of jobs took, by the name of the step, of those that are done."""
    found = {}
    for step in steps_of(jobs):
        file = output / "done" / f"{step.name}.json"
        kept = json.loads(file.read_text("utf-8")) if file.exists() else {}
        if kept.get("command") == list(step.command):
            found[step.name] = Taken(**kept["seconds"])
    return found


def run_jobs(jobs: Sequence[Job], output: Path, at_once: int, say: Callable[[str], None]) -> list[str]:
    """Run the commands of jobs, up to `at_once` in parallel; returns the names of the commands that failed.

    A command waits for those before it in its job and for the jobs that its job needs; if one of these fails, it is not
    run, and everything else is. A command's output is in OUTPUT/log, its arguments and seconds in OUTPUT/done; a
    command that is there with the same arguments is not run again. say: called with a line after each command. If this
    call is interrupted, the commands that it has begun are ended.
    """
    steps, taken = steps_of(jobs), times(jobs, output)
    waiting = [step for step in steps if step.name not in taken]
    if taken:
        say(f"{len(taken)} of {len(steps)} commands were done before")
    failed: list[str] = []
    running: dict[int, tuple[Step, subprocess.Popen[bytes], float]] = {}  # by the id of the process
    for folder in ("done", "log"):
        (output / folder).mkdir(parents=True, exist_ok=True)
    try:
        while True:
            for step in [step for step in waiting if step.needs <= taken.keys()][: at_once - len(running)]:
                waiting.remove(step)
                with (output / "log" / f"{step.name}.txt").open("wb") as log:
                    process = subprocess.Popen(
                        [*NEGCAP, *step.command], stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                    )
                running[process.pid] = step, process, time.perf_counter()
            if not running:
                break
            number, status, used = os.wait4(-1, 0)  # of any of them, with the seconds of its CPU
            if number not in running:
                continue  # a child of whoever called
            step, process, began = running.pop(number)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                failed.append(step.name)
                say(f"{step.name}: negcap {step.command[0]} failed, see {output / 'log' / step.name}.txt")
                continue
            its = Taken(round(used.ru_utime + used.ru_stime, 1), round(time.perf_counter() - began, 1))
            write_json(output / "done" / f"{step.name}.json", {"command": list(step.command), "seconds": its._asdict()})
            taken[step.name] = its
            total = sum(one.cpu for one in taken.values()) / 60
            say(
                f"{len(taken)} of {len(steps)}, {total:.1f} minutes of CPU: {step.name}, {step.command[0]}, "
                f"{its.cpu:.0f} s of CPU, {its.wall:.0f} s"
            )
    finally:
        for number, (_, process, _) in running.items():
            with suppress(ProcessLookupError):
                os.killpg(number, signal.SIGTERM)
            process.wait()
    if waiting:
        say(f"not run, as they need what failed: {', '.join(step.name for step in waiting)}")
    return failed
