"""Whether the rows of a build depend on the processor: `python -m tests.benchmarks.processors --captions SOURCE`.

Builds captions once for each kernel of OpenBLAS that this machine can run, the last also without NumPy's SIMD paths,
with one or several shard sizes and numbers of workers. A kernel is chosen when a process starts: this one runs the
kernel that it has, and starts another process for each of the others.
Prints a hash of all rows of all tables for each build, and the first value that differs from the first build's.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from negcap.pipelines.cli import main as negcap
from negcap.pipelines.engine.manifest import processor
from negcap.pipelines.engine.tables import read_table
from negcap.pipelines.stages.build import LEXICON_VERBS
from tests.conftest import ROOT, SAMPLE

VERBS = ("parse", *LEXICON_VERBS, "negatives")
TABLES = ("captions", "parses", "lexicon", "truth", "balance", "positives", "rejections", "negatives")
# Many words to choose from, with few captions; what is fitted to them is fitted anew.
OPTIONS = {
    "lexicon": ("--set", "lexicon=reference"), "truth": ("--set", "lexicon=own"), "balance": ("--set", "lexicon=own"),
    "negatives": ("--preset", "all"),
}  # fmt: skip
Shape = tuple[int, int]  # captions a shard, workers


def environments() -> dict[str, dict[str, str]]:
    """For each kernel that this machine can run, the environment variables of a process that runs it; none for that of
    this process.
    """
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    kernels: dict[str, dict[str, str]] = {"Haswell": {}, "SkylakeX": {}}
    if not any(name in ("X86_V4", "AVX512_SKX") for name in found):
        del kernels["SkylakeX"]
    kernels["Nehalem"] = {"NPY_DISABLE_CPU_FEATURES": " ".join(found)}
    made = {
        name: {"OPENBLAS_CORETYPE": name, "PYTHONHASHSEED": str(at), **kernels[name]} for at, name in enumerate(kernels)
    }
    return {processor().get("blas", "unknown"): {}, **made} | {processor().get("blas", "unknown"): {}}


def build(captions: Path, limit: int, folder: Path, shapes: Sequence[Shape]) -> None:
    """Build the first `limit` images in this process once for each shape, into the folders `folder`/SHARD-WORKERS."""
    for size, workers in shapes:
        where = ["--scheduler", "synchronous"] if workers == 1 else ["--workers", str(workers)]
        command = ["--output", str(folder / f"{size}-{workers}"), *where, "--quiet", "--only"]
        sizes = ["--limit", str(limit), "--set", f"shard_size={size}"]
        assert negcap(["build", str(captions), *sizes, *command, "ingest"]) == 0
        for verb in VERBS:
            assert negcap(["build", *OPTIONS.get(verb, ()), *command, verb]) == 0


def build_everywhere(
    captions: Path, limit: int, folder: Path, shapes: Sequence[Shape], others: Sequence[Shape] = (), few: bool = False
) -> dict[str, Path]:
    """Build with every kernel, all at once; the run of each kernel and shape by name.

    others: the shapes of the other kernels than that of this process; empty: the same.
    few: of the other kernels only the last, without SIMD, which is the least like that of this process.
    """
    made: dict[str, Path] = {}
    running = []
    command = "from tests.benchmarks.processors import *; build(Path({!r}), {!r}, Path({!r}), {!r})"
    own, *other_kernels = environments().items()
    for kernel, variables in [own, *(other_kernels[-1:] if few else other_kernels)]:
        wanted = others or shapes if variables else shapes
        made |= {f"{kernel} {size} {workers}": folder / kernel / f"{size}-{workers}" for size, workers in wanted}
        if not variables:
            here = folder / kernel
            continue
        call = [sys.executable, "-c", command.format(str(captions), limit, str(folder / kernel), list(wanted))]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        environment = {**os.environ, "PYTHONPATH": str(ROOT.parent), **variables}
        running.append(subprocess.Popen(call, cwd=ROOT, env=environment, **streams))
    build(captions, limit, here, shapes)
    for process in running:
        output, _ = process.communicate()
        assert process.returncode == 0, output.decode()
    return made


def rows(run: Path, table: str) -> list[dict[str, Any]]:
    """All rows of a table."""
    return [row for part in read_table(run, table) for row in part.to_pylist()]


def differences(one: Path, other: Path) -> Iterator[str]:
    """For each table that differs between two runs, the first row and column that does, with both values."""
    for table in TABLES:
        if pa.concat_tables(read_table(one, table)).equals(pa.concat_tables(read_table(other, table))):
            continue
        pairs = [rows(one, table), rows(other, table)]
        if len(pairs[0]) != len(pairs[1]):
            yield f"{table} has {len(pairs[0])} rows, {len(pairs[1])}"
        found = (
            f"{table} row {number} {column}: {was[column]!r:.80}, {now[column]!r:.80}"
            for number, (was, now) in enumerate(zip(*pairs, strict=False))
            for column in was
            if was[column] != now[column]
        )
        yield from islice(found, 1)


def digest(run: Path) -> str:
    """A hash of all rows of all tables of a run."""
    return hashlib.sha256(repr([rows(run, table) for table in TABLES]).encode()).hexdigest()[:16]


def main() -> None:
    """Print the hashes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path, default=SAMPLE)
    parser.add_argument("--limit", type=int, default=400, help="images")
    parser.add_argument("--shard-size", type=int, nargs="+", default=[1000, 37])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 3])
    given = parser.parse_args()
    shapes = [(size, workers) for size in given.shard_size for workers in given.workers]
    with tempfile.TemporaryDirectory() as folder:
        with redirect_stdout(sys.stderr):  # summaries of builds
            runs = build_everywhere(given.captions.absolute(), given.limit, Path(folder), shapes)
        first = next(iter(runs.values()))
        print(f"{'kernel':10} {'shard':>6} {'workers':>7}  rows")
        for name, run in runs.items():
            kernel, size, workers = name.split()
            print(f"{kernel:10} {size:>6} {workers:>7}  {digest(run)}  {next(differences(first, run), '')}")


if __name__ == "__main__":
    main()
