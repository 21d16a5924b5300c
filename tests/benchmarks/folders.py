"""Faults of `make faults` that break no build from within: other folders than runs, what lies in a run, workers that
are of no use. Each is survived if every command ends with status 0 or one line, and what is there afterwards is, byte
for byte, what an undisturbed command writes.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from negcap.pipelines.engine.lock import LOCK
from negcap.pipelines.engine.shards import MANIFESTS, list_shards
from tests.benchmarks.injection import Ended, Fork, content
from tests.pipelines.engine.conftest import WITHOUT_NEGCAP, DaskProcesses, wait_for
from tests.pipelines.models.worlds import write_world
from tests.tables import cut, flip

if TYPE_CHECKING:
    from tests.benchmarks.faults import Bench

TRAIN = "train WORLD --model vse-c --joint 8 --set word_dim=8 --batch-size 32 --threads 1 --device cpu --quiet".split()
WEIGHTS = ("best.safetensors", "last.safetensors", "config.json", "vocabulary.json")  # no times are in them
MODEL_FILES = (*WEIGHTS, "metrics.jsonl")
PUBLISH = "publish RUN --license x --allow-blind --quiet".split()


def ended_well(*commands: Ended) -> bool:
    """Whether each has done its work or said in one line why not, and one has done it."""
    return any(ended.status == 0 for ended in commands) and all(e.status == 0 or e.refusal for e in commands)


def shown(*commands: Ended) -> str:
    """How commands ended, in a line."""
    return "; ".join(f"status {ended.status}: {ended.err.strip()[-160:]}" for ended in commands)


class Trainings:
    """A small world, and trainings in it."""

    def __init__(self, bench: Bench) -> None:
        for module in ("trainer.train", "trainer.evaluate", "figures"):  # once, for all copies of this process
            import_module(f"negcap.pipelines.models.{module}")
        self.bench, self.world = bench, bench.new("world")
        write_world(self.world, (("train", 60), ("test", 20)))

    def command(self, output: Path, seed: int = 0, *more: str, epochs: int = 3) -> list[str]:
        """The command that trains a model in the folder `output`."""
        words = [str(self.world) if word == "WORLD" else word for word in TRAIN]
        return [*words, "--output", str(output), "--seed", str(seed), "--epochs", str(epochs), *more]

    def made(self, output: Path) -> dict[str, bytes]:
        """The files of a model that are the same for each training with the same settings."""
        return {name: (output / name).read_bytes() for name in WEIGHTS if (output / name).exists()}

    def alone(self, seed: int, epochs: int = 3) -> dict[str, bytes]:
        """What an undisturbed training writes."""
        output = self.bench.new("alone")
        ended = Fork(self.command(output, seed, epochs=epochs)).wait()
        assert ended.status == 0, shown(ended)
        return self.made(output)


def two_writers(bench: Bench) -> None:
    """Two trainings with other seeds, or two publications in other formats, in one folder at about the same time."""
    trainings = Trainings(bench)
    expected = [trainings.alone(seed) for seed in (0, 7)]
    for _ in range(bench.times(6)):
        output = bench.new("model")
        first = Fork(trainings.command(output, 0))
        wait_for(lambda: (output / LOCK).exists() or not first.running())  # noqa: B023
        time.sleep(bench.random.uniform(0, 1))
        second = Fork(trainings.command(output, 7, "--overwrite")).wait()
        ended = first.wait()
        wanted = expected[1 if second.status == 0 else 0]
        fine = ended_well(ended, second) and trainings.made(output) == wanted
        bench.count("two writers", "trainings", "" if fine else f"other bytes, or {shown(ended, second)}")
    publications = Publications(bench)
    for _ in range(bench.times(6)):
        output = bench.new("published")
        forks = [Fork(publications.command(output, kind)) for kind in ("coco", "sugarcrepe")]
        both = [fork.wait() for fork in forks]
        kind = "coco" if both[0].status == 0 else "sugarcrepe"
        one = [ended.status for ended in both].count(0) == 1
        fine = one and ended_well(*both) and content(output) == publications.alone(kind)
        bench.count("two writers", "publications", "" if fine else f"other bytes, or {shown(*both)}")


def damaged_models(bench: Bench) -> None:
    """A file of a model is cut, or has another bit; it is evaluated, trained on, and trained anew."""
    trainings = Trainings(bench)
    whole = bench.new("model")
    assert Fork(trainings.command(whole)).wait().status == 0
    longer = trainings.alone(0, epochs=4)

    def evaluated(model: Path) -> Ended:
        return Fork(["evaluate", str(model), str(trainings.world), "--output", str(model.parent / "evaluation")]).wait()

    expected = evaluated(shutil.copytree(whole, bench.new("model"))).out
    cases = [(name, damage) for name in MODEL_FILES for damage in [cut, *[flip] * 4]]
    for name, damage in bench.some(cases):
        model = shutil.copytree(whole, bench.new("model"))
        damage(model / name, bench.random)
        said, read = "", evaluated(model)
        if not (read.refusal or (read.status == 0 and read.out == expected)):
            said = f"evaluated: {shown(read)}"
        resumed = Fork(trainings.command(model, epochs=4)).wait()
        if not (resumed.refusal or (resumed.status == 0 and trainings.made(model) == longer)):
            said = said or f"trained on: {shown(resumed)}"
        again = Fork(trainings.command(model, 0, "--overwrite", epochs=4)).wait()
        if again.status or trainings.made(model) != longer:
            said = said or f"--overwrite: {shown(again)}"
        bench.count("model", f"{name}, {damage.__name__}", said)


def links(bench: Bench) -> None:
    """The lock, a table or the manifests of a run are a link to something of the user."""
    for name in bench.some([LOCK, MANIFESTS, *bench.tables()]):
        run = shutil.copytree(bench.reference, bench.new())
        mine = run.parent / "mine"
        if name == LOCK:
            mine.mkdir()
            (mine / "letter.txt").write_text("dear")
            (run / LOCK).symlink_to(mine / "letter.txt")
        else:
            shutil.move(run / name, mine)
            (run / name).symlink_to(mine)
        before = content(mine)
        ended = Fork(bench.build(run, "--seed", "5", "--overwrite")).wait()
        said = "" if ended.refusal else shown(ended)
        if content(mine) != before:
            said = "written through the link"
        (run / name).unlink()
        if name != LOCK:
            shutil.move(mine, run / name)
        bench.judge("links", name, run, said)


class Publications:
    """Publications of the undisturbed run."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.known: dict[str, dict[str, bytes]] = {}

    def command(self, output: Path, kind: str, *more: str) -> list[str]:
        """The command that publishes in a format."""
        words = [str(self.bench.reference) if word == "RUN" else word for word in PUBLISH]
        return [*words, "--format", kind, "--output", str(output), *more]

    def alone(self, kind: str) -> dict[str, bytes]:
        """What an undisturbed publication writes."""
        if kind not in self.known:
            output = self.bench.new("published")
            ended = Fork(self.command(output, kind)).wait()
            assert ended.status == 0, shown(ended)
            self.known[kind] = content(output)
        return self.known[kind]


