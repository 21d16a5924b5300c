"""Reports of how many captions a running call has done, sent from its worker to the main process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, Any

from .stage import Progress

if TYPE_CHECKING:
    from distributed import Client

OnReport = Callable[[int, int], None]  # (position of a call, captions it has done so far)
TOPIC = "negcap-progress"
_report: ContextVar[Callable[[int], None]] = ContextVar("report", default=lambda done: None)


def report_done(done: int) -> None:
    """Report, from within a call of an executor's `map`, how many captions it has done so far."""
    _report.get()(done)


@contextmanager
def reporting_to(listener: Callable[[int], None]) -> Iterator[None]:
    """Send what `report_done` gets in this thread to `listener`, until the block ends."""
    token = _report.set(listener)
    try:
        yield
    finally:
        _report.reset(token)


def reporting(sender: str, position: int, function: Callable[..., Any], *call: Any) -> Any:
    """Return function(*call) in a Dask worker; its reports become events of the scheduler, marked with `sender`."""
    from distributed import get_worker

    worker = get_worker()
    with reporting_to(lambda done: worker.log_event(TOPIC, (sender, position, done))):
        return function(*call)


@contextmanager
def listening(client: Client, sender: str, on_report: OnReport) -> Iterator[None]:
    """Until the block ends, call `on_report`, in a thread of the client, with the reports marked with `sender`."""

    def receive(event: tuple[Any, tuple[str, int, int]]) -> None:
        _, (to, position, done) = event
        if to == sender:
            on_report(position, done)

    client.subscribe_topic(TOPIC, receive)
    try:
        yield
    finally:
        if client.status == "running":
            client.unsubscribe_topic(TOPIC)


class ShardProgress:
    """Turns the reports of calls, each of which makes one shard, into progress; every caption is counted once.

    A report states the total that a call has done so far, since a call whose worker died starts again, and reports may
    arrive late.
    """

    def __init__(self, progress: Progress, captions: Sequence[int]) -> None:
        """captions: the number of captions in the shard of each call."""
        self._progress, self._captions = progress, captions
        self._done = [0] * len(captions)
        self._begun = [0] * len(captions)
        self._open = set(range(len(captions)))
        self._lock = Lock()

    def reported(self, position: int, done: int) -> None:
        """Take a report: call `position` has done `done` captions so far, or, with 0, begins. From any thread."""
        with self._lock:
            self._begun[position] += done == 0
            new = done - self._done[position]
            if position in self._open and 0 < new and done < self._captions[position]:
                self._done[position] = done
                self._progress.advance(new, new / self._captions[position])

    def finished(self, position: int, captions: int) -> None:
        """Take note that a call has finished with `captions` in all, which may be fewer than it reported."""
        with self._lock:
            self._open.discard(position)
            part = self._done[position] / self._captions[position] if self._done[position] else 0
            self._progress.advance(captions - self._done[position], 1 - part)

    def retries(self, position: int) -> int:
        """How often a call has begun anew, since its worker died."""
        with self._lock:
            return max(0, self._begun[position] - 1)

    def close(self) -> None:
        """Ignore all further reports."""
        with self._lock:
            self._open.clear()
