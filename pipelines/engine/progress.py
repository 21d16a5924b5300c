"""Show the progress of stages on stderr, and record how long they took, each shard by a line of JSON in
`RUN/_statistics/<stage>.jsonl`. These files hold times; everything else of a run is the same byte for byte.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TextIO

from ...schemas.messages import number_of
from .storage import names, write_atomically

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

# Between two lines of a long stage where there is no terminal.
LINE_SECONDS = 5
# What takes less time than this has no rate: the time is mostly that of starting.
RATED_SECONDS = 1
STATISTICS = "_statistics"
KILOBYTE = 1 if sys.platform == "darwin" else 1024  # in which the system counts the memory of a process


@dataclass(frozen=True)
class Timing:
    """How long a stage took: captions (or other units) in `seconds` of wall time; shards (or steps) made, or reused."""

    stage: str
    captions: int
    seconds: float
    shards: int
    reused: int
    unit: str = "captions"

    @property
    def rate(self) -> float:
        """Captions (or other units) per second; 0 of what took less than a second."""
        return self.captions / self.seconds if self.seconds >= RATED_SECONDS else 0.0

    def __str__(self) -> str:
        """A finished stage in one line: `parse: 5,000 captions in 2.1 s (2,381/s)`, or `parse: up to date`."""
        if not self.shards:
            return f"{self.stage}: up to date"
        reused = f", {number_of(self.reused, 'shard')} up to date before" if self.reused else ""
        rate = f" ({self.rate:,.0f}/s)" if self.rate else ""
        done = number_of(self.captions, self.unit.removesuffix("s"))
        return f"{self.stage}: {done} in {self.seconds:.1f} s{rate}{reused}"


def report(quiet: bool = False, stream: TextIO | None = None) -> Progress:
    """A display of progress on a stream (None: stderr), or none if `quiet`. Both record `timings`."""
    return Progress(None if quiet else stream or sys.stderr)


class Progress:
    """Shows how far stages are, and records how long those took that succeeded (`timings`). On a terminal each has a
    bar with share, number, rate and time left; elsewhere a long one prints a line every 5 seconds. A line says what a
    finished one did. stream: None prints nothing.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.timings: list[Timing] = []
        self._stream = stream
        # The rest is of the stage in progress.
        self._bar: Bar | None = None
        self._label = ""
        self._total = 0
        self._reused = 0
        self._unit = "captions"
        self._steps = 0.0
        self._captions = 0
        self._began = self._printed = 0.0

    @contextmanager
    def stage(self, name: str, total: int | None, reused: int = 0, unit: str = "captions") -> Iterator[None]:
        """Time and show a stage, which is done in the block.

        Args:
            name: of the stage.
            total: its steps, usually shards; None: not known.
            reused: how many of them were done before.
            unit: what is counted beside steps, such as captions.
        """
        self._label = name
        self._total = total or 0
        self._reused = reused
        self._unit = unit
        self._steps = 0.0
        self._captions = 0
        self._began = time.perf_counter()
        self._printed = self._began
        terminal = self._stream is not None and self._stream.isatty()
        with self._make_bar(total) if terminal else nullcontext() as self._bar:
            yield
        seconds = time.perf_counter() - self._began if self._steps else 0.0
        self.timings.append(Timing(name, self._captions, seconds, round(self._steps), reused, unit))
        if self._stream is not None:
            print(self.timings[-1], file=self._stream, flush=True)

    def _make_bar(self, total: int | None) -> Bar:
        """A bar for the stage that begins, to be drawn on the terminal. total: its steps; None: not known."""
        from rich import progress
        from rich.console import Console

        bar = progress.Progress(
            progress.TextColumn("{task.description:<10}"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TextColumn(f"{{task.fields[captions]:>9,}} {self._unit} {{task.fields[rate]:>7,.0f}}/s"),
            progress.TimeRemainingColumn(),
            console=Console(file=self._stream),
            transient=True,
        )
        bar.add_task(self._label, total=total, completed=self._reused, captions=0, rate=0.0)
        return bar

    def advance(self, captions: int, steps: float = 1) -> None:
        """Add captions (or other units) and steps, possibly a fraction of a step, to those done, and show it."""
        self._captions += captions
        self._steps += steps
        if self._stream is None:
            return
        now = time.perf_counter()
        rate = self._captions / max(1e-9, now - self._began)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], advance=steps, captions=self._captions, rate=rate)
        elif now - self._printed >= LINE_SECONDS:
            self._printed = now
            share = f"{(self._steps + self._reused) / self._total:.0%}, " if self._total else ""
            line = f"{self._label}: {share}{self._captions:,} {self._unit} ({rate:,.0f}/s)"
            print(line, file=self._stream, flush=True)


