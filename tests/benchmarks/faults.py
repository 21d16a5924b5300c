"""`make faults`: break a small build in many ways, run it again, and compare its bytes with those of an unbroken one.

    python -m tests.benchmarks.faults [--seed 0] [--share 1] [--kind NAME]

Kinds of faults: signals to a build at random moments of every stage; to workers and their driver; damage to the files
of every table; a full disk; a lost scheduler; two builds at once; a build that stands still and is taken over; in
outside.py: endpoints that do not end or repeat the key, inputs that no reader can use, streams of few characters; in
folders.py: two commands that write into one folder, damage to the files of models, links where a run is written,
publications that are killed, workers without negcap, workers that stand still. A fault is survived if each command ends
with a status and at most one line about it, and the same command, run again, leaves the bytes of an undisturbed run.
Otherwise the run is lost. Damage is accepted if another command reads a damaged table, ends with status 0, and prints
or writes something else than for the whole one. --share: the share of the faults to try. The exit status is 1 if
anything was lost or accepted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from negcap.pipelines import sample
from negcap.pipelines.cli.group import THREADS
from negcap.pipelines.engine.cluster import executor
from negcap.pipelines.engine.lock import LOCK
from negcap.pipelines.engine.manifest import manifest_path, read_manifest
from negcap.pipelines.engine.progress import Progress
from negcap.pipelines.engine.run import Execution
from negcap.pipelines.engine.shards import MANIFESTS, list_shards
from negcap.pipelines.stages import build as verbs
from tests.benchmarks import folders, outside
from tests.benchmarks.injection import Ended, Fork, content, full_after, no_file_above, without_stages
from tests.conftest import ROOT
from tests.pipelines.engine.conftest import DaskProcesses, wait_for
from tests.tables import DAMAGES, cut

SOURCE = str(sample.path())
OPTIONS = {"limit": 8, "shard_size": 15, "preset": "all", "lexicon": "own"}
FLAGS = [
    word
    for name, value in OPTIONS.items()
    for word in ((f"--{name}", str(value)) if name in ("limit", "preset") else ("--set", f"{name}={value}"))
]
HERE = ["--scheduler", "synchronous", "--quiet"]
STOPS = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 130}
TABLE_REMOVED = "table removed"
OTHER = ["--seed", "5", "--overwrite", *HERE]
NEGATIVES = ["build", "--output", "RUN", "--only", "negatives", *OTHER]
LEXICON = ["build", "--output", "RUN", "--only", "lexicon", "--set", "min_count=2", "--overwrite", *HERE]
PUBLISH = "publish RUN --format coco --license x --allow-blind --quiet --output OUT".split()
READERS: dict[str, list[list[str]]] = {  # commands that read a table; RUN, OUT stand for folders
    "captions": [PUBLISH],
    "parses": [LEXICON, NEGATIVES],
    "lexicon": [NEGATIVES],
    "truth": [NEGATIVES],
    "balance": [NEGATIVES],
    "negatives": ["show RUN --n 100000 --json".split()],
    "positives": ["show RUN --operator paraphrase --n 100000 --json".split()],
    "rejections": ["show RUN --rejections --n 100000 --json".split()],
}


@dataclass
class Tally:
    """What became of the faults of one kind; problems: a line for each that was lost or accepted."""

    tried: int = 0
    lost: int = 0
    accepted: int = 0
    problems: list[str] = field(default_factory=list)


class Bench:
    """An undisturbed run, what a command made of it, and the tallies; every fault happens in a copy."""

    def __init__(self, scratch: Path, seed: int, share: float) -> None:
        """Make the undisturbed run in `scratch`."""
        self.scratch, self.share, self.random = scratch, share, Random(seed)
        self.tallies: dict[str, Tally] = {}
        self.reference = scratch / "reference"
        for run in [scratch / "first", self.reference][share < 1 :]:  # the first loads the models, for the forks, too
            progress = Progress()
            verbs.build(SOURCE, run, OPTIONS, Execution(executor(scheduler="synchronous"), progress))
        self.whole = content(self.reference)
        self.seconds = {timing.stage: timing.seconds for timing in progress.timings}
        self.outputs: dict[str, list[str]] = {}  # the tables that a stage makes, that with its manifest first
        for path in self.manifests():
            if (made := read_manifest(self.reference / path.stem)) is not None:
                others = {*made.identity.tables} - {path.stem}
                self.outputs[made.identity.stage] = [path.stem, *sorted(others)]
        self.stages = tuple(timing.stage for timing in progress.timings)
        self.undamaged: dict[str, tuple[Ended, dict[str, bytes]]] = {}
        self.copies = 0

    def manifests(self) -> list[Path]:
        """The manifests of the undisturbed run."""
        return sorted(self.reference.glob(f"{MANIFESTS}/*.json"))

    def tables(self) -> list[str]:
        """The tables of the undisturbed run."""
        return sorted(path.name for path in self.reference.iterdir() if list_shards(path))

    def times(self, count: int) -> int:
        """How often a fault is tried, given how often the whole bench does."""
        return max(1, round(count * self.share))

    def some(self, cases: list) -> list:
        """The share of the cases that is tried, all in their order if that is 1."""
        return cases if self.share == 1 else self.random.sample(cases, self.times(len(cases)))

    def new(self, name: str = "run") -> Path:
        """The path of a new folder."""
        self.copies += 1
        return self.scratch / f"{self.copies}" / name

    def build(self, run: Path, *more: str) -> list[str]:
        """The command that makes the undisturbed run, for the folder `run`, in one process."""
        return ["build", SOURCE, "--output", str(run), *FLAGS, *HERE, *more]

    def judge(self, kind: str, what: str, run: Path, said: str = "") -> None:
        """Run the command again on a disturbed run, compare, and count; said: what the disturbed command did wrong."""
        again = Fork(self.build(run)).wait()
        if again.refusal and "--overwrite replaces it" in again.err:  # it asks; its advice must help
            again = Fork(self.build(run, "--overwrite")).wait()
        if again.status != 0:
            said = said or f"run again: {shown(again)}"
        elif not said:
            found = content(run)
            others = sorted(name for name in {*found, *self.whole} if found.get(name) != self.whole.get(name))
            said = f"other bytes: {', '.join(others[:3])}" if others else ""
        self.count(kind, what, said)
        shutil.rmtree(run.parent)

    def count(self, kind: str, what: str, said: str = "") -> None:
        """Count a fault; said: what went wrong, "" if it was survived."""
        tally = self.tallies.setdefault(kind, Tally())
        tally.tried += 1
        if said:
            tally.lost += 1
            tally.problems.append(f"{kind}: {what}: {said}")

    def read(self, what: str, run: Path, table: str) -> None:
        """Run the commands that read a damaged table in copies of the run; count what they accept."""
        for command in READERS.get(table, []):
            name = " ".join(command)
            if name not in self.undamaged:
                self.undamaged[name] = self._output(command, self.reference)
            expected, made = self.undamaged[name]
            assert expected.status == 0, f"{name}: {shown(expected)}"
            got, files = self._output(command, run)
            tally = self.tallies.setdefault("damage", Tally())
            if got.status == 0 and (got.out != expected.out or files != made):
                tally.accepted += 1
                tally.problems.append(f"damage: {what}: accepted by {command[0]}")
            elif got.status != 0 and not got.refusal:
                tally.lost += 1
                tally.problems.append(f"damage: {what}: {command[0]}: {shown(got)}")

    def _output(self, command: list[str], run: Path) -> tuple[Ended, dict[str, bytes]]:
        folder = self.new("read")
        copy = shutil.copytree(run, folder)
        places = {"RUN": str(copy), "OUT": str(folder.parent / "out")}
        ended = Fork([places.get(word, word) for word in command]).wait()
        made = content(folder.parent / "out") if "OUT" in command else content(copy / command[0])
        shutil.rmtree(folder.parent)
        return Ended(ended.status, ended.out.replace(str(folder.parent), ""), ended.err, 0), made


def shown(ended: Ended) -> str:
    """How a command ended, in a line."""
    lines = ended.err.strip().splitlines() or ["nothing said"]
    return f"status {ended.status}, {len(lines)} lines: {lines[-1][:160]}"


def stopped(bench: Bench) -> None:
    """SIGKILL, SIGTERM, SIGHUP, SIGINT at a random moment of each stage."""
    each = [*[signal.SIGKILL] * 4, *[signal.SIGTERM] * 2, signal.SIGHUP, signal.SIGINT]
    for number, sent in bench.some([(number, sent) for number in range(len(bench.stages)) for sent in each]):
        stage = bench.stages[number]
        for attempt in range(1, 20):  # until it still runs at that moment
            run = without_stages(bench.reference, bench.stages[number:], bench.outputs, bench.new())
            if stage == "ingest":
                shutil.rmtree(run)
            build = Fork(bench.build(run))
            begun = manifest_path(run / bench.outputs[stage][0]).exists
            wait_for(lambda: stage == "ingest" or begun() or not build.running())  # noqa: B023
            time.sleep(bench.random.uniform(0, bench.seconds[stage] / attempt))
            if build.running():
                build.stop(sent)
            ended = build.wait()
            if ended.status != 0:
                break
            shutil.rmtree(run.parent)
        right = ended.status == STOPS.get(sent, -sent)
        bench.judge("signal", f"{sent.name} in {stage}", run, "" if right else shown(ended))


def command_with_workers(bench: Bench, run: Path, *more: str) -> subprocess.Popen:
    """The build as users start it, with two workers, in a session of its own."""
    command = [sys.executable, "-m", "negcap", "build", SOURCE, "--output", str(run), *FLAGS, "--quiet", *more]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def with_workers(bench: Bench) -> None:
    """A worker, the driver or all of them are killed, or the driver is asked to end, at a random moment."""

    def is_worker(process: psutil.Process) -> bool:  # rather than the helper that counts shared semaphores
        with suppress(psutil.Error):
            return "spawn_main" in " ".join(process.cmdline())
        return False

    began = time.monotonic()
    with command_with_workers(bench, bench.new(), "--workers", "2") as process:
        process.communicate()
    whole = time.monotonic() - began
    for what in ["worker", "driver", "all", "SIGTERM"] * bench.times(4):
        run = bench.new()
        with command_with_workers(bench, run, "--workers", "2") as process:
            time.sleep(bench.random.uniform(0.3, whole * 0.9))
            children = psutil.Process(process.pid).children(recursive=True)
            if what == "worker":
                workers = [child for child in children if is_worker(child)]
                for worker in bench.random.sample(workers, min(1, len(workers))):
                    worker.kill()
            elif what == "all":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.send_signal(signal.SIGKILL if what == "driver" else signal.SIGTERM)
            err = process.communicate(timeout=120)[1]
        _, alive = psutil.wait_procs(children, timeout=15)
        said = f"{len(alive)} workers live on" if alive else ""
        if what in ("worker", "SIGTERM") and (process.returncode not in (0, 2, 143) or err.count("\n") > 1):
            said = shown(Ended(process.returncode, "", err, 0))
        bench.judge("workers", f"{what} killed", run, said)


def damaged(bench: Bench) -> None:
    """A shard or manifest of each table is broken; other commands read it, then the build is run again."""
    cases = [(table, name) for table in bench.tables() for name in [*DAMAGES, TABLE_REMOVED]]
    for table, name in bench.some(cases):
        run = shutil.copytree(bench.reference, bench.new())
        what = f"{table}, {name}"
        if name == TABLE_REMOVED:
            shutil.rmtree(run / table)
            manifest_path(run / table).unlink(missing_ok=True)
        else:
            DAMAGES[name](bench.random.choice(list_shards(run / table)), bench.random)
            bench.read(what, run, table)
        bench.judge("damage", what, run)
    for path in bench.some(bench.manifests()):
        run = shutil.copytree(bench.reference, bench.new())
        cut(run / path.relative_to(bench.reference), bench.random)
        bench.judge("damage", f"{path.stem}, manifest torn", run)


def full_disk(bench: Bench) -> None:
    """No space after some files, or none for files above a size."""
    files = len(bench.whole)
    for _ in range(bench.times(16)):
        for prepare in (full_after(bench.random.randrange(files)), no_file_above(bench.random.randrange(30_000))):
            run = bench.new()
            ended = Fork(bench.build(run), prepare).wait()
            bench.judge("full disk", "", run, "" if ended.status == 0 or ended.refusal else shown(ended))


def lost_scheduler(bench: Bench) -> None:
    """The scheduler of a build is killed at a random moment."""
    for _ in range(bench.times(6)):
        run = bench.new()
        run.parent.mkdir()
        with closing(DaskProcesses(run.parent)) as dask:
            dask.start("scheduler", "--host", "127.0.0.1", "--port", "0")
            dask.start("worker", "--nthreads", "1")
            with command_with_workers(bench, run, "--scheduler", dask.address()) as process:
                wait_for((run / "captions").exists)
                time.sleep(bench.random.uniform(0, 2 * sum(bench.seconds.values())))
                dask.started[0].kill()
                err = process.communicate(timeout=120)[1]
        ended = Ended(process.returncode, "", err, 0)
        bench.judge("scheduler", "killed", run, "" if ended.status == 0 or ended.refusal else shown(ended))


def two_builds(bench: Bench) -> None:
    """Two builds into one folder, the second a moment after the first, or once that runs, with other settings."""
    for number in range(bench.times(12)):
        run, other = bench.new(), number % 2 == 1
        first = Fork(bench.build(run))
        if other:
            wait_for((run / LOCK).exists)
        time.sleep(bench.random.uniform(0, sum(bench.seconds.values()) / 2))
        second = Fork(bench.build(run, *(["--seed", "5", "--overwrite"] if other else []))).wait()
        ended = first.wait()
        fine = {0} <= {ended.status, second.status} and all(e.status == 0 or e.refusal for e in (ended, second))
        if other:
            fine = fine and ended.status == 0
        bench.judge("two builds", "", run, "" if fine else f"{shown(ended)}; {shown(second)}")


KINDS: dict[str, Callable[[Bench], None]] = {
    "signal": stopped,
    "workers": with_workers,
    "damage": damaged,
    "full disk": full_disk,
    "scheduler": lost_scheduler,
    "two builds": two_builds,
    "endpoint": outside.bad_endpoints,
    "input": outside.bad_inputs,
    "stream": outside.narrow_streams,
    "two writers": folders.two_writers,
    "model": folders.damaged_models,
    "links": folders.links,
    "publication": folders.killed_publications,
    "unfit": folders.unfit_workers,
    "still": folders.still_workers,
}


def report(tallies: dict[str, Tally]) -> Iterator[str]:
    """The table of what was tried, survived, lost and accepted, and the problems."""
    yield f"{'kind':<12}{'tried':>8}{'survived':>10}{'lost':>6}{'accepted damage':>17}"
    total = Tally(*(sum(getattr(tally, name) for tally in tallies.values()) for name in ("tried", "lost", "accepted")))
    for name, tally in [*tallies.items(), ("all", total)]:
        yield f"{name:<12}{tally.tried:>8}{tally.tried - tally.lost:>10}{tally.lost:>6}{tally.accepted:>17}"
    yield from (problem for tally in tallies.values() for problem in tally.problems)


def main(arguments: list[str] | None = None) -> int:
    """Run the bench; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1)
    parser.add_argument("--kind", action="append", choices=KINDS)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(Path(scratch), given.seed, given.share)
        for kind in given.kind or KINDS:
            KINDS[kind](bench)
            print(f"{kind}: {bench.tallies[kind].tried} tried", file=sys.stderr, flush=True)
    print("\n".join(report(bench.tallies)))
    return 1 if any(tally.problems for tally in bench.tallies.values()) else 0


if __name__ == "__main__":
    if not THREADS.items() <= os.environ.items():  # numpy reads them when it is imported
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.benchmarks.faults", *sys.argv[1:]], os.environ | THREADS
        )
    sys.exit(main())
