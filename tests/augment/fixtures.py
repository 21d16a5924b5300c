"""The sample corpus parsed and counted once for the tests of augment."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from random import Random

import pyarrow as pa

from negcap.augment.caption import Caption, from_parses
from negcap.augment.context import Context, contexts
from negcap.augment.edits import Candidate, apply
from negcap.augment.language.concreteness import Concreteness
from negcap.augment.language.parse import parse, parse_table
from negcap.augment.lexicon.lexicon import Lexicon, count, select
from negcap.augment.operators import OPERATORS
from negcap.augment.truth.contradiction import assess
from negcap.augment.truth.fit import Spread
from negcap.pipelines.sample import path


def parse_texts(texts: list[str], images: list[str], ids: list[str]) -> pa.Table:
    """The table `parses` of captions of no split."""
    columns = {"caption_id": ids, "image_id": images, "split": [""] * len(ids), "origin": ["human"] * len(ids)}
    return parse_table(pa.table({**columns, "text": texts}))


@cache
def sample_parses() -> pa.Table:
    """The parses of the embedded sample, an image's captions together."""
    notes = json.loads(path().read_text("utf-8"))["annotations"]
    notes.sort(key=lambda note: (note["image_id"], note["id"]))
    return parse_texts(
        [note["caption"] for note in notes],
        [str(note["image_id"]) for note in notes],
        [f"s:{note['image_id']}:{note['id']}" for note in notes],
    )


@cache
def sample_lexicon() -> Lexicon:
    """The lexicon of the sample, of nouns seen three times."""
    return Lexicon.from_table(select(count(from_parses(sample_parses())), 3, Concreteness.load(), 0.6))


def in_turn(lexicon: Lexicon) -> Spread:
    """A `spread` for `estimate` that runs the calls in this process, one after the other, with this lexicon."""
    return lambda function, calls: [function(*tables, lexicon) for tables in calls]


def proposed(name: str, caption: Caption, context: Context, rng: Random, draws: int) -> list[Candidate]:
    """All that an operator proposes, what is spare last."""
    operator = OPERATORS[name]
    return [*operator.propose(caption, context, rng, draws), *operator.fallback(caption, context, rng, draws)]


def captions_of(*texts: str) -> list[Caption]:
    """Texts as the captions of one image."""
    return [Caption(one.caption_id, "image", one.text, one.tokens, one.chunks) for one in parse(texts)]


@lru_cache(maxsize=1)
def first_of(texts: tuple[str, ...]) -> tuple[Caption, Context]:
    """The first text as a caption and its context, the others being its siblings; kept, as seeds are tried in turn."""
    captions = captions_of(*texts)
    return captions[0], contexts(
        [captions], sample_lexicon(), preferred_unnatural=1.0, max_unnatural=1.0, excluded=True
    )[0]


def proposals(name: str, *texts: str, seed: int = 0) -> list[tuple[str, str | None]]:
    """What an operator makes of the first text, the others being its siblings: (negative, reason refused or None)."""
    caption, context = first_of(texts)
    made = proposed(name, caption, context, Random(seed), 400)
    return [(apply(texts[0], c.edits), assess(c, context.said)[0]) for c in made]


def accepted(name: str, *texts: str, seeds: int = 1) -> set[str]:
    """The negatives among the proposals of some seeds."""
    return {text for seed in range(seeds) for text, reason in proposals(name, *texts, seed=seed) if reason is None}


def sentences(text: str) -> list[str]:
    """Its sentences, each a caption."""
    return [one.strip() + "." for one in " ".join(text.split()).split(".")[:-1]]
