"""Language models of Hugging Face in a local folder: a masked one proposes words, as NegCLIP and CE-CLIP do; a causal
one is asked as an endpoint is, and its answers are kept in the same cache.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from ...augment.caption import Caption, from_parses
from ...augment.edits import Edit, apply, cased
from ...augment.language.grammar import article
from ...augment.recovery import word_slots
from ..endpoint.client import AnswerCache, Spent
from ..endpoint.messages import Answer, EndpointConfig, Request, parse_answer, request_key
from ..engine.manifest import hash_path
from .scorer import CAUSAL, MASKED, load_scorer, read_parts

SPARE = 8  # words looked at beyond k, of which some are no words, or the word that stands there
MAX_NEW_TOKENS = 256  # of an answer, where the request sets no limit


class _LocalFolder:
    """A language model and its tokenizer, with the name and the fingerprint (a hash of its files) of the folder. Raises
    as `read_parts`, and ValueError for a model that is not of the class's kind.
    """

    role: ClassVar[str]
    kind: ClassVar[str]

    def __init__(self, path: Path) -> None:
        if (actual := read_parts(path).kind) != self.kind:
            raise ValueError(f"{self.role} must be a {self.kind} language model, was a {actual} one: {path}")
        scorer = load_scorer(path.absolute())
        self.name, self.fingerprint = path.name, hash_path(path)
        self._model: Any = scorer.model
        self._tokenizer: Any = scorer.tokenizer


class Filler(_LocalFolder):
    """A masked language model."""

    role, kind = "filler", MASKED

    def propose(self, parses: pa.Table, wanted: Collection[str], k: int) -> Iterator[tuple[str, str, str]]:
        """Yield (caption_id, text, kind of the word) for the k likeliest other words in each place of wanted captions.
        Places are nouns, attributes, prepositions, verbs and numbers of one word. Words are whole tokens of letters.
        """
        for caption in from_parses(parses):
            if caption.caption_id in wanted:
                for kind, index in word_slots(caption):
                    for word in self._words(caption, index, k):
                        yield caption.caption_id, _filled(caption, index, word), f"fill_{kind}"

    def _words(self, caption: Caption, index: int, k: int) -> list[str]:
        """The k likeliest words in the place of a caption's token, none of them the word that stands there."""
        import torch

        token, tokenizer = caption.tokens[index], self._tokenizer
        text = f"{caption.text[: token.start]}{tokenizer.mask_token}{caption.text[token.end :]}"
        encoded = tokenizer(text, return_tensors="pt", truncation=True).to(self._model.device)
        masked = encoded["input_ids"][0] == tokenizer.mask_token_id
        if not masked.any():  # it was cut off
            return []
        with torch.inference_mode():
            scores = self._model(**encoded).logits[0, masked][0]
        likeliest = torch.argsort(scores, descending=True, stable=True)[: 4 * k + SPARE].tolist()
        pieces = (piece.removeprefix("Ġ").removeprefix("▁") for piece in tokenizer.convert_ids_to_tokens(likeliest))
        words = dict.fromkeys(piece.lower() for piece in pieces if piece.isalpha() and piece.isascii())
        words.pop(token.lower, None)
        return list(words)[:k]


def _filled(caption: Caption, index: int, word: str) -> str:
    token, before = caption.tokens[index], caption.tokens[index - 1] if index else None
    edits = [Edit(token.start, token.end, cased(word, token.text, first=index == 0))]
    if before is not None and before.lower in ("a", "an") and article(word) != before.lower:
        edits.insert(0, Edit(before.start, before.end, cased(article(word), before.text, first=index == 1)))
    return apply(caption.text, edits)


class LocalModel(_LocalFolder):
    """A causal language model, used as an `Endpoint` without a budget; greedy at temperature 0 or None, else seeded."""

    role, kind = "local model", CAUSAL

    def __init__(self, path: Path, config: EndpointConfig, cache: Path, purpose: str) -> None:
        super().__init__(path)
        self._config, self._purpose, self._cache = config, purpose, AnswerCache(cache)

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
            response = self._cache.get(key)
            cached = response is not None
            if response is None:
                response, tokens = self._generate(json.loads(body))
                self._cache.spend(self._purpose, Spent(1, tokens), key, response)
            yield parse_answer(response, cached=cached)

    def _generate(self, body: dict[str, Any]) -> tuple[bytes, int]:
        """The response to a request, as a server would send it, and the number of tokens of both."""
        import torch

        torch.manual_seed(body.get("seed", 0))
        tokenizer, chat = self._tokenizer, bool(self._tokenizer.chat_template)
        if chat:
            prompt = tokenizer.apply_chat_template(body["messages"], tokenize=False, add_generation_prompt=True)
        else:
            prompt = "\n\n".join(message["content"] for message in body["messages"]) + "\n"
        encoded = tokenizer(prompt, return_tensors="pt", add_special_tokens=not chat).to(self._model.device)
        temperature = body.get("temperature")
        sampling = {"do_sample": True, "temperature": temperature} if temperature else {"do_sample": False}
        with torch.inference_mode():
            most, padding = body.get("max_tokens") or MAX_NEW_TOKENS, tokenizer.pad_token_id
            ends = {"max_new_tokens": most, "pad_token_id": tokenizer.eos_token_id if padding is None else padding}
            output = self._model.generate(**encoded, **sampling, **ends, use_cache=True)[0]
        start = encoded["input_ids"].shape[1]
        text = tokenizer.decode(output[start:], skip_special_tokens=True)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": start, "completion_tokens": len(output) - start}
        value = {"model": self.name, "system_fingerprint": self.fingerprint, "choices": [choice], "usage": usage}
        return json.dumps(value, ensure_ascii=False).encode(), len(output)
