"""Runs the commands of a plan, several at once, and keeps what each took; what is done is not done again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...engine.storage import write_json
from ...engine.tables import has_table, read_table
from ..evaluation.attacks import FAMILIES
from ..figures import markdown_table
from .plan import Job, Settings

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


def run_jobs(jobs: Sequence[Job], output: Path, at_once: int, say: Callable[[str], None]) -> list[str]:
    """Run the commands of jobs, up to `at_once` in parallel; returns the names of the commands that failed.

    A command waits for those before it in its job and for the jobs that its job needs; if one of these fails, it is not
    run, and everything else is. A command's output is in OUTPUT/log, its arguments and seconds in OUTPUT/done; a
    command that is there with the same arguments is not run again. say: called with a line after each command. If this
    call is interrupted, the commands that it has begun are ended.
    """
    steps = steps_of(jobs)
    taken = times(jobs, output)
    done, waiting = set(taken), [step for step in steps if step.name not in taken]
    if done:
        say(f"{len(done)} of {len(steps)} commands were done before")
    failed: list[str] = []
    running: dict[Future[Taken | None], Step] = {}
    children: set[int] = set()
    with ThreadPoolExecutor(at_once) as pool:
        try:
            while True:
                for step in [step for step in waiting if step.needs <= done][: at_once - len(running)]:
                    waiting.remove(step)
                    running[pool.submit(_run, step, output, children)] = step
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    step, its = running.pop(future), future.result()
                    if its is None:
                        failed.append(step.name)
                        say(f"{step.name}: negcap {step.command[0]} failed, see {_log(output, step)}")
                        continue
                    done.add(step.name)
                    taken[step.name] = its
                    total = sum(one.cpu for one in taken.values()) / 60
                    say(
                        f"{len(done)} of {len(steps)}, {total:.1f} minutes of CPU: {step.name}, {step.command[0]}, "
                        f"{its.cpu:.0f} s of CPU, {its.wall:.0f} s"
                    )
        finally:
            for process in list(children):
                with suppress(ProcessLookupError):
                    os.killpg(process, signal.SIGTERM)
    if waiting:
        say(f"not run, as they need what failed: {', '.join(step.name for step in waiting)}")
    return failed


def steps_of(jobs: Sequence[Job]) -> list[Step]:
    """The commands of all jobs in turn. Raises KeyError if a job needs one that is not before it."""
    last: dict[str, str] = {}
    steps = []
    for job in jobs:
        needs = frozenset(last[name] for name in job.needs)
        for number, command in enumerate(job.commands):
            step = Step(f"{job.name}-{number}".replace(" ", "-"), command, needs)
            steps.append(step)
            needs = frozenset([step.name])
        last[job.name] = steps[-1].name
    return steps


def times(jobs: Sequence[Job], output: Path) -> dict[str, Taken]:
    """What the commands of jobs took, by the name of the step, of those that are done."""
    found = {}
    for step in steps_of(jobs):
        file = _done(output, step)
        kept = json.loads(file.read_text("utf-8")) if file.exists() else {}
        if kept.get("command") == list(step.command):
            found[step.name] = Taken(**kept["seconds"])
    return found


def _run(step: Step, output: Path, children: set[int]) -> Taken | None:
    """Run a command in a process group of its own; returns what it took, or None if it failed.

    children: holds the id of the group while the command is running.
    """
    done, log = _done(output, step), _log(output, step)
    for file in (done, log):
        file.parent.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with log.open("wb") as to:
        process = subprocess.Popen(
            [*NEGCAP, *step.command], stdout=to, stderr=subprocess.STDOUT, start_new_session=True
        )
        children.add(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        children.discard(process.pid)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        return None
    taken = Taken(round(used.ru_utime + used.ru_stime, 1), round(time.perf_counter() - began, 1))
    write_json(done, {"command": list(step.command), "seconds": taken._asdict()})
    return taken


def _done(output: Path, step: Step) -> Path:
    return output / "done" / f"{step.name}.json"


def _log(output: Path, step: Step) -> Path:
    return output / "log" / f"{step.name}.txt"


MOST = 20  # of a family that attack a caption
LEAST = (1, 5, 10, MOST)


def supply_table(settings: Settings) -> str:
    """The mean number of negatives of a caption by family, and how many images have captions with enough of each."""
    head = [f"negatives per caption, at most {MOST} counted", *FAMILIES]
    head.append(f"images all of whose captions have {' · '.join(map(str, LEAST))} of each")
    rows = [["reported", *[str(MOST)] * len(FAMILIES), "1,000 were chosen"]]
    if has_table(settings.run, "negatives"):
        rows.append(["measured", *_counted(settings)])
    return markdown_table(head, rows)


def _counted(settings: Settings) -> list[str]:
    image: dict[str, str] = {}
    for part in read_table(settings.run, "captions", ["caption_id", "image_id", "split"]):
        part = part.filter(pc.equal(part["split"], settings.split))
        image.update(zip(part["caption_id"].to_pylist(), part["image_id"].to_pylist(), strict=True))
    captions = pa.array(list(image))
    counts = {family: dict.fromkeys(image, 0) for family in FAMILIES}
    for part in read_table(settings.run, "negatives", ["caption_id", "operator"]):
        part = part.filter(pc.is_in(part["caption_id"], captions))
        for family, operators in FAMILIES.items():
            rows = pc.is_in(part["operator"], pa.array(operators))
            for caption, number in Counter(part["caption_id"].filter(rows).to_pylist()).items():
                counts[family][caption] += number
    means = [sum(min(MOST, number) for number in found.values()) / len(image) for found in counts.values()]
    fewest: dict[str, int] = {}
    for caption, its in image.items():
        fewest[its] = min(fewest.get(its, MOST), *(found[caption] for found in counts.values()))
    enough = [sum(number >= least for number in fewest.values()) for least in LEAST]
    return [*(f"{mean:.1f}" for mean in means), f"{' · '.join(map(str, enough))} of {len(fewest):,}"]
