"""Chat requests and answers as OpenAI-compatible servers exchange them, and the JSON that is asked for in answers."""

from __future__ import annotations

import base64
import json
import math
import mimetypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from ...augment.settings import AboveZero, AtLeastOne, NotNegative, NotNegativeNumber, Settings

Value = TypeVar("Value")
Json = dict[str, Any]  # an object of JSON
Message = Json  # role and content, a text or parts; see OpenAI's API
MAX_TOKENS = 1 << 31  # of a prompt or an answer, beyond which a server's count is none
IMAGE_TOKENS = 1000  # reserved for each image of a request; most models count fewer
MAX_TEXT = 2000  # characters of a negative in an answer
THOUGHT = "<think>"
THOUGHT_END = "</think>"  # around what a model that reasons writes before its answer
_START = re.compile(r"[{\[]")
_FENCE = "```"  # around code in Markdown
_EFFORT = 50  # how many times an answer is read through, at most, in search of JSON; a good one needs one or two
_USUAL = 200_000  # a shorter answer counts as having so many characters, so that all of its brackets are tried


class EndpointConfig(Settings):
    """An endpoint and how it is asked."""

    url: str = Field(description="API of an OpenAI-compatible server, e.g. http://localhost:8000/v1")
    model: str = Field(description="name of the language model there")
    temperature: NotNegativeNumber | None = Field(None, description="sampling temperature; none: the server's")
    max_tokens: AtLeastOne | None = Field(512, description="tokens of an answer, at most; none: not sent")
    seed: int | None = None
    extra: str = Field("{}", description="further fields of each request, as JSON; a null removes a field")
    key_variable: str = Field("OPENAI_API_KEY", description="environment variable with the API key, if one is wanted")
    concurrency: AtLeastOne = Field(8, description="requests in flight at once")
    timeout: AboveZero = Field(120.0, description="seconds to wait for a whole answer")
    max_bytes: AtLeastOne = Field(4_000_000, description="bytes of an answer, at most")
    attempts: AtLeastOne = Field(6, description="times that a request is sent before giving up")
    max_requests: NotNegative | None = Field(
        None, description="budget of this run: requests, earlier calls included; none: no limit"
    )
    max_total_tokens: NotNegative | None = Field(
        None, description="budget of this run: tokens, earlier calls included; none: no limit"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse an address, model or extra that no request can be made of. Raises ValueError without the password."""
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
        return self

    @property
    def chat_url(self) -> str:
        """The URL that chat requests are posted to."""
        return f"{self.url.rstrip('/')}/chat/completions"


@dataclass(frozen=True)
class Request:
    """A chat request: its messages."""

    messages: Sequence[Message]

    def body(self, config: EndpointConfig) -> bytes:
        """The request as JSON; equal requests give equal bytes."""
        fields = {
            "model": config.model,
            "messages": list(self.messages),
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "seed": config.seed,
            **json.loads(config.extra),
        }
        given = {name: value for name, value in fields.items() if value is not None}
        return json.dumps(given, sort_keys=True, ensure_ascii=False).encode()

    def tokens(self, config: EndpointConfig) -> int:
        """An upper estimate of the tokens that the request costs, its answer included: 3 bytes of text a token."""
        images = 0
        size = 0  # bytes
        for message in self.messages:
            content = message["content"]
            for part in [{"text": content}] if isinstance(content, str) else content:
                if "text" in part:
                    size += len(part["text"].encode())
                else:
                    images += 1
        return (config.max_tokens or 0) + images * IMAGE_TOKENS + math.ceil(size / 3)


def request_key(config: EndpointConfig, body: bytes) -> str:
    """The key of a request in the cache: the sha256 of the URL and of the request's JSON, in hex."""
    return sha256(config.chat_url.encode() + b"\n" + body).hexdigest()


def chat(user: str, system: str = "", images: Sequence[Path] = ()) -> Request:
    """A request to a chat model. Raises ValueError or OSError for a file that is no image or cannot be read.

    Args:
        user: the question.
        system: the system message; "": none.
        images: files that are sent with the question.
    """
    parts: list[Json] = []
    for path in images:
        kind = mimetypes.guess_type(path.name)[0] or ""
        if not kind.startswith("image/"):
            raise ValueError(f"image must be a file named as one (.jpg, .png …), was: {path}")
        data = base64.b64encode(path.read_bytes()).decode()
        parts.append({"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}})
    messages: list[Message] = []
    if system:
        messages.append({"role": "system", "content": system})
    messages.append({"role": "user", "content": [*parts, {"type": "text", "text": user}] if parts else user})
    return Request(messages)


class ParsedAnswer(NamedTuple, Generic[Value]):
    """What was found in the text of an answer; if nothing was, the problem: the answer's status, or `malformed`."""

    value: Value | None
    problem: str


@dataclass(frozen=True)
class ChatAnswer:
    """What became of a request. status: "answered"; "refused" (HTTP 4xx, or no chat completion; see `detail`); "budget"
    (not sent, as the budget is spent). text: of the first choice. model, fingerprint: as the server names them, or "".
    tokens: of prompt and answer, as the server counts them; None if it does not, or if the count is below 0 or above
    MAX_TOKENS. cached: whether the answer was read from the disk.
    """

    status: Literal["answered", "refused", "budget"]
    text: str = ""
    detail: str = ""
    model: str = ""
    fingerprint: str = ""
    tokens: int | None = None
    cached: bool = False

    def read(self, parse: Callable[[str], Value]) -> ParsedAnswer[Value]:
        """What `parse` finds in the text; it raises ValueError for a text that is malformed."""
        if self.status != "answered":
            return ParsedAnswer(None, self.status)
        try:
            return ParsedAnswer(parse(self.text), "")
        except ValueError:
            return ParsedAnswer(None, "malformed")


def parse_answer(data: bytes, *, cached: bool = False) -> ChatAnswer:
    """The answer in the JSON of a response. Raises ValueError if it is not that of a chat completion."""
    try:
        response = json.loads(data)
        # A text, a list of parts, or null where a model has nothing to say.
        content = response["choices"][0]["message"]["content"]
        usage = response.get("usage") or {}
        stated = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        counts = [count for count in stated if isinstance(count, int) and 0 <= count <= MAX_TOKENS]
        text = "".join(part.get("text", "") for part in content) if isinstance(content, list) else content or ""
        if not isinstance(text, str):
            raise TypeError(f"content must be text, was: {type(text).__name__}")
        model = str(response.get("model") or "")
        fingerprint = str(response.get("system_fingerprint") or "")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a chat completion: {type(error).__name__}: {error}") from error
    tokens = sum(counts) if counts else None
    return ChatAnswer("answered", text, model=model, fingerprint=fingerprint, tokens=tokens, cached=cached)


def without_thoughts(text: str) -> str:
    """An answer without what the model has thought, in `<think>` and `</think>`, before it."""
    kept = []
    position = 0
    while (start := text.find(THOUGHT, position)) >= 0 and (end := text.find(THOUGHT_END, start)) >= 0:
        kept.append(text[position:start])
        position = end + len(THOUGHT_END)
    return "".join([*kept, text[position:]])


def json_in(text: str) -> Json | list[Any]:
    """The JSON object or list in an answer: alone, fenced, or the last after other words. ValueError if none is."""
    text = without_thoughts(text)
    # Split at fences, every second part is inside a pair of them; the part after the last fence is none of these.
    *parts, _ = text.split(_FENCE)
    inside_fences = parts[1::2]
    for part in (*inside_fences, text):
        value = _last_json(part)
        if value is not None:
            return value
    raise ValueError("must be JSON, has none")


def _last_json(text: str) -> Json | list[Any] | None:
    """The last JSON object or list in a text that is not inside another, or None.

    The number of characters that are read is limited, so that the time is linear in the text: else each of thousands of
    brackets that begin no JSON could be tried on all the rest of the text.
    """
    decoder = json.JSONDecoder()
    value = None
    position = 0
    budget = _EFFORT * max(len(text), _USUAL)  # characters that may still be read
    while budget > 0 and (match := _START.search(text, position)):
        start = match.start()
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            # How much was read: an error counts the lines before its place, and a string that never ends was read to
            # the end of the text.
            if isinstance(error, json.JSONDecodeError) and not error.msg.startswith("Unterminated string"):
                budget -= error.pos + 1
            else:
                budget -= len(text)
            position = start + 1
    return value


def negatives_in(text: str, k: int) -> list[str]:
    """The first k texts of {"negatives": ["…", …]}, or of such a list alone. Raises ValueError for another form."""
    value = json_in(text)
    negatives = value.get("negatives") if isinstance(value, dict) else value
    if not isinstance(negatives, list) or not negatives or not all(isinstance(item, str) for item in negatives):
        raise ValueError('must be {"negatives": [texts]}')
    texts = [" ".join(item.split()) for item in negatives[:k]]
    if not all(0 < len(item) <= MAX_TEXT and item.isprintable() for item in texts):
        raise ValueError(f"each text must have 1 to {MAX_TEXT} printable characters")
    return texts
