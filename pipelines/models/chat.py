"""A chat model of Hugging Face in a local folder, asked as an endpoint is, its answers kept in the same cache."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..endpoint.client import AnswerCache, Spent
from ..endpoint.messages import Answer, EndpointConfig, Request, parse_answer, request_key
from ..engine.manifest import hash_path
from .device import choose_device
from .scorer import CAUSAL, read_parts

MAX_NEW_TOKENS = 256


class LocalModel:
    """A causal language model; used as `negcap.pipelines.endpoint.client.Endpoint`.

    The budget does not apply: it costs nothing but time. With temperature 0 or None it answers greedily, else it
    samples with the seed of the request.
    """

    def __init__(
        self, path: Path, config: EndpointConfig, cache: Path, purpose: str, device: str | None = None
    ) -> None:
        """Load it. Raises as `check_scorer`, and ValueError for a model that is not causal."""
        parts = read_parts(path)
        if parts.kind != CAUSAL:
            raise ValueError(f"local model must be a causal language model, was a {parts.kind} one: {path}")
        import transformers

        self.fingerprint = hash_path(path)
        self._config, self._purpose, self._name = config, purpose, path.name
        self._tokenizer: Any = parts.tokenizer
        load: Any = transformers.AutoModelForCausalLM.from_pretrained
        model = load(path, local_files_only=True, trust_remote_code=False, use_safetensors=True)
        self._model: Any = model.float().eval().to(choose_device("auto"))
        self._cache = AnswerCache(cache)

    def __enter__(self) -> LocalModel:
        return self

    def __exit__(self, *_: object) -> None:
        self._cache.close()

    @property
    def spent(self) -> Spent:
        """Requests and tokens that were computed for this purpose since the cache was made."""
        return self._cache.spent(self._purpose)

    def ask(self, requests: Iterable[Request]) -> Iterator[Answer]:
        """Yield the answer to each request, in their order."""
        for request in requests:
            body = request.body(self._config)
            key = request_key(self._config, self.fingerprint.encode() + body)
            if (found := self._cache.get(key)) is not None:
                yield parse_answer(found, cached=True)
                continue
            response, tokens = self._generate(json.loads(body))
            self._cache.spend(self._purpose, Spent(1, tokens), key, response)
            yield parse_answer(response)

    def _generate(self, body: dict[str, Any]) -> tuple[bytes, int]:
        """The response to a request, as a server would send it, and the number of tokens of both."""
        import torch

        torch.manual_seed(body.get("seed", 0))
        if self._tokenizer.chat_template:
            prompt = self._tokenizer.apply_chat_template(body["messages"], tokenize=False, add_generation_prompt=True)
        else:
            prompt = "\n\n".join(message["content"] for message in body["messages"]) + "\n"
        special = not self._tokenizer.chat_template
        encoded = self._tokenizer(prompt, return_tensors="pt", add_special_tokens=special).to(self._model.device)
        temperature = body.get("temperature") or 0.0
        sampling = {"do_sample": True, "temperature": temperature} if temperature else {"do_sample": False}
        pad = self._tokenizer.pad_token_id
        with torch.inference_mode():
            output = self._model.generate(
                **encoded,
                **sampling,
                max_new_tokens=body.get("max_tokens") or MAX_NEW_TOKENS,
                pad_token_id=self._tokenizer.eos_token_id if pad is None else pad,
            )[0]
        start = encoded["input_ids"].shape[1]
        text = self._tokenizer.decode(output[start:], skip_special_tokens=True)
        made = len(output) - start
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": start, "completion_tokens": made}
        value = {"model": self._name, "system_fingerprint": self.fingerprint, "choices": [choice], "usage": usage}
        return json.dumps(value, ensure_ascii=False).encode(), start + made
