"""Ask an OpenAI-compatible chat endpoint many requests at once."""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ..engine.errors import EngineError
from .cache import AnswerCache, Budget, Spent
from .config import EndpointConfig
from .messages import Answer, Request, parse_answer, request_key

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

AGAIN = (408, 409, 425, 429)  # and 500 or above: the server may accept the same request later
NEVER = (401, 403, 404, 405)  # and below 400: no request will be accepted (key, path, model)
REFUSALS = 5  # without any answer before them, after which the server counts as refusing everything
MAX_ANSWER = 1 << 25  # bytes of a decompressed response
PIECE = 1 << 16  # bytes that are decompressed at once
MAX_WAIT = 120.0  # seconds between two attempts, whatever the server asks for


class EndpointError(EngineError):
    """The endpoint cannot be used: it is down, broken or refuses everything. All answers so far are on the disk."""


@dataclass(frozen=True)
class _Response:
    """A response; status 0: none came, `why` says what happened instead. spent: whether it may have to be paid."""

    status: int
    data: bytes
    why: str
    spent: bool
    wait: float = 0.0


class Endpoint:
    """A chat endpoint with its cache and budget.

    cache: file of the answers, see AnswerCache; several processes may share it. purpose: what the spending is counted
    under. Use `ask`, then `close`; or as a context manager.
    """

    def __init__(self, config: EndpointConfig, cache: Path, purpose: str) -> None:
        """Open the cache; nothing is sent yet."""
        self.config = config
        self._cache = AnswerCache(cache)
        self._purpose = purpose
        self._budget = Budget(config, self._cache.spent(purpose))
        self._stopping = threading.Event()
        self._paused_until = 0.0
        self._answered = self._refused = 0
        self._pool = _pool(config)

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and the cache."""
        self._pool.clear()
        self._cache.close()

    @property
    def spent(self) -> Spent:
        """What has been spent for this purpose since the cache was made."""
        return self._cache.spent(self._purpose)

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[int, Answer]]:
        """Yield (position of the request, Answer) for every request, in the order in which the answers come.

        Answers in the cache cost nothing; equal requests are sent once. A request that fails for reasons that may pass
        (no connection, timeout, HTTP 429 or 5xx, a response that is not a chat completion) is sent again after growing
        waits, and at the latest after the time that the server asks for (Retry-After). Raises EndpointError in one line
        when `attempts` were in vain, or when the server refuses everything. Then, or if the caller stops, nothing more
        is sent, and the answers that are still coming are kept.
        """
        self._stopping.clear()
        running: dict[Future[Answer | None], list[int]] = {}
        keys: dict[str, Future[Answer | None]] = {}
        threads = ThreadPoolExecutor(self.config.concurrency, "endpoint")
        try:
            for position, key, body, tokens, found in self._cached(requests):
                if found is not None:
                    yield position, found
                    continue
                if key in keys and keys[key] in running:
                    running[keys[key]].append(position)
                    continue
                reserved = False
                while len(running) >= 2 * self.config.concurrency or not (reserved := self._budget.reserve(tokens)):
                    if not running:
                        break
                    yield from _finished(running)
                if not reserved:
                    yield position, Answer("budget", detail="the budget is spent")
                    continue
                keys[key] = threads.submit(self._answer, key, body, tokens)
                running[keys[key]] = [position]
            while running:
                yield from _finished(running)
        finally:
            self._stopping.set()
            threads.shutdown(wait=True, cancel_futures=True)

    def _cached(self, requests: Iterable[Request]) -> Iterator[tuple[int, str, bytes, int, Answer | None]]:
        """Position, key, body, estimated tokens and the answer in the cache, if any, of each request."""
        for position, request in enumerate(requests):
            body = request.body(self.config)
            key = request_key(self.config, body)
            found = self._cache.get(key)
            answer = None if found is None else parse_answer(found, cached=True)
            yield position, key, body, request.tokens(self.config), answer

    def _answer(self, key: str, body: bytes, tokens: int) -> Answer | None:
        """Send a request, for which the budget has a reservation, until it is answered; None if stopped before."""
        try:
            return self._attempts(key, body, tokens)
        except BaseException:
            self._stopping.set()  # before another thread begins a request
            raise

    def _attempts(self, key: str, body: bytes, tokens: int) -> Answer | None:
        why = ""
        for attempt in range(self.config.attempts):
            if attempt and not self._budget.reserve(tokens):
                return Answer("budget", detail=f"the budget is spent; the last attempt: {why}")
            response = self._post(body) if not self._wait() else _Response(0, b"", "stopped", False)
            answer, why = None, response.why
            if response.status == 200:
                try:
                    answer = parse_answer(response.data)
                except ValueError as error:
                    why = str(error)
            spent = Spent()
            if response.spent:
                counted = None if answer is None else answer.tokens
                spent = Spent(1, tokens if counted is None else counted)
                self._cache.spend(self._purpose, spent, key, response.data if answer is not None else None)
            self._budget.settle(tokens, spent)
            if answer is not None:
                self._answered += 1
                return answer
            if self._stopping.is_set():
                return None
            self._refuse(response)
            if 400 <= response.status < 500 and response.status not in AGAIN:
                return Answer("refused", detail=response.why)
            self._pause(attempt, response)
        raise EndpointError(f"{self.config.chat_url}: no answer after {self.config.attempts} attempts; the last: {why}")

    def _post(self, body: bytes) -> _Response:
        """Send a request once."""
        import urllib3

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key := os.environ.get(self.config.key_variable):
            headers["Authorization"] = f"Bearer {key}"
        timeout = urllib3.Timeout(connect=min(30.0, self.config.timeout), read=self.config.timeout)
        url = self.config.chat_url
        try:
            got = self._pool.request(
                "POST", url, body=body, headers=headers, timeout=timeout, retries=False, redirect=False,
                preload_content=False,
            )  # fmt: skip
            data = _read(got)
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            return _Response(0, b"", f"no connection: {_plain(error)}", False)
        except urllib3.exceptions.ReadTimeoutError:
            return _Response(0, b"", f"no answer within {self.config.timeout:g} s", True)
        except urllib3.exceptions.HTTPError as error:
            return _Response(0, b"", f"the connection broke: {_plain(error)}", True)
        if got.status == 200 and len(data) > MAX_ANSWER:
            return _Response(0, b"", f"an answer must have <= {MAX_ANSWER:,} bytes, has more", True)
        if got.status == 200:
            return _Response(200, data, "", True)
        said = " ".join(data[:200].decode("utf-8", "replace").split())
        why = f"HTTP {got.status} {got.reason or ''}".rstrip() + (f": {said}" if said else "")
        return _Response(got.status, b"", why, False, _seconds(got.headers.get("Retry-After")))

    def _refuse(self, response: _Response) -> None:
        """Raise EndpointError if a response says that no request will ever be answered."""
        status = response.status
        if status in NEVER or 0 < status < 400 and status != 200:
            raise EndpointError(f"{self.config.chat_url}: {response.why}")
        if 400 <= status < 500 and status not in AGAIN:
            self._refused += 1
            if not self._answered and self._refused >= REFUSALS:
                raise EndpointError(f"{self.config.chat_url}: refuses every request: {response.why}")
        if response.wait > MAX_WAIT:
            raise EndpointError(f"{self.config.chat_url}: asks to wait {response.wait:.0f} s: {response.why}")

    def _pause(self, attempt: int, response: _Response) -> None:
        """Let this thread wait before its next attempt, and all threads if the server asks for it."""
        if response.wait:
            self._paused_until = max(self._paused_until, time.monotonic() + response.wait)
        delay = min(MAX_WAIT, self.config.backoff * 2**attempt) * random.uniform(0.5, 1)
        if attempt + 1 < self.config.attempts:
            self._stopping.wait(delay)

    def _wait(self) -> bool:
        """Wait as long as the server asked for; returns whether the caller has stopped meanwhile."""
        while not self._stopping.is_set() and (left := self._paused_until - time.monotonic()) > 0:
            self._stopping.wait(left)
        return self._stopping.is_set()


def _finished(running: dict[Future[Answer | None], list[int]]) -> Iterator[tuple[int, Answer]]:
    """Wait for a running request, and take those that are finished out of `running`."""
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        answer = future.result()
        positions = running.pop(future)
        if answer is not None:
            yield from ((position, answer) for position in positions)


def _pool(config: EndpointConfig) -> PoolManager:
    """Connections to the endpoint, through the proxy that the environment names for it, if any."""
    import urllib3

    parts = urlsplit(config.url)
    proxy = None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)
    if proxy:
        return urllib3.ProxyManager(proxy, maxsize=config.concurrency)
    return urllib3.PoolManager(maxsize=config.concurrency)


def _read(response: BaseHTTPResponse) -> bytes:
    """The decompressed body of a response; of one that is longer than MAX_ANSWER, the beginning."""
    found = bytearray()
    while len(found) <= MAX_ANSWER and (piece := response.read(PIECE)):
        found += piece
    if len(found) > MAX_ANSWER:
        response.close()
    response.release_conn()
    return bytes(found)


def _plain(error: Exception) -> str:
    """The last part of an error's message, without the addresses of objects."""
    return str(error).rpartition(": ")[2].strip("()'\" ") or type(error).__name__


def _seconds(header: str | None) -> float:
    """The seconds of a Retry-After header; 0 if there is none or it is not readable."""
    import urllib3

    try:
        asked = urllib3.Retry().parse_retry_after(header) if header else 0.0
    except urllib3.exceptions.InvalidHeader:
        return 0.0
    return asked if math.isfinite(asked) else 0.0
