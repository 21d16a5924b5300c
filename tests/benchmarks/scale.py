"""`make scale`: does memory stay flat, and speed the same, when a source is ten times as large?

Two sources of one caption an image, SMALL and LARGE records (default 200,000 and 2,000,000), are ingested by
BENCH_WORKERS worker processes (default 2); with --build, two of 5,000 and 50,000 are built whole. The records are made
up: keys and URLs are numbers, captions are drawn from 20,000 of the scene grammar (negcap.pipelines.scenes), so they
are shorter, more alike and cleaner than those of the web. They lie in Parquet files of 10,000 (--build: 1,000) records
with the columns of img2dataset; the shards of ingest are as large. (With the usual, smaller shards the driver takes 55
MB more once there are more than 1,000, since their manifest is a Parquet file then, however many there are.)

Printed are, for each: records, wall seconds, CPU seconds of all processes together, records per CPU second (the speed
of a core) beyond the CPU seconds that ten records take (to start processes, to import), and the peaks of the resident
memory of the driver and of the largest worker; then the ratios large : small. What is small is measured twice.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from negcap.pipelines.scenes.captions import captions as of_scene
from negcap.pipelines.scenes.world import compose
from tests.benchmarks.bench import NEGCAP, spend

WORKERS = os.environ.get("BENCH_WORKERS", "2")
POOL = 20_000
REPEATS = 2  # of small sources, whose times vary: the fastest counts
FEW = 10  # records, each in a file of its own: what a command costs besides them


def main() -> None:
    """Measure a small and a large source, and print both and their ratios."""
    os.environ["OMP_NUM_THREADS"] = "1"
    sizes, whole = [int(word) for word in sys.argv[1:] if word != "--build"], "--build" in sys.argv
    small, large = sizes or ((5_000, 50_000) if whole else (200_000, 2_000_000))
    file_rows = 1_000 if whole else 10_000
    texts = captions(min(POOL, large))
    verb = ["build"]
    if not whole:
        verb += ["--only", "ingest", "--keep-columns", "url,key", "--set", f"shard_size={file_rows}"]
    with tempfile.TemporaryDirectory() as scratch:

        def best(records: int, alone: float) -> tuple[float, float, float]:
            source = write(Path(scratch, f"source-{records}"), records, file_rows if records > FEW else 1, texts)
            command = [*NEGCAP, *verb, str(source), "--output", f"{scratch}/run", "--workers", WORKERS, "--quiet"]
            tried = []
            for _ in range(1 if records == large else REPEATS):
                shutil.rmtree(f"{scratch}/run", ignore_errors=True)
                tried.append(measure(records, command, alone))
            return (max if alone else min)(tried)

        alone = best(FEW, 0.0)[0]
        found = zip(best(small, alone), best(large, alone), strict=True)
    speed, driver, worker = (of_large / of_small for of_small, of_large in found)
    print(f"ratio: speed of a core {speed:.2f}, driver {driver:.2f}, worker {worker:.2f}")


def captions(count: int) -> list[str]:
    """Captions of random scenes, the same in every run."""
    rng, texts = Random(1), []
    while len(texts) < count:
        texts += of_scene(compose(rng), rng)
    return texts[:count]


def write(folder: Path, records: int, file_rows: int, texts: list[str]) -> Path:
    """Parquet files with made-up records; returns their folder."""
    folder.mkdir()
    for start in range(0, records, file_rows):
        rng = Random(start)
        numbers = range(start, min(start + file_rows, records))
        columns = {
            "url": [f"https://images.example/{number}.jpg" for number in numbers],
            "key": [f"{number:012d}" for number in numbers],
            "caption": rng.choices(texts, k=len(numbers)),
            "status": ["success"] * len(numbers),
        }
        pq.write_table(pa.table(columns), folder / f"{start // file_rows:05d}.parquet")
    return folder


def measure(records: int, command: list[str], alone: float) -> tuple[float, float, float]:
    """Run a command; its speed and the peaks of driver and largest worker in MB, which are printed.

    The speed is in records per CPU second beyond `alone`, those that a command takes for hardly any records; it is
    these seconds themselves if `alone` is 0.
    """
    spent = spend(command)
    speed = records / (spent.cpu - alone) if alone else spent.cpu
    driver, worker = spent.driver / 1e6, spent.worker / 1e6
    beyond = f"{speed:,.0f} per CPU s beyond {alone:.1f}, " if alone else ""
    memory = f"driver {driver:.0f} MB, worker {worker:.0f} MB"
    print(f"{records:,} records: {spent.seconds:.0f} s, {spent.cpu:.1f} CPU s, {beyond}{memory}", flush=True)
    return speed, driver, worker


if __name__ == "__main__":
    main()