class Reports:
    """Turns what calls report, each the total it has done so far, into what is new. A call whose worker died starts
    again from nothing, and a report may come late, from any thread: what was counted before is not counted twice.
    """

    def __init__(self, advance: Callable[[int, int], None]) -> None:
        """`advance` is called with the position of a call and how much of it is newly done, in one thread at a time."""
        self._advance = advance
        self._lock = Lock()
        self._done: Counter[int] = Counter()
        # How often each call has reported that it begins: more than once if its worker died.
        self.begun: Counter[int] = Counter()

    def __call__(self, call: int, done: int) -> None:
        """Take note that a call has done so much so far."""
        with self._lock:
            if done == 0:
                self.begun[call] += 1
            new = done - self._done[call]
            if new > 0:  # not if it begins again, or its report comes late
                self._done[call] = done
                self._advance(call, new)


@dataclass(frozen=True)
class ShardStatistics:
    """What making one shard took. The names are those of the JSON that statistics are kept in.

    Attributes:
        shard: its number.
        worker: who made it, host:process.
        captions: how many captions the stage has seen.
        seconds: wall time.
        cpu: processor time of the worker, in seconds.
        memory: the most that the worker has needed since it started, in bytes.
        refused: refused candidates by reason.
        retries: how often the shard was begun again after its worker had died.
    """

    shard: int
    worker: str
    captions: int
    seconds: float
    cpu: float
    memory: int
    refused: Mapping[str, int] = field(default_factory=dict)
    retries: int = 0


class Stopwatch:
    """Measures what a shard takes, from the moment when it is made."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    def statistics(self, shard: int, counts: Mapping[str, int]) -> ShardStatistics:
        """What it took to make a shard, by number, up to now. counts: the counters of the stage for this shard, of
        which those called `rejected.<operator>.<reason>` are summed by reason.
        """
        refused: Counter[str] = Counter()
        for name, count in counts.items():
            if name.startswith("rejected."):
                refused[name.rpartition(".")[2]] += count
        return ShardStatistics(
            shard=shard,
            worker=f"{platform.node()}:{os.getpid()}",
            captions=counts.get("captions", 0),
            seconds=round(time.perf_counter() - self._wall, 3),
            cpu=round(time.process_time() - self._cpu, 3),
            memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE,
            refused=dict(sorted(refused.items())),
        )


def read_statistics(run: Path, stage: str) -> list[ShardStatistics]:
    """What each shard of a stage took, sorted by shard. Lines of the file that cannot be read are left out."""
    lines = []
    with suppress(OSError, UnicodeDecodeError):
        for text in (run / STATISTICS / f"{stage}.jsonl").read_text("utf-8").splitlines():
            with suppress(ValueError, TypeError, RecursionError):
                lines.append(ShardStatistics(**json.loads(text)))
    return lines


def write_statistics(run: Path, stage: str, new: Sequence[ShardStatistics]) -> None:
    """Add lines to those of a stage, in place of older ones of the same shards. A full disk is left to others."""
    # A later line of a shard replaces an earlier one, as the shard itself was replaced.
    lines = {line.shard: line for line in (*read_statistics(run, stage), *new)}
    text = "".join(json.dumps(asdict(lines[shard])) + "\n" for shard in sorted(lines))
    with suppress(OSError):
        (run / STATISTICS).mkdir(exist_ok=True)
        write_atomically(run / STATISTICS / f"{stage}.jsonl", text.encode())


def measured_stages(run: Path) -> list[str]:
    """The stages of a run that have statistics."""
    return sorted(name.removesuffix(".jsonl") for name in names(run / STATISTICS) if name.endswith(".jsonl"))
