"""Propose words for single places of captions by a masked language model, as NegCLIP and CE-CLIP do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...augment.caption import Caption, from_parses
from ...augment.edits import Edit, apply, cased
from ...augment.language.articles import article
from ...augment.recovery.recover import word_slots
from ..engine.manifest import hash_path
from .scorer import MASKED, check_scorer, load_scorer

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
