"""Language models of Hugging Face in a local folder.

A masked one proposes words, as NegCLIP and CE-CLIP do; a causal one is asked as an endpoint is, and its answers are
kept in the same cache.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...augment.caption import Caption, from_parses
from ...augment.edits import Edit, apply, cased
from ...augment.language.grammar import article
from ...augment.recovery import word_slots
from ..endpoint.client import AnswerCache, Spent
from ..endpoint.messages import Answer, EndpointConfig, Request, parse_answer, request_key
from ..engine.manifest import hash_path
from .device import choose_device
from .scorer import CAUSAL, MASKED, check_scorer, load_scorer, read_parts

if TYPE_CHECKING:
    import pyarrow as pa

SPARE = 8  # words looked at beyond k, of which some are no words, or the word that stands there


class _Place(NamedTuple):
    """A word of a caption that is masked: token `at` is a `kind` (noun, attribute, preposition, verb, quantity)."""

    caption: Caption
    kind: str
    at: int


class Filler:
    """A masked language model of Hugging Face in a local folder. name, fingerprint: of the folder, and of its files."""

    def __init__(self, path: Path, device: str | None = None) -> None:
        """Load it. Raises as `check_scorer`, and ValueError for a model that is not masked."""
        scorer = load_scorer(check_scorer(path), device)
        if scorer.kind != MASKED:
            raise ValueError(f"filler must be a masked language model, was a {scorer.kind} one: {path}")
        self.name, self.fingerprint = path.name, hash_path(path)
        self._model: Any = scorer.model
        self._tokenizer: Any = scorer.tokenizer

    def propose(self, parses: pa.Table, wanted: Collection[str], k: int) -> Iterator[tuple[str, str, str]]:
        """Yield (caption_id, text, kind of the word) for the k likeliest other words in each place of wanted captions.

        Places are nouns, attributes, prepositions, verbs and numbers of one word. Words are whole tokens of letters.
        """
        for caption in from_parses(parses):
            if caption.caption_id in wanted:
                places = [_Place(caption, kind, index) for kind, index in word_slots(caption)]
                for place, words in zip(places, self._words(places, k), strict=True):
                    for word in words:
                        yield caption.caption_id, _filled(place, word), f"fill_{place.kind}"

    def _words(self, places: Sequence[_Place], k: int) -> list[list[str]]:
        """The k likeliest words for each place of one caption, none of them the word that stands there."""
        import torch

        found: list[list[str]] = []
        mask = self._tokenizer.mask_token
        for caption, _, index in places:
            token = caption.tokens[index]
            masked = f"{caption.text[: token.start]}{mask}{caption.text[token.end :]}"
            encoded = self._tokenizer(masked, return_tensors="pt", truncation=True)
            ids = encoded["input_ids"][0].tolist()
            if self._tokenizer.mask_token_id not in ids:
                found.append([])
                continue
            device = next(self._model.parameters()).device
            with torch.inference_mode():
                logits = self._model(**{name: value.to(device) for name, value in encoded.items()}).logits[0]
            scores = logits[ids.index(self._tokenizer.mask_token_id)]
            order = torch.argsort(scores, descending=True, stable=True)[: 4 * k + SPARE].tolist()
            words: list[str] = []
            for piece in self._tokenizer.convert_ids_to_tokens(order):
                word = piece.removeprefix("Ġ").removeprefix("▁")
                if word.isalpha() and word.isascii() and word.lower() not in (token.lower, *map(str.lower, words)):
                    words.append(word.lower())
            found.append(words[:k])
        return found


def _filled(place: _Place, word: str) -> str:
    """The caption with a word in a place, and a/an before it adjusted."""
    caption, _, index = place
    token = caption.tokens[index]
    edits = [Edit(token.start, token.end, cased(word, token.text, first=index == 0))]
    before = caption.tokens[index - 1] if index else None
    if before is not None and before.lower in ("a", "an") and article(word) != before.lower:
        edits.insert(0, Edit(before.start, before.end, cased(article(word), before.text, first=index == 1)))
    return apply(caption.text, edits)


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
