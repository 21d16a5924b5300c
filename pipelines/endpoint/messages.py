"""Chat requests and answers as OpenAI-compatible servers exchange them."""

from __future__ import annotations

import base64
import json
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from .config import EndpointConfig

Status = Literal["answered", "refused", "budget"]
MAX_TOKENS = 1 << 31  # of a prompt or an answer, beyond which a server's count is none
IMAGE_TOKENS = 1000  # reserved for each image of a request; most models count fewer


@dataclass(frozen=True)
class Request:
    """A chat request: its messages, and fields that differ from those of the EndpointConfig (None removes one)."""

    messages: Sequence[Mapping[str, Any]]
    fields: Mapping[str, Any] = field(default_factory=dict)

    def body(self, config: EndpointConfig) -> bytes:
        """The JSON that is posted; equal requests give equal bytes."""
        own = {"temperature": config.temperature, "max_tokens": config.max_tokens, "seed": config.seed}
        value = {"model": config.model, "messages": list(self.messages), **own, **json.loads(config.extra)}
        value |= self.fields
        value = {name: item for name, item in value.items() if item is not None}
        return json.dumps(value, sort_keys=True, ensure_ascii=False).encode()

    def tokens(self, config: EndpointConfig) -> int:
        """An upper estimate of the tokens that the request costs, its answer included: 3 bytes of text a token."""
        parts = [part for message in self.messages for part in _parts(message["content"])]
        text = sum(len(part["text"].encode()) for part in parts if part["type"] == "text")
        images = sum(part["type"] != "text" for part in parts)
        answer = self.fields.get("max_tokens") or config.max_tokens or 0
        return -(-text // 3) + IMAGE_TOKENS * images + int(answer)


def _parts(content: Any) -> Sequence[Mapping[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def request_key(config: EndpointConfig, body: bytes) -> str:
    """The key of a request in the cache: the sha256 of the URL and of the bytes posted there, in hex."""
    return sha256(config.chat_url.encode() + b"\n" + body).hexdigest()


def chat(user: str, system: str = "", images: Sequence[Path] = (), **fields: Any) -> Request:
    """A request of one user message, after a system message unless that is empty.

    images: image files shown before the text, sent as data URLs. fields: see Request. Raises OSError for an image that
    cannot be read, ValueError for a file whose name is not that of an image.
    """
    shown = [{"type": "image_url", "image_url": {"url": image_url(path)}} for path in images]
    content: Any = [*shown, {"type": "text", "text": user}] if shown else user
    first = [{"role": "system", "content": system}] if system else []
    return Request([*first, {"role": "user", "content": content}], fields)


def image_url(path: Path) -> str:
    """An image file as a data URL. Raises OSError if it cannot be read, ValueError if its name is not an image's."""
    kind = mimetypes.guess_type(path.name)[0] or ""
    if not kind.startswith("image/"):
        raise ValueError(f"image must be a file named as one (.jpg, .png …), was: {path}")
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


@dataclass(frozen=True)
class Answer:
    """What became of a request.

    status: "answered"; "refused": the server does not accept this request (HTTP 4xx), `detail` says why; "budget": it
    was not sent because the budget is spent. text: of the first choice. model, fingerprint: as the server names them,
    empty if it does not. finish: why the text ends ("stop", "length" …). tokens: of prompt and answer together, as the
    server counts them; None if it does not, or not between 0 and MAX_TOKENS. logprobs: as in the server's JSON. cached:
    taken from the disk.
    """

    status: Status
    text: str = ""
    detail: str = ""
    model: str = ""
    fingerprint: str = ""
    finish: str = ""
    tokens: int | None = None
    logprobs: Any = None
    cached: bool = False


def parse_answer(data: bytes, *, cached: bool = False) -> Answer:
    """The answer in the JSON of a response. Raises ValueError if it is not that of a chat completion."""
    try:
        value = json.loads(data)
        choice = value["choices"][0]
        content = choice["message"]["content"]
        usage = value.get("usage") or {}
        named = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        counted = [count for count in named if isinstance(count, int) and 0 <= count <= MAX_TOKENS]
        text = "".join(part.get("text", "") for part in content) if isinstance(content, list) else content or ""
        if not isinstance(text, str):
            raise TypeError(f"content must be text, was: {type(text).__name__}")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a chat completion: {type(error).__name__}: {error}") from error
    return Answer(
        "answered",
        text,
        model=str(value.get("model") or ""),
        fingerprint=str(value.get("system_fingerprint") or ""),
        finish=str(choice.get("finish_reason") or ""),
        tokens=sum(counted) if counted else None,
        logprobs=choice.get("logprobs"),
        cached=cached,
    )
