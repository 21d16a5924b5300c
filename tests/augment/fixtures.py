"""The sample corpus parsed and counted once for the tests of augment."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from random import Random

import pyarrow as pa

from negcap.augment.caption import Caption
from negcap.augment.context import Context, contexts
from negcap.augment.edits import Candidate, apply
from negcap.augment.language.concreteness import Concreteness
from negcap.augment.language.parse import parse, parse_table
from negcap.augment.lexicon.lexicon import Lexicon, count, select
from negcap.augment.operators import OPERATORS
from negcap.augment.truth.contradiction import check
from negcap.pipelines.sample import path


@cache
def sample_parses() -> pa.Table:
    """The parses of the embedded sample, an image's captions together."""
    notes = sorted(
        json.loads(path().read_text("utf-8"))["annotations"], key=lambda note: (note["image_id"], note["id"])
    )
    ids = [str(note["image_id"]) for note in notes]
    return parse_table(
        pa.table(
            {
                "caption_id": [f"s:{image}:{note['id']}" for image, note in zip(ids, notes, strict=True)],
                "image_id": ids,
                "split": [""] * len(ids),
                "origin": ["human"] * len(ids),
                "text": [note["caption"] for note in notes],
            }
        )
    )


@cache
def sample_lexicon() -> Lexicon:
    """The lexicon of the sample, of nouns seen three times."""
    from negcap.augment.caption import from_parses

    return Lexicon.from_table(select(count(from_parses(sample_parses())), 3, Concreteness.load(), 0.6))


def proposed(name: str, caption: Caption, context: Context, rng: Random, draws: int) -> list[Candidate]:
    """All that an operator proposes, what is spare last."""
    return [
        *OPERATORS[name].propose(caption, context, rng, draws),
        *OPERATORS[name].fallback(caption, context, rng, draws),
    ]


@lru_cache(maxsize=1)
def first_of(texts: tuple[str, ...]) -> tuple[Caption, Context]:
    """The first text as a caption and its context, the others being its siblings; kept, as seeds are tried in turn."""
    captions = [Caption(c.caption_id, "image", c.text, c.tokens, c.chunks) for c in parse(texts)]
    return captions[0], contexts([captions], sample_lexicon())[0]


def proposals(name: str, *texts: str, seed: int = 0) -> list[tuple[str, str | None]]:
    """What an operator makes of the first text, the others being its siblings: (negative, reason refused or None)."""
    caption, context = first_of(texts)
    made = proposed(name, caption, context, Random(seed), 400)
    return [(apply(texts[0], c.edits), check(c, caption, context)) for c in made]


def accepted(name: str, *texts: str, seed: int = 0) -> set[str]:
    """The negatives among the proposals."""
    return {text for text, reason in proposals(name, *texts, seed=seed) if reason is None}
