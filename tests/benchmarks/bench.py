"""`make bench`: the time of a build compared with parsing alone, on the same captions and cores, in one run.

BENCH_CAPTIONS names the captions (any source that `negcap build` reads; default: Flickr8k dev of NEGCAP_DATA, else the
embedded sample), BENCH_LIMIT=N takes only the first N images, BENCH_WORKERS is the number of cores (default 2),
BENCH_REPEATS how often each time is measured (default 1; the shortest counts). Other load on the machine distorts the
results.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from negcap.pipelines import sample
from negcap.pipelines.engine.tables import read_table
from tests.conftest import DATA

NEGCAP = [sys.executable, "-m", "negcap"]
BARE = """
import json, sys, time
import spacy
from negcap.augment.language.parse import SHIPPED, load_pipeline
texts = json.load(open(sys.argv[1]))[int(sys.argv[2])::int(sys.argv[3])]
began = time.perf_counter()
nlp = load_pipeline(None) if sys.argv[4] == "tuned" else spacy.load(SHIPPED)
next(nlp.pipe(["A dog runs."]))
print(time.perf_counter() - began, flush=True)
sys.stdin.readline()
for _ in nlp.pipe(texts, batch_size=512):
    pass
"""
AUGMENTER = """
import json, sys, time
import negcap
texts = json.load(open(sys.argv[1]))[:2000]
augment = negcap.Augmenter(n=4)
augment(texts[:16])
began = time.perf_counter()
for start in range(0, len(texts), 128):
    augment(texts[start : start + 128])
print(len(texts) / (time.perf_counter() - began))
"""
ONE_SENTENCE = """
import time
import negcap
began = time.perf_counter()
assert len(negcap.negatives(["A dog sleeps on a red couch while two children play."]))
print(time.perf_counter() - began)
"""


def main() -> None:
    """Measure everything and print one line per result."""
    os.environ["OMP_NUM_THREADS"] = "1"
    real = DATA / "flickr8k" / "dev_caps.txt"
    source = os.environ.get("BENCH_CAPTIONS") or str(real if real.is_file() else sample.path())
    limit = os.environ.get("BENCH_LIMIT")
    workers, repeats = int(os.environ.get("BENCH_WORKERS", 2)), int(os.environ.get("BENCH_REPEATS", 1))
    flags = ["--limit", limit] if limit else []
    with tempfile.TemporaryDirectory() as scratch:
        run, one = Path(scratch, "run"), Path(scratch, "one")
        built, spent, stages = least(repeats, lambda: build(source, run, workers, flags))
        texts = [text for table in read_table(run, "parses", ["text"]) for text in table["text"].to_pylist()]
        file = Path(scratch) / "texts.json"
        file.write_text(json.dumps(texts))
        bare, bare_cpu, load = least(repeats, lambda: bare_pipe(file, workers, "as spaCy loads it"))
        tuned, tuned_cpu, _ = least(repeats, lambda: bare_pipe(file, workers, "tuned"))
        alone, _, alone_stages = least(repeats, lambda: build(source, one, 1, flags))
        same = all(content(run / table) == content(one / table) for table in ("parses", "negatives", "rejections"))
        (augmenter,) = least(repeats, lambda: (-float(printed("-c", AUGMENTER, str(file))),))
        (one_sentence,) = least(3, lambda: (float(printed("-c", ONE_SENTENCE)),))
        (help_seconds,) = least(5, lambda: (spend([*NEGCAP, "--help"]).seconds,))
        step = printed("-m", "tests.benchmarks.steps", str(one))
        size = sum(path.stat().st_size for path in run.rglob("*.parquet"))

    def rate(seconds: float) -> str:
        return f"{seconds:.2f} s, {len(texts) / seconds:,.0f} captions/s"

    def work(stages: dict[str, float]) -> float:
        return sum(seconds for name, seconds in stages.items() if name != "ingest")

    rows = [
        ("captions", f"{len(texts):,}  ({source})"),
        (f"bare nlp.pipe, {workers} processes", f"{rate(bare)}; loading {load:.2f} s before"),
        (f"build, {workers} workers, process start to end", rate(built)),
        ("build ÷ bare nlp.pipe", f"{built / bare:.2f}  (÷ with loading: {built / (bare + load):.2f})"),
        ("the same in CPU seconds, with loading", f"{spent.cpu / bare_cpu:.2f}  ({spent.cpu:.1f} ÷ {bare_cpu:.1f})"),
        ("build ÷ nlp.pipe as negcap loads the parser", f"{built / tuned:.2f}  ({tuned:.2f} s; CPU {tuned_cpu:.1f} s)"),
        ("stages, seconds", "  ".join(f"{name} {seconds:.2f}" for name, seconds in stages.items())),
        ("negatives ÷ parse", f"{stages['negatives'] / stages['parse']:.1f}"),
        ("build ÷ its stage parse", f"{built / stages['parse']:.1f}"),
        ("negatives alone, 1 worker", f"{len(texts) / alone_stages['negatives']:,.0f} captions/s"),
        (f"{workers} workers ÷ 1, parse + lexicon + negatives", f"{work(alone_stages) / work(stages):.2f}"),
        (f"{workers} workers ÷ 1, process start to end", f"{alone / built:.2f}"),
        ("peak memory of a worker", f"{spent.worker / 2**20:,.0f} MiB"),
        ("size of the run", f"{size / 2**20:,.1f} MiB"),
        ("the same bytes from 1 and more workers", "yes" if same else "NO"),
        ("negcap.Augmenter(n=4), batches of 128, 1 process", f"{-augmenter:,.0f} captions/s"),
        ("negcap.negatives of a sentence, after import", f"{one_sentence:.2f} s"),
        ("a training step of UniVSE ÷ VSE++'s, joint 1,024", step),
        ("negcap --help", f"{help_seconds:.3f} s"),
    ]
    for name, value in rows:
        print(f"{name:<48} {value}")


def content(folder: Path) -> list[bytes]:
    """The bytes of a table's shards, in order."""
    return [path.read_bytes() for path in sorted(folder.glob("*.parquet"))]


