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
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from negcap.pipelines import sample
from negcap.pipelines.engine.tables import read_table
from tests.conftest import DATA

NEGCAP = [sys.executable, "-m", "negcap"]
BARE = """
import json, sys, time
import spacy
from negcap.augment.language.parse import SHIPPED, load
texts = json.load(open(sys.argv[1]))[int(sys.argv[2])::int(sys.argv[3])]
began = time.perf_counter()
nlp = load() if sys.argv[4] == "tuned" else spacy.load(SHIPPED)
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
    source = os.environ.get("BENCH_CAPTIONS") or _default()
    limit = os.environ.get("BENCH_LIMIT")
    workers, repeats = int(os.environ.get("BENCH_WORKERS", 2)), int(os.environ.get("BENCH_REPEATS", 1))
    flags = ["--lexicon", "own", *(["--limit", limit] if limit else [])]
    with tempfile.TemporaryDirectory() as scratch:
        run, one = Path(scratch, "run"), Path(scratch, "one")
        built, built_cpu, peak, stages = least(repeats, lambda: build(source, run, workers, flags))
        texts = [text for table in read_table(run, "parses", ["text"]) for text in table["text"].to_pylist()]
        file = Path(scratch) / "texts.json"
        file.write_text(json.dumps(texts))
        bare, bare_cpu, load = least(repeats, lambda: bare_pipe(file, workers, "as spaCy loads it"))
        tuned, tuned_cpu, _ = least(repeats, lambda: bare_pipe(file, workers, "tuned"))
        alone, _, _, alone_stages = least(repeats, lambda: build(source, one, 1, flags))
        same = all(read(run, table) == read(one, table) for table in ("parses", "negatives", "rejections"))
        (augmenter,) = least(repeats, lambda: (-_printed(AUGMENTER, str(file)),))
        (one_sentence,) = least(3, lambda: (_printed(ONE_SENTENCE),))
        step = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.steps", str(one)], capture_output=True, text=True, check=True
        )
        size = sum(path.stat().st_size for path in run.rglob("*.parquet"))
    rows = [
        ("captions", f"{len(texts):,}  ({source})"),
        (
            f"bare nlp.pipe, {workers} processes",
            f"{bare:.2f} s, {len(texts) / bare:,.0f} captions/s; loading {load:.2f} s before",
        ),
        (f"build, {workers} workers, process start to end", f"{built:.2f} s, {len(texts) / built:,.0f} captions/s"),
        ("build ÷ bare nlp.pipe", f"{built / bare:.2f}  (÷ with loading: {built / (bare + load):.2f})"),
        ("the same in CPU seconds, with loading", f"{built_cpu / bare_cpu:.2f}  ({built_cpu:.1f} ÷ {bare_cpu:.1f})"),
        ("build ÷ nlp.pipe as negcap loads the parser", f"{built / tuned:.2f}  ({tuned:.2f} s; CPU {tuned_cpu:.1f} s)"),
        ("stages, seconds", "  ".join(f"{name} {seconds:.2f}" for name, seconds in stages.items())),
        ("negatives alone, 1 worker", f"{len(texts) / alone_stages['negatives']:,.0f} captions/s"),
        (f"{workers} workers ÷ 1, parse + lexicon + negatives", f"{_work(alone_stages) / _work(stages):.2f}"),
        (f"{workers} workers ÷ 1, process start to end", f"{alone / built:.2f}"),
        ("peak memory of a worker", f"{peak / 2**20:,.0f} MiB"),
        ("size of the run", f"{size / 2**20:,.1f} MiB"),
        ("the same bytes from 1 and more workers", "yes" if same else "NO"),
        ("negcap.Augmenter(n=4), batches of 128, 1 process", f"{-augmenter:,.0f} captions/s"),
        ("negcap.negatives of a sentence, after import", f"{one_sentence:.2f} s"),
        ("a training step of UniVSE ÷ VSE++'s, joint 1,024", step.stdout.strip()),
        ("negcap --help", f"{help_seconds():.3f} s"),
    ]
    for name, value in rows:
        print(f"{name:<48} {value}")


def _default() -> str:
    real = DATA / "flickr8k" / "dev_caps.txt"
    return str(real if real.is_file() else sample.path())


def _work(stages: dict[str, float]) -> float:
    return sum(seconds for name, seconds in stages.items() if name != "ingest")


def least(repeats: int, measure: Callable[[], tuple]) -> tuple:
    """Measure `repeats` times; return the measurement whose first number is smallest."""
    return min((measure() for _ in range(repeats)), key=lambda measured: measured[0])


def build(source: str, run: Path, workers: int, flags: list[str]) -> tuple[float, float, int, dict[str, float]]:
    """Wall and CPU seconds of a `negcap build` from scratch, a worker's peak memory in bytes, seconds per stage."""
    shutil.rmtree(run, ignore_errors=True)
    command = [*NEGCAP, "build", source, "--output", str(run), "--workers", str(workers), *flags]
    began, cpu = time.perf_counter(), _cpu_seconds()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peaks: dict[int, int] = {}
    watch = threading.Thread(target=_watch, args=(process, peaks))
    watch.start()
    _, said = process.communicate()
    seconds = time.perf_counter() - began
    watch.join()
    if process.returncode:
        raise SystemExit(said)
    stages = {}
    for line in said.splitlines():
        name, _, rest = line.partition(": ")
        if found := re.match(r"[0-9,]+ [a-z]+ in ([0-9.]+) s", rest):
            stages[name] = float(found[1])
    return seconds, _cpu_seconds() - cpu, max(peaks.values(), default=0), stages


