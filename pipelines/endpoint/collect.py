"""Ask all requests of a stage, with progress, and say what the answers were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from ..engine.places import local_path
from ..engine.progress import Progress, in_progress
from .cache import Spent
from .messages import Answer, Request

CACHE = "_answers"  # folder of a run


class Asker(Protocol):
    """A language model behind an endpoint, or a local one."""

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[int, Answer]]:
        """Yield (position of the request, Answer), in any order."""
        ...

    @property
    def spent(self) -> Spent:
        """What has been spent for this purpose, earlier calls included."""
        ...


@dataclass(frozen=True)
class Answers:
    """The answers in the order of their requests, and a hash of them.

    counts: answered, refused, not_asked (the budget was spent), cached. spent: in this call.
    """

    answers: tuple[Answer, ...]
    sha256: str
    counts: dict[str, int]
    spent: Spent


def cache_path(run: Path) -> Path:
    """The cache of answers in a run's folder; it outlives the tables that are made of it.

    Raises ValueError for a run on a store: a database needs a local disk.
    """
    return local_path(run, "the cache of answers (--cache)") / CACHE / "answers.sqlite"


def collect(
    name: str, asker: Asker, requests: Iterable[Request], progress: Progress, total: int | None = None
) -> Answers:
    """Ask all requests of a stage, showing progress; returns the answers in the order of the requests.

    name: of the stage, for the progress display. total: the number of requests, which are then made as they are sent
    (those with images are large); None: they are counted, in memory. Raises EndpointError when the endpoint is down,
    broken or refuses everything; the answers until then are kept.
    """
    if total is None:
        requests = list(requests)
        total = len(requests)
    before = asker.spent
    found: dict[int, Answer] = {}
    with in_progress(progress, name, total, unit="requests"):
        for position, answer in asker.ask(requests):
            found[position] = answer
            progress.advance(1)
    answers = tuple(found[position] for position in range(total))
    digest = sha256()
    for answer in answers:
        digest.update(repr((answer.status, answer.text, answer.detail, answer.model, answer.fingerprint)).encode())
    counts = Counter({"answered": 0, "refused": 0, "not_asked": 0, "cached": 0})
    for answer in answers:
        counts[{"budget": "not_asked"}.get(answer.status, answer.status)] += 1
        counts["cached"] += answer.cached
    spent = Spent(asker.spent.requests - before.requests, asker.spent.tokens - before.tokens)
    return Answers(answers, digest.hexdigest(), dict(counts), spent)
