"""Every answer that was paid for, in a SQLite file: it is on the disk before anybody sees it; and what was spent."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path

from .config import EndpointConfig

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, response BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spent (purpose TEXT PRIMARY KEY, requests INTEGER NOT NULL, tokens INTEGER NOT NULL);
"""
_SPEND = """
INSERT INTO spent VALUES (?1, ?2, ?3)
ON CONFLICT (purpose) DO UPDATE SET requests = requests + ?2, tokens = tokens + ?3
"""


@dataclass(frozen=True)
class Spent:
    """Requests and tokens that were spent. A request that the server refused (any status but 200) costs nothing."""

    requests: int = 0
    tokens: int = 0


class AnswerCache:
    """Answers of chat endpoints by the key of their request, and what was spent by purpose ("propose", "vet" …), in a
    SQLite file.

    An answer and its price are one transaction, flushed to the disk: whenever the process is killed, each answer is
    either there and counted, or was not received. Thread-safe. Raises ValueError if the file is not such a cache,
    OSError if it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        """Open the cache, or make it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._lock = path, threading.Lock()
        try:
            self._database = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_SCHEMA)
        except sqlite3.OperationalError as error:
            raise OSError(f"{path}: the cache of answers cannot be opened: {error}") from error
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
                self._database.execute(_SPEND, (purpose, spent.requests, spent.tokens))
        except sqlite3.OperationalError as error:
            raise OSError(f"{self._path}: cannot be written: {error}") from error

    def spent(self, purpose: str) -> Spent:
        """What has been spent for a purpose since the file was made."""
        with self._lock:
            row = self._database.execute("SELECT requests, tokens FROM spent WHERE purpose = ?", (purpose,)).fetchone()
        return Spent(*row) if row else Spent()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()


class Budget:
    """What may still be spent for a purpose: earlier calls with the same cache count, so a rerun pays nothing twice.

    What a request may cost is reserved before it is sent, so the limit holds with any number of requests in flight: one
    request and the estimate of its tokens (`Request.tokens`). Thread-safe.
    """

    def __init__(self, config: EndpointConfig, spent: Spent) -> None:
        """Start from what has been spent."""
        self._limits = (config.max_requests, config.max_total_tokens)
        self._used = [spent.requests, spent.tokens]
        self._lock = threading.Lock()

    def reserve(self, tokens: int) -> bool:
        """Reserve one request of `tokens` tokens; False, and nothing is reserved, if the budget does not allow it."""
        with self._lock:
            for limit, used, wanted in zip(self._limits, self._used, (1, tokens), strict=True):
                if limit is not None and used + wanted > limit:
                    return False
            self._used[0] += 1
            self._used[1] += tokens
        return True

    def settle(self, tokens: int, spent: Spent) -> None:
        """Replace the reservation of one request by what was spent."""
        with self._lock:
            self._used[0] += spent.requests - 1
            self._used[1] += spent.tokens - tokens
