"""Ask an OpenAI-compatible chat endpoint many requests at once; every answer that was paid for is kept on disk."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import ssl
import threading
from collections import Counter, deque
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import Future
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict, TypeVar

from ..engine.errors import EngineError, require_libraries
from ..engine.places import local_path
from ..engine.progress import Progress
from ..engine.storage import refuse_link
from .keys import without_key
from .messages import ChatAnswer, EndpointConfig, Json, Request, parse_answer, request_key

if TYPE_CHECKING:
    from httpx2 import Response

T = TypeVar("T")
# HTTP statuses that refuse a single request; other errors mean that the endpoint cannot be used at all
REFUSED_ALONE = (400, 413, 415, 422)
# After so many refusals without any answer the server counts as refusing everything: one request may be bad, but a
# wrong model or setting must not be tried a thousand times.
REFUSALS = 5
# When all stops, requests in flight have so many seconds to be answered, as they may have to be paid
GRACE = 3.0
SAID = 200  # characters of what a server says that an error repeats
# Requests that are made before the first is answered, for each that is in flight: enough to keep all in flight while
# one waits, without holding the requests of a whole run.
AHEAD = 4
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


class EndpointIdentity(TypedDict):
    """An endpoint as a run's manifest names it; extra: further fields of each request, as JSON."""

    model: str
    url: str
    temperature: float | None
    seed: int | None
    extra: str


