"""Show the progress of stages on stderr, and record how long each took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from .stage import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

LINE_SECONDS = 5
RATED_SECONDS = 1  # what takes less has no rate: the time is mostly that of starting


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


def report(quiet: bool = False, stream: TextIO | None = None) -> Silent:
    """A progress display: bars on a terminal, lines elsewhere, nothing if `quiet`. All three record `timings`.

    stream: where to print; None: stderr.
    """
    stream = stream or sys.stderr
    return Silent() if quiet else Bars(stream) if stream.isatty() else Lines(stream)


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


class Silent:
    """Records timings and prints nothing."""

    def __init__(self) -> None:
        """Start without timings; each successful stage adds one to `timings`."""
        self.timings: list[Timing] = []
        self._stage, self._total, self._reused, self._unit = "", 0, 0, "captions"
        self._steps, self._captions = 0.0, 0
        self._began = 0.0

    def begin(self, stage: str, total: int | None, reused: int = 0, unit: str = "captions") -> None:
        """Begin a stage (see engine.stage.Progress) and its timing."""
        self._stage, self._total, self._reused, self._unit = stage, total or 0, reused, unit
        self._steps, self._captions = 0.0, 0
        self._began = time.perf_counter()

    def advance(self, captions: int, steps: float = 1) -> None:
        """Add captions (or other units) and steps to those done."""
        self._captions += captions
        self._steps += steps

    def end(self) -> None:
        """End a successful stage: add it to `timings`."""
        seconds = time.perf_counter() - self._began if self._steps else 0.0
        self.timings.append(Timing(self._stage, self._captions, seconds, round(self._steps), self._reused, self._unit))

    def fail(self) -> None:
        """End a failed stage; it is not added to `timings`."""


def line(timing: Timing) -> str:
    """A finished stage in one line: `parse: 5,000 captions in 2.1 s (2,381/s)`, or `parse: up to date`.

    What took less than a second has no rate.
    """
    if not timing.shards:
        return f"{timing.stage}: up to date"
    reused = f", {timing.reused:,} shards were up to date" if timing.reused else ""
    rate = f" ({timing.rate:,.0f}/s)" if timing.rate else ""
    return f"{timing.stage}: {timing.captions:,} {timing.unit} in {timing.seconds:.1f} s{rate}{reused}"


class Lines(Silent):
    """Prints one line per finished stage, and a line every 5 seconds during a long one."""

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`."""
        super().__init__()
        self._stream = stream
        self._printed = 0.0

    def begin(self, stage: str, total: int | None, reused: int = 0, unit: str = "captions") -> None:
        """Begin a stage and its timing; what the arguments mean, engine.stage.Progress says."""
        super().begin(stage, total, reused, unit)
        self._printed = self._began

    def advance(self, captions: int, steps: float = 1) -> None:
        """Add captions (or other units) and steps to those done; print a line if the last one is at least 5 seconds
        old.
        """
        super().advance(captions, steps)
        now = time.perf_counter()
        if now - self._printed >= LINE_SECONDS:
            self._printed = now
            share = f"{(self._steps + self._reused) / self._total:.0%}, " if self._total else ""
            rate = self._captions / (now - self._began)
            done = f"{self._captions:,} {self._unit} ({rate:,.0f}/s)"
            print(f"{self._stage}: {share}{done}", file=self._stream, flush=True)

    def end(self) -> None:
        """End a successful stage and print its line."""
        super().end()
        print(line(self.timings[-1]), file=self._stream, flush=True)


class Bars(Silent):
    """Draws a bar per stage with the share and number of captions done, captions per second and the time left."""

    def __init__(self, stream: TextIO) -> None:
        """Draw on `stream`."""
        super().__init__()
        self._stream = stream
        self._rich: RichProgress | None = None

    def begin(self, stage: str, total: int | None, reused: int = 0, unit: str = "captions") -> None:
        """Begin a stage (see engine.stage.Progress) and draw its bar."""
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
        """Add captions (or other units) and steps to those done, and redraw the bar."""
        super().advance(captions, steps)
        if self._rich is not None:
            rate = self._captions / (time.perf_counter() - self._began)
            self._rich.update(self._rich.task_ids[0], advance=steps, captions=self._captions, rate=rate)

    def end(self) -> None:
        """End a successful stage: replace the bar by a line."""
        super().end()
        self._remove()
        print(line(self.timings[-1]), file=self._stream, flush=True)

    def fail(self) -> None:
        """End a failed stage: remove the bar."""
        self._remove()

    def _remove(self) -> None:
        """Remove the bar from the terminal."""
        if self._rich is not None:
            self._rich.stop()
            self._rich = None
