"""Ask an OpenAI-compatible chat endpoint many requests at once; every answer that was paid for is kept on disk."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from ..engine.errors import EngineError, require_libraries
from ..engine.places import local_path
from ..engine.progress import Progress
from ..engine.storage import refuse_link
from .messages import Answer, EndpointConfig, Request, parse_answer, request_key

ONE = (400, 413, 415, 422)  # of HTTP: this request is not accepted; by others the endpoint cannot be used
REFUSALS = 5  # without any answer before them, after which the server counts as refusing everything
AHEAD = 4  # requests that are made before the first is answered, for each that is in flight
_OPEN = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, response BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spent (purpose TEXT PRIMARY KEY, requests INTEGER NOT NULL, tokens INTEGER NOT NULL);
"""
_SPEND = """
INSERT INTO spent VALUES (?1, ?2, ?3)
ON CONFLICT (purpose) DO UPDATE SET requests = requests + ?2, tokens = tokens + ?3
"""


class EndpointError(EngineError):
    """The endpoint cannot be used: it is down, broken or refuses everything. All answers so far are on the disk."""


class Spent(NamedTuple):
    """Requests and tokens that were spent. A request that the server refused (any status but 200) costs nothing."""

    requests: int = 0
    tokens: int = 0


class AnswerCache:
    """Answers by the key of their request, and what was spent by purpose ("propose", "vet" …), in a SQLite file. An
    answer and its price are one transaction, flushed to the disk: it is there and counted, or was not received.
    Thread-safe. Raises ValueError for a file that is no such cache.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._lock = path, threading.Lock()
        try:
            self._database = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
            self._database.executescript(_OPEN)
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path} must be a cache of answers (SQLite), was: {error}") from error

    def get(self, key: str) -> bytes | None:
        """The response to the request with this key (see messages.request_key), as bytes; None if it is not there."""
        with self._lock:
            row = self._database.execute("SELECT response FROM answers WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def spend(self, purpose: str, spent: Spent, key: str = "", response: bytes | None = None) -> None:
        """Count what was spent and, if there is a response, keep it. Raises OSError if the file cannot be written."""
        try:
            with self._lock, self._database:
                self._database.execute("BEGIN IMMEDIATE")
                if response is not None:
                    self._database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, response))
                self._database.execute(_SPEND, (purpose, *spent))
        except sqlite3.OperationalError as error:
            raise OSError(f"{self._path}: cannot be written: {error}") from error

    def spent(self, purpose: str) -> Spent:
        """What has been spent for a purpose since the file was made."""
        with self._lock:
            row = self._database.execute("SELECT requests, tokens FROM spent WHERE purpose = ?", (purpose,)).fetchone()
        return Spent(*row) if row else Spent()

    def close(self) -> None:
        """Close the file."""
        self._database.close()


class Endpoint:
    """A chat endpoint, asked by the library openai (ImportError without it); a context manager. cache: file of the
    answers, shared by processes; purpose: what spending counts under. What a request may cost (one, and
    `Request.tokens`) is reserved before it is sent, so the budget holds with any number in flight; it counts once, also
    if it is sent again or times out.
    """

    def __init__(self, config: EndpointConfig, cache: Path, purpose: str) -> None:
        require_libraries('an endpoint needs the library openai: pip install "negcap[endpoint]"', "openai")
        import openai

        key = os.environ.get(config.key_variable)
        if key and not key.isascii():
            raise ValueError(f"{config.key_variable} must be an API key, in ASCII, was not")
        self._config, self._cache, self._purpose = config, AnswerCache(cache), purpose
        self._changed, self._stopping = threading.Condition(), threading.Event()
        self._reserved = Spent()
        self._answered = self._refused = 0
        self._headers: Any = {} if key else {"Authorization": openai.Omit()}
        self._client = openai.OpenAI(
            base_url=config.url,
            api_key=key or "none",  # the library insists on one, servers need not
            max_retries=config.attempts - 1,
            timeout=openai.Timeout(config.timeout, connect=min(30.0, config.timeout)),
        )

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._cache.close()

    @property
    def identity(self) -> dict[str, Any]:
        """What determines the answers beside the requests, as plain JSON: model, url, temperature …"""
        return {name: getattr(self._config, name) for name in ("model", "url", "temperature", "seed", "extra")}

    @property
    def spent(self) -> Spent:
        """What has been spent for this purpose since the cache was made."""
        return self._cache.spent(self._purpose)

    def ask(self, requests: Iterable[Request]) -> Iterator[Answer]:
        """Yield the answer to each request, in order. Cached ones cost nothing; equal requests are sent once; failures
        that may pass (no connection, timeout, HTTP 408, 409, 429, 5xx) are tried again after growing waits or
        Retry-After. Raises EndpointError when `attempts` were in vain or the server refuses everything. Then, or if the
        caller stops, no new request is sent, and answers that still come are kept.
        """
        self._stopping.clear()
        futures: dict[str, Future[Answer | None]] = {}
        waiting: deque[Future[Answer | None]] = deque()
        threads = ThreadPoolExecutor(self._config.concurrency, "endpoint")
        try:
            for request in requests:
                body = request.body(self._config)
                key = request_key(self._config, body)
                if key not in futures:
                    futures[key] = threads.submit(self._answer, key, body, request.tokens(self._config))
                waiting.append(futures[key])
                while len(waiting) > AHEAD * self._config.concurrency:
                    yield from filter(None, [waiting.popleft().result()])  # None if another stops all
            while waiting:
                yield from filter(None, [waiting.popleft().result()])  # None if another stops all
        finally:
            self._stopping.set()
            threads.shutdown(wait=True, cancel_futures=True)

    def _answer(self, key: str, body: bytes, tokens: int) -> Answer | None:
        """The answer to a request, which is kept and counted; None if another one stops all."""
        if (kept := self._cache.get(key)) is not None:
            return parse_answer(kept, cached=True)
        if not self._reserve(tokens):
            return None if self._stopping.is_set() else Answer("budget", detail="the budget is spent")
        try:
            return self._send(key, json.loads(body), tokens)
        except BaseException:
            self._stopping.set()  # before another thread begins a request
            raise
        finally:
            with self._changed:
                self._reserved = Spent(self._reserved.requests - 1, self._reserved.tokens - tokens)
                self._changed.notify_all()

    def _send(self, key: str, value: dict[str, Any], tokens: int) -> Answer:
        """Ask; count the cost and keep the answer. Raises EndpointError."""
        import openai

        url, model, messages = self._config.chat_url, value.pop("model", ""), value.pop("messages")
        create = self._client.chat.completions.with_raw_response.create
        cost, response = Spent(), None
        try:
            data = create(model=model, messages=messages, extra_body=value, extra_headers=self._headers).content
            cost = Spent(1, tokens)
            answer, response = parse_answer(data), data
            cost = Spent(1, tokens if answer.tokens is None else answer.tokens)
            self._answered += 1
            return answer
        except ValueError as error:
            why = str(error)
        except openai.APITimeoutError:
            cost = Spent(1, tokens)
            raise EndpointError(f"{url}: no answer within {self._config.timeout:g} s, at any attempt") from None
        except openai.APIConnectionError as error:
            raise EndpointError(f"{url}: no connection, at any attempt: {error.__cause__}") from None
        except openai.APIStatusError as error:
            said = " ".join(error.response.text[:200].split())
            why = f"HTTP {error.status_code} {error.response.reason_phrase}".rstrip() + (f": {said}" if said else "")
            if error.status_code not in ONE:
                raise EndpointError(f"{url}: {why}") from None
        finally:
            if cost.requests:
                self._cache.spend(self._purpose, cost, key, response)
        self._refused += 1
        if not self._answered and self._refused >= REFUSALS:
            raise EndpointError(f"{url}: refuses every request: {why}")
        return Answer("refused", detail=why)

    def _reserve(self, tokens: int) -> bool:
        """Reserve what an attempt may cost, once it fits; False if the budget never allows it, or no more is sent."""
        with self._changed:
            while not (fits := self._fits(tokens)) and self._reserved.requests:
                self._changed.wait()  # for what others have reserved and may give back
            if self._stopping.is_set() or not fits:
                return False
            self._reserved = Spent(self._reserved.requests + 1, self._reserved.tokens + tokens)
            return True

    def _fits(self, tokens: int) -> bool:
        used = zip(self.spent, self._reserved, (1, tokens), strict=True)
        limits = (self._config.max_requests, self._config.max_total_tokens)
        return all(limit is None or sum(some) <= limit for limit, some in zip(limits, used, strict=True))


class Answers(NamedTuple):
    """The answers in order, their hash, counts (answered, refused, not_asked, cached), and what this call spent."""

    answers: tuple[Answer, ...]
    sha256: str
    counts: dict[str, int]
    spent: Spent


def cache_path(run: Path) -> Path:
    """The cache of answers in a run's folder. Raises ValueError for a run on a store, since a database needs a local
    disk, and for a link.
    """
    folder = refuse_link(local_path(run, "the cache of answers (--set cache=FILE)") / "_answers")
    return refuse_link(folder / "answers.sqlite")


def collect(name: str, endpoint: Endpoint, requests: Iterable[Request], progress: Progress, total: int) -> Answers:
    """Ask all `total` requests of the stage `name`. Raises EndpointError as `Endpoint.ask`; answers until then stay."""
    before, answers = endpoint.spent, []
    digest, counts = sha256(), Counter({"answered": 0, "refused": 0, "not_asked": 0, "cached": 0})
    with progress.stage(name, total, unit="requests"):
        for answer in endpoint.ask(requests):
            answers.append(answer)
            digest.update(repr((answer.status, answer.text, answer.detail, answer.model, answer.fingerprint)).encode())
            counts["not_asked" if answer.status == "budget" else answer.status] += 1
            counts["cached"] += answer.cached
            progress.advance(1)
    spent = Spent(endpoint.spent.requests - before.requests, endpoint.spent.tokens - before.tokens)
    return Answers(tuple(answers), digest.hexdigest(), dict(counts), spent)