def least(repeats: int, measure: Callable[[], tuple]) -> tuple:
    """Measure `repeats` times; return the measurement whose first number is smallest."""
    return min((measure() for _ in range(repeats)), key=lambda measured: measured[0])


class Spent(NamedTuple):
    """What a command took: wall and CPU seconds, and the peaks of the resident memory of it and of its largest child in
    bytes; and what it said on stderr.
    """

    seconds: float
    cpu: float
    driver: int
    worker: int
    said: str


def spend(command: list[str]) -> Spent:
    """Run a command to its end; SystemExit if it fails."""
    began, cpu = time.perf_counter(), cpu_seconds()
    peaks: dict[int, int] = {}
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        while process.poll() is None:
            with suppress(psutil.NoSuchProcess, OSError):
                for one in (
                    process.pid,
                    *(child.pid for child in psutil.Process(process.pid).children(recursive=True)),
                ):
                    found = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{one}/status").read_text())
                    peaks[one] = max(peaks.get(one, 0), int(found[1]) * 1024 if found else 0)
            time.sleep(0.02)
        seconds = time.perf_counter() - began
        said.seek(0)
        if process.returncode:
            raise SystemExit(said.read())
        driver = peaks.pop(process.pid, 0)
        return Spent(seconds, cpu_seconds() - cpu, driver, max(peaks.values(), default=0), said.read())


def cpu_seconds() -> float:
    """CPU seconds of all terminated child processes and their descendants."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def build(source: str, run: Path, workers: int, flags: list[str]) -> tuple[float, Spent, dict[str, float]]:
    """Wall seconds and all else that a `negcap build` from scratch takes, and seconds per stage."""
    shutil.rmtree(run, ignore_errors=True)
    spent = spend([*NEGCAP, "build", source, "--output", str(run), "--workers", str(workers), *flags])
    found = re.findall(r"^([a-z_]+): [0-9,]+ [a-z]+ in ([0-9.]+) s", spent.said, re.M)
    return spent.seconds, spent, {name: float(seconds) for name, seconds in found}


def bare_pipe(texts: Path, processes: int, loaded: str) -> tuple[float, float, float]:
    """nlp.pipe over all texts, distributed over processes: wall seconds after loading, CPU seconds, load seconds.

    loaded: "tuned" to load the parser as negcap does, else as spaCy does.
    """
    cpu = cpu_seconds()
    command = [sys.executable, "-c", BARE, str(texts)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([*command, str(i), str(processes), loaded], **pipes) for i in range(processes)]
    loading = max(float(process.stdout.readline()) for process in started if process.stdout)
    began = time.perf_counter()
    for process in started:  # all at once
        if process.stdin:
            process.stdin.write("\n")
            process.stdin.flush()
    for process in started:
        process.communicate()
    return time.perf_counter() - began, cpu_seconds() - cpu, loading


def printed(*arguments: str) -> str:
    """What a new Python process prints."""
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
