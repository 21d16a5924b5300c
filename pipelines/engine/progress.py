"""Show the progress of stages on stderr, and record how long they took.

How fast each shard was made is a line of JSON in `RUN/_statistics/<stage>.jsonl`. These files hold times, so that no
two runs have the same; everything else of a run is the same byte for byte.
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
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TextIO

from .storage import names, write_atomically

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

LINE_SECONDS = 5
RATED_SECONDS = 1  # what takes less has no rate: the time is mostly that of starting
STATISTICS = "_statistics"
KILOBYTE = 1 if sys.platform == "darwin" else 1024  # in which the system counts the memory of a process


@dataclass(frozen=True)
class Timing:
    """How long a stage took.

    captions: how many captions (or other units) were processed in `seconds` of wall time. shards: shards (or other
    steps) made. reused: shards that were up to date already. unit: what `captions` counts.
    """

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
        reused = f", {self.reused:,} shards were up to date" if self.reused else ""
        rate = f" ({self.rate:,.0f}/s)" if self.rate else ""
        return f"{self.stage}: {self.captions:,} {self.unit} in {self.seconds:.1f} s{rate}{reused}"


def report(quiet: bool = False, stream: TextIO | None = None) -> Progress:
    """A progress display: bars on a terminal, lines elsewhere, nothing if `quiet`. All three record `timings`.

    stream: where to print; None: stderr.
    """
    stream = stream or sys.stderr
    return Progress() if quiet else Bars(stream) if stream.isatty() else Lines(stream)


@contextmanager
def in_progress(
    progress: Progress, stage: str, total: int | None, reused: int = 0, unit: str = "captions"
) -> Iterator[None]:
    """Report a stage while the block runs: `begin`, then `end` if the block succeeds, `fail` if it raises."""
    progress.begin(stage, total, reused, unit)
    try:
        yield
    except BaseException:
        progress.fail()
        raise
    progress.end()


class Progress:
    """Records how long stages took, and prints nothing: the base of the displays.

    Its methods are called in this order: `begin`, any number of `advance`, then `end` or `fail`.
    """

    def __init__(self) -> None:
        """Start without timings; each successful stage adds one to `timings`."""
        self.timings: list[Timing] = []
        self._stage, self._total, self._reused, self._unit = "", 0, 0, "captions"
        self._steps, self._captions = 0.0, 0
        self._began = 0.0

    def begin(self, stage: str, total: int | None, reused: int = 0, unit: str = "captions") -> None:
        """Begin a stage and its timing.

        total: its number of steps (usually shards); None if unknown. reused: steps already done by an earlier run.
        unit: what `advance` counts.
        """
        self._stage, self._total, self._reused, self._unit = stage, total or 0, reused, unit
        self._steps, self._captions = 0.0, 0
        self._began = time.perf_counter()

    def advance(self, captions: int, steps: float = 1) -> None:
        """Add captions (or other units) and steps, possibly a fraction of a step, to those done."""
        self._captions += captions
        self._steps += steps

    def end(self) -> None:
        """End a stage that was successful: add it to `timings`."""
        seconds = time.perf_counter() - self._began if self._steps else 0.0
        self.timings.append(Timing(self._stage, self._captions, seconds, round(self._steps), self._reused, self._unit))

    def fail(self) -> None:
        """End a stage that raised an error; the error itself is reported elsewhere."""


class Lines(Progress):
    """Prints one line per finished stage, and a line every 5 seconds during a long one."""

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`."""
        super().__init__()
        self._stream = stream
        self._printed = 0.0

    def begin(self, stage: str, total: int | None, reused: int = 0, unit: str = "captions") -> None:
        """Begin a stage and its timing."""
        super().begin(stage, total, reused, unit)
        self._printed = self._began

    def advance(self, captions: int, steps: float = 1) -> None:
        """Add to what is done; print a line if the last one is at least 5 seconds old."""
        super().advance(captions, steps)
        now = time.perf_counter()
        if now - self._printed >= LINE_SECONDS:
            self._printed = now
            share = f"{(self._steps + self._reused) / self._total:.0%}, " if self._total else ""
            rate = self._captions / (now - self._began)
            self._print(f"{self._stage}: {share}{self._captions:,} {self._unit} ({rate:,.0f}/s)")

    def end(self) -> None:
        """End a successful stage and print its line."""
        super().end()
        self._print(str(self.timings[-1]))

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class Bars(Lines):
    """Draws a bar per stage with the share and number of captions done, captions per second and the time left."""

    _rich: RichProgress | None = None

    def begin(self, stage: str, total: int | None, reused: int = 0, unit: str = "captions") -> None:
        """Begin a stage and draw its bar."""
        from rich import progress as widgets
        from rich.console import Console

        super().begin(stage, total, reused, unit)
        self._rich = widgets.Progress(
            widgets.TextColumn("{task.description:<10}"),
            widgets.BarColumn(),
            widgets.TaskProgressColumn(),
            widgets.TextColumn(f"{{task.fields[captions]:>9,}} {unit} {{task.fields[rate]:>7,.0f}}/s"),
            widgets.TimeRemainingColumn(),
            console=Console(file=self._stream),
            transient=True,
        )
        self._rich.add_task(stage, total=total, completed=reused, captions=0, rate=0.0)
        self._rich.start()

    def advance(self, captions: int, steps: float = 1) -> None:
        """Add to what is done, and redraw the bar."""
        Progress.advance(self, captions, steps)
        if self._rich is not None:
            rate = self._captions / max(1e-9, time.perf_counter() - self._began)
            self._rich.update(self._rich.task_ids[0], advance=steps, captions=self._captions, rate=rate)

    def end(self) -> None:
        """End a successful stage: replace the bar by a line."""
        self.fail()
        super().end()

    def fail(self) -> None:
        """End a failed stage: remove the bar."""
        if self._rich is not None:
            self._rich.stop()
            self._rich = None


