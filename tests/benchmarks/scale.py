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
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from random import Random

import psutil

NEGCAP = [sys.executable, "-m", "negcap"]
POOL = 20_000
REPEATS = 2  # of small sources, whose times vary: the fastest counts
FEW = 10  # records, each in a file of its own: what a command costs besides them


def main() -> None:
    """Measure a small and a large source, and print both and their ratios."""
    arguments = [word for word in sys.argv[1:] if word != "--build"]
    whole = "--build" in sys.argv
    small, large = (
        (int(word) for word in arguments) if arguments else (5_000, 50_000) if whole else (200_000, 2_000_000)
    )
    file_rows = 1_000 if whole else 10_000
    texts = captions(min(POOL, large))
    verb = ["build"] if whole else ["ingest", "--keep-columns", "url,key", "--shard-size", str(file_rows)]
    found = []
    alone = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for records in (FEW, small, large):
            source = write(Path(scratch, f"source-{records}"), records, file_rows if records > FEW else 1, texts)
            command = [*NEGCAP, *verb, str(source), "--output", f"{scratch}/run-{records}"]
            tried = [measure(records, command, alone)]
            while len(tried) < (1 if records == large else REPEATS):
                shutil.rmtree(f"{scratch}/run-{records}")
                tried.append(measure(records, command, alone))
            found.append((max if alone else min)(tried))
            alone = alone or found[0][0]
            found = found if records > FEW else []
    print(f"ratio: speed of a core {found[1][0] / found[0][0]:.2f}, driver {found[1][1] / found[0][1]:.2f}, "
          f"worker {found[1][2] / found[0][2]:.2f}")  # fmt: skip


def captions(count: int) -> list[str]:
    """Captions of random scenes, the same in every run."""
    from negcap.pipelines.scenes.captions import captions as of_scene
    from negcap.pipelines.scenes.world import compose

    rng, texts = Random(1), []
    while len(texts) < count:
        texts += of_scene(compose(rng), rng)
    return texts[:count]


def write(folder: Path, records: int, file_rows: int, texts: list[str]) -> Path:
    """Parquet files with made-up records; returns their folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    began, before = time.perf_counter(), os.times()
    workers = os.environ.get("BENCH_WORKERS", "2")
    process = subprocess.Popen([*command, "--workers", workers, "--quiet"], env=environment, stdout=subprocess.DEVNULL)
    peaks = [0, 0]
    watch = threading.Thread(target=_watch, args=(psutil.Process(process.pid), peaks), daemon=True)
    watch.start()
    if process.wait():
        sys.exit(f"{command} failed")
    watch.join()
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    driver, worker = (peak / 1e6 for peak in peaks)
    speed = records / (cpu - alone) if alone else cpu
    print(f"{records:,} records: {time.perf_counter() - began:.0f} s, {cpu:.1f} CPU s, "
          + (f"{speed:,.0f} per CPU s beyond {alone:.1f}, " if alone else "")
          + f"driver {driver:.0f} MB, worker {worker:.0f} MB", flush=True)  # fmt: skip
    return speed, driver, worker


def _watch(driver: psutil.Process, peaks: list[int]) -> None:
    """Keep the peaks of the memory of a process and of the largest of its children until it ends."""
    while True:
        try:
            peaks[0] = max(peaks[0], driver.memory_info().rss)
            peaks[1] = max([peaks[1], *(child.memory_info().rss for child in driver.children(recursive=True))])
            if driver.status() == psutil.STATUS_ZOMBIE:
                return
        except psutil.NoSuchProcess:
            if not driver.is_running():
                return
        time.sleep(0.05)


if __name__ == "__main__":
    main()
