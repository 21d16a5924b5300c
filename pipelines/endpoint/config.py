"""Where an OpenAI-compatible endpoint is, which model answers, and how much may be asked of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..engine.bounds import above_zero, at_least

KEY_VARIABLE = "OPENAI_API_KEY"


@dataclass(frozen=True)
class EndpointConfig:
    """An endpoint and how it is asked.

    url: of the API, up to and without `/chat/completions`, e.g. http://localhost:8000/v1. model: its name there.
    temperature, max_tokens, seed: sent with each request; None: not sent. extra: a JSON object of further fields of the
    request, such as {"response_format": {"type": "json_object"}}; a null removes a field. key_variable: environment
    variable with the API key, if the server wants one.
    concurrency: requests in flight at once. timeout: seconds to wait for an answer. attempts: how often a request is
    sent before the endpoint counts as broken; backoff: seconds before the second attempt, doubled for each further one.
    max_requests, max_total_tokens: the budget, see `negcap.pipelines.endpoint.cache.Budget`; None: unlimited.
    Raises ValueError for a value out of range, a URL that is not http(s), or `extra` that is not a JSON object.
    """

    url: str
    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    extra: str = "{}"
    key_variable: str = KEY_VARIABLE
    concurrency: int = 8
    timeout: float = 120.0
    attempts: int = 6
    backoff: float = 1.0
    max_requests: int | None = None
    max_total_tokens: int | None = None

    def __post_init__(self) -> None:
        at_least(self, 1, ("max_tokens", "concurrency", "attempts"))
        at_least(self, 0, ("temperature", "backoff", "max_requests", "max_total_tokens"))
        above_zero(self, ("timeout",))
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
            raise ValueError(f"url must be http(s)://host[:port]/path without user and password, was: {shown}")
        if not self.model:
            raise ValueError("model must be the name of a model, was empty")
        try:
            extra = json.loads(self.extra)
        except ValueError:
            extra = None
        if not isinstance(extra, dict):
            raise ValueError(f"extra must be a JSON object, was: {self.extra}")

    @property
    def chat_url(self) -> str:
        """The URL that chat requests are posted to."""
        return f"{self.url.rstrip('/')}/chat/completions"