class Reports:
    """Counts what calls report to have done so far, each thing once.

    A report states the total of its call, since a call whose worker died starts again; it may come late, or from any
    thread.
    """

    def __init__(self, advance: Callable[[int, int], None]) -> None:
        """advance: called with the position of a call and how much of it is new, never in two threads at once."""
        self._advance, self._lock = advance, Lock()
        self._done: dict[int, int] = {}
        self.begun: Counter[int] = Counter()  # how often each call has reported that it has done nothing so far

    def __call__(self, call: int, done: int) -> None:
        """Take note that a call has done so much so far."""
        with self._lock:
            self.begun[call] += done == 0
            new = done - self._done.get(call, 0)
            if new > 0:
                self._done[call] = done
                self._advance(call, new)


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
    seconds = round(time.perf_counter() - began, 3), round(time.process_time() - cpu, 3)
    return made, Measured(shard, f"{platform.node()}:{os.getpid()}", 0, *seconds, memory)


def with_counts(line: Measured, counts: Mapping[str, int], retries: int) -> Measured:
    """A measurement with the captions and refused candidates of its shard, taken from the counters of the stage."""
    refused: Counter[str] = Counter()
    for name, count in counts.items():
        if name.startswith("rejected."):
            refused[name.rpartition(".")[2]] += count
    return replace(line, captions=counts.get("captions", 0), refused=dict(sorted(refused.items())), retries=retries)


def read_statistics(run: Path, stage: str) -> list[Measured]:
    """The lines of a stage, sorted by shard; those that cannot be read are left out."""
    lines = []
    with suppress(OSError, UnicodeDecodeError):
        for text in (run / STATISTICS / f"{stage}.jsonl").read_text("utf-8").splitlines():
            with suppress(ValueError, TypeError):
                lines.append(Measured(**json.loads(text)))
    return lines


def write_statistics(run: Path, stage: str, new: Sequence[Measured]) -> None:
    """Add lines to those of a stage, in place of older ones of the same shards. A full disk is left to others."""
    lines = {line.shard: line for line in (*read_statistics(run, stage), *new)}
    text = "".join(json.dumps(asdict(lines[shard])) + "\n" for shard in sorted(lines))
    with suppress(OSError):
        (run / STATISTICS).mkdir(exist_ok=True)
        write_atomically(run / STATISTICS / f"{stage}.jsonl", text.encode())


def measured_stages(run: Path) -> list[str]:
    """The stages of a run that have statistics."""
    return sorted(name.removesuffix(".jsonl") for name in names(run / STATISTICS) if name.endswith(".jsonl"))