def _watch(process: subprocess.Popen, peaks: dict[int, int]) -> None:
    """Record in `peaks`, by pid, each child's peak resident memory in bytes (VmHWM) until the process ends."""
    while process.poll() is None:
        try:
            for child in psutil.Process(process.pid).children(recursive=True):
                for line in Path(f"/proc/{child.pid}/status").read_text().splitlines():
                    if line.startswith("VmHWM:"):
                        peaks[child.pid] = max(peaks.get(child.pid, 0), int(line.split()[1]) * 1024)
        except (psutil.NoSuchProcess, OSError):
            pass
        time.sleep(0.05)


def _cpu_seconds() -> float:
    """CPU seconds of all terminated child processes and their descendants."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bare_pipe(texts: Path, processes: int, loaded: str) -> tuple[float, float, float]:
    """nlp.pipe over all texts, distributed over processes: wall seconds after loading, CPU seconds, load seconds.

    loaded: "tuned" to load the parser as negcap does, else as spaCy does.
    """
    cpu = _cpu_seconds()
    command = [sys.executable, "-c", BARE, str(texts)]
    started = [
        subprocess.Popen(
            [*command, str(i), str(processes), loaded], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for i in range(processes)
    ]
    loading = max(float(process.stdout.readline()) for process in started if process.stdout)
    began = time.perf_counter()
    for process in started:  # all at once
        if process.stdin:
            process.stdin.write("\n")
            process.stdin.flush()
    for process in started:
        process.communicate()
    return time.perf_counter() - began, _cpu_seconds() - cpu, loading


def read(run: Path, table: str) -> list[bytes]:
    """The contents of a table's shard files, in order."""
    return [path.read_bytes() for path in sorted((run / table).glob("*.parquet"))]


def _printed(code: str, *arguments: str) -> float:
    """The number that a new Python process prints when it runs `code`."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    return float(done.stdout)


def help_seconds() -> float:
    """Seconds of `negcap --help`, the shortest of five runs."""

    def once() -> tuple[float]:
        began = time.perf_counter()
        subprocess.run([*NEGCAP, "--help"], check=True, stdout=subprocess.DEVNULL)
        return (time.perf_counter() - began,)

    return least(5, once)[0]


if __name__ == "__main__":
    main()
