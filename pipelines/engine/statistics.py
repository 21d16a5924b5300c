"""How fast the shards of a stage were made: a line of JSON for each, in `RUN/_statistics/<stage>.jsonl`.

These files hold times, so that no two runs have the same; everything else of a run is the same byte for byte.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from .storage import names, write_atomically

FOLDER = "_statistics"
KILOBYTE = 1 if sys.platform == "darwin" else 1024  # in which the system counts the memory of a process


@dataclass(frozen=True)
class Measured:
    """What making a shard took, on the worker `worker` (host:process).

    captions: seen. refused: candidates, by reason. seconds: of wall time; cpu: of the processor. memory: the most that
    the process has had so far, in bytes. retries: how often it was begun before, by workers that died.
    """

    shard: int
    worker: str
    captions: int
    seconds: float
    cpu: float
    memory: int
    refused: Mapping[str, int] = field(default_factory=dict)
    retries: int = 0


def measured(make: Callable[..., Any], shard: int, *given: Any) -> tuple[Any, Measured]:
    """Call make(*given) in this process; returns its result, and what it took to make the shard."""
    began, cpu = time.perf_counter(), time.process_time()
    made = make(*given)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE
    worker = f"{platform.node()}:{os.getpid()}"
    seconds = round(time.perf_counter() - began, 3), round(time.process_time() - cpu, 3)
    return made, Measured(shard, worker, 0, *seconds, memory)


def with_counts(line: Measured, counts: Mapping[str, int], retries: int) -> Measured:
    """A measurement with what else is known of its shard.

    counts: the counters of the stage (`captions`, `rejected.<reason>` …), from which its captions and refused
    candidates are taken. retries: how often the shard was begun before.
    """
    refused: Counter[str] = Counter()
    for name, count in counts.items():
        if name.startswith("rejected."):
            refused[name.rpartition(".")[2]] += count
    return replace(line, captions=counts.get("captions", 0), refused=dict(sorted(refused.items())), retries=retries)


def read_statistics(run: Path, stage: str) -> list[Measured]:
    """The lines of a stage, sorted by shard; those that cannot be read are left out."""
    lines = []
    with suppress(OSError, UnicodeDecodeError):
        for text in (run / FOLDER / f"{stage}.jsonl").read_text("utf-8").splitlines():
            with suppress(ValueError, TypeError):
                lines.append(Measured(**json.loads(text)))
    return lines


def write_statistics(run: Path, stage: str, new: list[Measured]) -> None:
    """Add lines to those of a stage, in place of older ones of the same shards. A full disk is left to others."""
    if not new:
        return
    lines = {line.shard: line for line in (*read_statistics(run, stage), *new)}
    text = "".join(json.dumps(asdict(lines[shard])) + "\n" for shard in sorted(lines))
    with suppress(OSError):
        (run / FOLDER).mkdir(exist_ok=True)
        write_atomically(run / FOLDER / f"{stage}.jsonl", text.encode())


def measured_stages(run: Path) -> list[str]:
    """The stages of a run that have statistics."""
    return sorted(name.removesuffix(".jsonl") for name in names(run / FOLDER) if name.endswith(".jsonl"))