def killed_publications(bench: Bench) -> None:
    """A publication in place of another one is killed, as it writes, and the same command is run again."""
    publications = Publications(bench)
    expected = publications.alone("huggingface")
    began = time.monotonic()
    Fork(publications.command(bench.new("published"), "huggingface")).wait()
    seconds = time.monotonic() - began
    for number in range(bench.times(12)):
        output = bench.new("published")
        assert Fork(publications.command(output, "coco")).wait().status == 0
        again = publications.command(output, "huggingface", "--overwrite")
        publication = Fork(again)
        if number % 2:  # once it writes, which takes little of its time
            wait_for(lambda: list(output.glob(".*/*")) or not publication.running())  # noqa: B023
            time.sleep(bench.random.uniform(0, 0.05))
        else:
            time.sleep(bench.random.uniform(0, seconds))
        if publication.running():
            publication.stop(signal.SIGKILL)
        publication.wait()
        ended = Fork(again).wait()
        wrong = ended.status != 0 or content(output) != expected or len(os.listdir(output.parent)) > 1
        bench.count("publication", "killed", f"other bytes, or {shown(ended)}" if wrong else "")


def unfit_workers(bench: Bench) -> None:
    """A worker of the scheduler has no negcap: the only one, the first of two, or one that comes later."""
    from tests.benchmarks.faults import command_with_workers

    for what in ("alone", "beside", "later")[: max(1, round(3 * bench.share))]:
        run = bench.new()
        run.parent.mkdir()
        (run.parent / "sitecustomize.py").write_text(WITHOUT_NEGCAP)
        bare = {"PYTHONPATH": str(run.parent)}
        with closing(DaskProcesses(run.parent)) as dask:
            dask.start("scheduler", "--host", "127.0.0.1", "--port", "0")
            if what != "alone":
                dask.start("worker", "--nthreads", "1")
                dask.address()
                time.sleep(5)  # until it is there: the other kind starts sooner
            if what != "later":
                dask.start("worker", "--nthreads", "1", **bare)
            with command_with_workers(bench, run, "--scheduler", dask.address()) as process:
                if what == "later":
                    wait_for((run / "captions").exists)
                    dask.start("worker", "--nthreads", "1", **bare)
                said = _ended(process)
        expected = 2 if what == "alone" else 0
        right = process.returncode == expected and said.count("negcap: the worker") <= 1
        bench.judge("unfit", what, run, "" if right else f"status {process.returncode}: {said[-200:]}")


def still_workers(bench: Bench) -> None:
    """A worker is stopped; what is said is done."""
    from tests.benchmarks.faults import command_with_workers

    for _ in range(bench.times(2)):
        run = bench.new()
        with command_with_workers(bench, run, "--workers", "2") as process:
            children = psutil.Process(process.pid).children
            wait_for(lambda: list_shards(run / "parses"))  # noqa: B023 - now the workers are known to the scheduler
            stopped = bench.random.choice(_workers(children(recursive=True)))
            stopped.suspend()
            assert process.stderr is not None
            line = process.stderr.readline() if process.poll() is None else ""
            named = re.search(
                rf"worker process {stopped.pid} has not been heard of .* kill -9 {stopped.pid} ends", line
            )
            stopped.kill()
            said = _ended(process)
        right = process.returncode == 0 and (named or not line)
        bench.judge("still", "stopped", run, "" if right else f"status {process.returncode}: {line}{said[-200:]}")


def _workers(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if "spawn_main" in " ".join(process.cmdline())]


def _ended(process: subprocess.Popen[str]) -> str:
    """What a command says until it has ended, or is ended after two minutes."""
    try:
        return process.communicate(timeout=120)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return f"hung; {process.communicate()[1]}"