class AnswerCache:
    """Answers by the key of their request, and what was spent by purpose ("propose", "vet" …), in a SQLite file. An
    answer and its price are one transaction, flushed to the disk: it is there and counted, or was not received.
    Thread-safe. Raises ValueError for a file that is no such cache.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or make it with its folder. Raises ValueError if it is something else."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lock = threading.Lock()
        try:
            # One connection for all threads, with a lock; 60 s are for other processes that write to the file.
            self._database = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
            try:
                self._database.executescript(_OPEN)
            except sqlite3.DatabaseError:
                self._database.close()
                raise
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path} must be a cache of answers (SQLite), was: {error}") from error

    def get(self, key: str) -> bytes | None:
        """The response to the request with this key (see messages.request_key), as bytes; None if it is not there."""
        with self._lock:
            row = self._database.execute("SELECT response FROM answers WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def spend(self, purpose: str, spent: Spent, key: str = "", response: bytes | None = None) -> None:
        """Add what a request has cost to the totals and, in the same transaction, keep its response.

        Args:
            purpose: what the request was for; totals are kept by purpose.
            spent: the requests and tokens.
            key: of the request, see messages.request_key.
            response: its bytes; None: it has failed, but cost something.

        Raises:
            OSError: the file cannot be written.
        """
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
    """A chat endpoint, asked by the library openai; a context manager.

    What a request may cost (one request, and `Request.tokens`) is reserved before it is sent, so that the budget holds
    with any number in flight. A request counts once, also if it is sent again, times out or is given up.
    """

    def __init__(self, config: EndpointConfig, cache: Path, purpose: str) -> None:
        """Open the cache and make the client; nothing is sent.

        Args:
            config: of the endpoint.
            cache: the file of the answers, which several processes may share.
            purpose: what spending counts under.

        Raises:
            ValueError: the API key has other characters than keys have.
            ImportError: the library openai is missing.
        """
        require_libraries('an endpoint needs the library openai: pip install "negcap[endpoint]"', "openai")
        import openai

        from .transport import BoundedClient

        self._key = os.environ.get(config.key_variable, "").strip()
        if not self._key.isascii() or not self._key.isprintable() or " " in self._key:
            raise ValueError(f"{config.key_variable} must be an API key, in ASCII and without spaces, was not")
        self._config = config
        self._cache = AnswerCache(cache)
        self._purpose = purpose
        self._reserved = Spent()
        self._answered = 0
        self._refused = 0
        # Without a key no header is sent: the library would send "none", which a server without keys may refuse.
        self._headers = {} if self._key else {"Authorization": openai.Omit()}
        self._client = openai.AsyncOpenAI(
            base_url=config.url,
            api_key=self._key or "none",  # the library insists on one, servers need not
            max_retries=config.attempts - 1,
            timeout=openai.Timeout(config.timeout, connect=min(30.0, config.timeout)),
            http_client=BoundedClient(config.timeout, config.max_bytes),
        )
        # Looked up here, as the property imports much, which would count as time of the first request.
        self._create = self._client.chat.completions.with_raw_response.create
        # Requests are tasks of one event loop in a thread of its own: a task can be given up at any moment.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True)
        self._slots = asyncio.Semaphore(config.concurrency)
        self._changed = asyncio.Condition()
        self._stopping = False

    def __enter__(self) -> Endpoint:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections, then end the thread that they were used in, then close the cache."""
        self._in_loop(self._client.close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._cache.close()

    @property
    def identity(self) -> EndpointIdentity:
        """What determines the answers beside the requests, as plain JSON."""
        config = self._config
        return {
            "model": config.model,
            "url": config.url,
            "temperature": config.temperature,
            "seed": config.seed,
            "extra": config.extra,
        }

    @property
    def spent(self) -> Spent:
        """What has been spent for this purpose since the cache was made."""
        return self._cache.spent(self._purpose)

    def ask(self, requests: Iterable[Request]) -> Iterator[ChatAnswer]:
        """Yield the answer to each request, in order.

        Cached ones cost nothing; equal requests are sent once. Failures that may pass (no connection, timeout, HTTP
        408, 409, 429, 5xx) are tried again after growing waits or Retry-After. Raises EndpointError when `attempts`
        were in vain or the server refuses everything. Then, or if the caller stops, no new request is sent, answers
        that come within GRACE seconds are kept, and others given up.
        """
        self._stopping = False
        futures: dict[str, Future[ChatAnswer | None]] = {}
        waiting: deque[Future[ChatAnswer | None]] = deque()
        try:
            for request in requests:
                body = request.body(self._config)
                key = request_key(self._config, body)
                if key not in futures:
                    futures[key] = self._in_loop(self._answer_request(key, body, request.tokens(self._config)))
                waiting.append(futures[key])
                if len(waiting) > AHEAD * self._config.concurrency:
                    yield from _first_answers(waiting, 1)
            yield from _first_answers(waiting, len(waiting))
        finally:
            self._in_loop(self._stop_requests()).result()

    def _in_loop(self, work: Coroutine[object, None, T]) -> Future[T]:
        """Start a coroutine in the event loop of the endpoint's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _stop_requests(self) -> None:
        """Begin no request, and wait for those in flight, GRACE seconds at most."""
        self._stopping = True
        async with self._changed:
            self._changed.notify_all()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=GRACE)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _answer_request(self, key: str, body: bytes, tokens: int) -> ChatAnswer | None:
        """The answer to a request, which is kept and counted; None if another one stops all."""
        async with self._slots:
            if (kept := self._cache.get(key)) is not None:
                return parse_answer(kept, cached=True)
            if not await self._reserve_budget(tokens):
                return None if self._stopping else ChatAnswer("budget", detail="the budget is spent")
            try:
                return await self._send_request(key, json.loads(body), tokens)
            except BaseException:
                self._stopping = True  # before another task begins a request
                raise
            finally:
                self._reserved = Spent(self._reserved.requests - 1, self._reserved.tokens - tokens)
                async with self._changed:
                    self._changed.notify_all()

    async def _send_request(self, key: str, body: Json, tokens: int) -> ChatAnswer:
        """Send a request, count its cost and keep its answer. Raises EndpointError if the endpoint cannot be used.

        Args:
            key: of the request in the cache.
            body: the request as JSON.
            tokens: what it may cost at most, which counts unless the answer says what it did cost.
        """
        import openai

        url = self._config.chat_url
        model = body.pop("model", "")
        messages = body.pop("messages")
        cost = Spent()
        response = None
        try:
            raw = await self._create(model=model, messages=messages, extra_body=body, extra_headers=self._headers)
            # What is reserved counts as spent, until the answer says what it cost.
            cost = Spent(1, tokens)
            data = raw.content
            if len(data) > self._config.max_bytes:
                raise ValueError(f"an answer must have <= {self._config.max_bytes:,} bytes (max_bytes), has more")
            answer = parse_answer(data)
            response = data
            cost = Spent(1, tokens if answer.tokens is None else answer.tokens)
            self._answered += 1
            return answer
        except ValueError as error:  # no completion: it was paid for, and is not kept
            problem = self._shorten_and_hide_key(str(error))
        except asyncio.CancelledError:
            cost = Spent(1, tokens)  # it may have to be paid
            raise
        except openai.APITimeoutError:
            cost = Spent(1, tokens)  # likewise
            raise EndpointError(f"{url}: no answer within {self._config.timeout:g} s, at any attempt") from None
        except openai.APIConnectionError as error:
            cause = self._shorten_and_hide_key(_why_no_connection(error))
            raise EndpointError(f"{url}: no connection, at any attempt: {cause}") from None
        except openai.APIStatusError as error:
            problem = self._describe_status(error.response)
            if error.status_code not in REFUSED_ALONE:
                raise EndpointError(f"{url}: {problem}") from None
        finally:
            # Also if the request is given up or the answer is none: the server may have computed it.
            if cost.requests:
                self._cache.spend(self._purpose, cost, key, response)
        self._refused += 1
        if not self._answered and self._refused >= REFUSALS:
            raise EndpointError(f"{url}: refuses every request: {problem}")
        return ChatAnswer("refused", detail=problem)

    def _describe_status(self, response: Response) -> str:
        """Describe a response that is not an answer: its HTTP status, and where it redirects or how its text begins."""
        status = self._shorten_and_hide_key(f"HTTP {response.status_code} {response.reason_phrase}")
        if response.has_redirect_location:
            place = self._shorten_and_hide_key(response.headers["location"])
            return f"{status}: points to {place}, which is not followed: if you trust it, give its address as url"
        said = self._shorten_and_hide_key(response.text)
        return f"{status}: {said}" if said else status

    def _shorten_and_hide_key(self, text: str) -> str:
        """The beginning of what a server says, in one line and without the API key."""
        # The key is looked for in more than is shown, since a piece of it may be cut off at the end.
        return " ".join(without_key(text[: 10 * SAID], self._key).split())[:SAID]

    async def _reserve_budget(self, tokens: int) -> bool:
        """Reserve what a request may cost, once the budget has room for it; False if it never has, or if all stops."""

        def is_decided() -> bool:
            """Whether it is known if the request can be sent, so that waiting has an end."""
            # As long as other requests have reserved something, they may give it back, and make room.
            return self._stopping or self._fits_budget(tokens) or not self._reserved.requests

        async with self._changed:
            await self._changed.wait_for(is_decided)
            if self._stopping or not self._fits_budget(tokens):
                return False
            self._reserved = Spent(self._reserved.requests + 1, self._reserved.tokens + tokens)
            return True

    def _fits_budget(self, tokens: int) -> bool:
        """Whether one more request, of so many tokens, is within the budget (max_requests, max_total_tokens).

        What is reserved counts as spent: those requests are under way, and may still cost as much.
        """
        spent = self.spent
        requests = spent.requests + self._reserved.requests + 1
        all_tokens = spent.tokens + self._reserved.tokens + tokens
        max_requests = self._config.max_requests
        max_tokens = self._config.max_total_tokens
        return (max_requests is None or requests <= max_requests) and (max_tokens is None or all_tokens <= max_tokens)


def _first_answers(waiting: deque[Future[ChatAnswer | None]], count: int) -> Iterator[ChatAnswer]:
    """Take the first `count` answers out of the queue, and yield each when it is there.

    One that another request's failure has stopped is left out: the future of that request raises the error.
    """
    for _ in range(count):
        answer = waiting.popleft().result()
        if answer is not None:
            yield answer


def _why_no_connection(error: BaseException) -> str:
    """Why a connection failed, as the system says it ("Connection refused"), else as the library does.

    The system's error is the last in a chain of five; the others say only "All connection attempts failed".
    """
    deeper: BaseException | None = error.__cause__
    while deeper is not None:
        if isinstance(deeper, BaseExceptionGroup):  # of several addresses of a host
            deeper = deeper.exceptions[0]
        if isinstance(deeper, OSError) and deeper.errno is not None and not isinstance(deeper, ssl.SSLError):
            return os.strerror(deeper.errno) if deeper.errno > 0 else str(deeper)  # below 0: of names of hosts
        deeper = deeper.__cause__ or deeper.__context__
    return str(error.__cause__)


class Answers(NamedTuple):
    """The answers in order, their hash, counts (answered, refused, not_asked, cached), and what this call spent."""

    answers: tuple[ChatAnswer, ...]
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
    """Ask all requests of a stage. Raises EndpointError if the endpoint cannot be used; answers until then are cached.

    Args:
        name: of the stage.
        endpoint: that is asked.
        requests: what it is asked.
        progress: is told of each answer.
        total: how many requests there are.
    """
    before = endpoint.spent
    answers = []
    digest = sha256()
    counts = Counter({"answered": 0, "refused": 0, "not_asked": 0, "cached": 0})
    with progress.stage(name, total, unit="requests"):
        for answer in endpoint.ask(requests):
            answers.append(answer)
            # Not `tokens` and `cached`, which differ when the same answers are read again.
            digest.update(repr((answer.status, answer.text, answer.detail, answer.model, answer.fingerprint)).encode())
            counts["not_asked" if answer.status == "budget" else answer.status] += 1
            if answer.cached:
                counts["cached"] += 1
            progress.advance(1)
    spent = Spent(endpoint.spent.requests - before.requests, endpoint.spent.tokens - before.tokens)
    return Answers(tuple(answers), digest.hexdigest(), dict(counts), spent)
