"""A masked language model of Hugging Face in a local folder proposes words, as NegCLIP and CE-CLIP do."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...augment.caption import Caption, from_parses
from ...augment.edits import Edit, apply, cased
from ...augment.language.grammar import article
from ...augment.recovery import word_slots
from ..engine.manifest import hash_path
from .scorer import MASKED, load_scorer, read_parts

SPARE = 8  # words looked at beyond k, of which some are no words, or the word that stands there


class Filler:
    """A masked language model. name, fingerprint: of its folder, and a hash of the files there."""

    def __init__(self, path: Path) -> None:
        """Load it. Raises as `read_parts`, and ValueError for a model that is not masked."""
        if (kind := read_parts(path).kind) != MASKED:
            raise ValueError(f"filler must be a {MASKED} language model, was a {kind} one: {path}")
        scorer = load_scorer(path.absolute())
        self.name, self.fingerprint = path.name, hash_path(path)
        self._model: Any = scorer.model
        self._tokenizer: Any = scorer.tokenizer

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
    """The caption with a word in the place of a token, and a/an before it adjusted."""
    token, before = caption.tokens[index], caption.tokens[index - 1] if index else None
    edits = [Edit(token.start, token.end, cased(word, token.text, first=index == 0))]
    if before is not None and before.lower in ("a", "an") and article(word) != before.lower:
        edits.insert(0, Edit(before.start, before.end, cased(article(word), before.text, first=index == 1)))
    return apply(caption.text, edits)
