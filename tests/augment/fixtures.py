"""The sample corpus parsed and counted once for the tests of augment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa

from negcap.augment.candidates import Batch, Limits
from negcap.augment.caption import Caption, by_image, from_parses
from negcap.augment.edits import apply_edits
from negcap.augment.evidence import Evidence, gather_evidence
from negcap.augment.generate import NegativesConfig, generate_for_evidence
from negcap.augment.language.concreteness import Concreteness
from negcap.augment.language.parse import parse, parse_table
from negcap.augment.lexicon.lexicon import Lexicon, count_captions, select_entries
from negcap.augment.operators import replacing
from negcap.augment.operators.replacement import propose_batch
from negcap.augment.rows import OperatorResult
from negcap.augment.truth.estimates import Truth
from negcap.augment.truth.fit import Spread
from negcap.pipelines.sample import path

NO_LIMITS = Limits(1.0, 1.0, 1.0)
UNLIMITED: dict[str, Any] = {"preferred_unnatural": 1.0, "max_unnatural": 1.0, "max_compatible": 1.0}  # as settings
ALL = 4000  # negatives per family: of no test's caption there are more


def parse_texts(texts: list[str], images: list[str], ids: list[str]) -> pa.Table:
    """The table `parses` of captions of no split."""
    same = {"split": [""] * len(ids), "origin": ["human"] * len(ids)}
    return parse_table(pa.table({"caption_id": ids, "image_id": images, "text": texts, **same}))


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
def all_sample_images() -> list[list[Caption]]:
    return by_image(from_parses(sample_parses()))


def sample_images(number: int) -> list[list[Caption]]:
    """The captions of the first images of the sample."""
    return all_sample_images()[:number]


@cache
def sample_lexicon() -> Lexicon:
    """The lexicon of the sample, of nouns seen three times."""
    return Lexicon.from_table(select_entries(count_captions(from_parses(sample_parses())), 3, Concreteness.load(), 0.6))


def in_turn(lexicon: Lexicon) -> Spread:
    """A `spread` for `estimate` that runs the calls in this process, one after the other, with this lexicon."""
    return lambda function, calls: [function(*tables, lexicon) for tables in calls]


def captions_of(*texts: str) -> list[Caption]:
    """Texts as the captions of one image."""
    return [Caption(one.caption_id, "image", one.text, one.tokens, one.chunks) for one in parse(texts)]


@lru_cache(maxsize=1)
def first_of(texts: tuple[str, ...]) -> Evidence:
    """The evidence for the first text, the others being its siblings; kept, as operators are tried in turn."""
    return gather_evidence([captions_of(*texts)], only_first=True)[0]


def batch_of(
    images: Sequence[Sequence[Caption]],
    *kinds: str,
    lexicon: Lexicon | None = None,
    truth: Truth | None = None,
    limits: Limits = NO_LIMITS,
    only_first: bool = False,
) -> Batch:
    """The candidates of some kinds of word for the captions of some images."""
    lexicon = lexicon or sample_lexicon()
    evidence = gather_evidence(images, lexicon.cloze, truth, only_first=only_first)
    return propose_batch(replacing(*kinds).values(), evidence, lexicon, limits)


def results(name: str, evidence: Evidence, lexicon: Lexicon | None = None, **settings: Any) -> OperatorResult:
    """What an operator makes of one caption: by default all that it can, whatever raters would say of it."""
    given = {"per_family": ALL, **UNLIMITED} | settings
    config = NegativesConfig(operators=(name,), **given)
    return generate_for_evidence([evidence], lexicon or sample_lexicon(), config).results[0][name]


def proposals(name: str, *texts: str) -> list[tuple[str, str | None]]:
    """All that an operator makes of the first text, the others being its siblings: (negative, reason or None)."""
    made = results(name, first_of(texts), excluded=True)
    return [(row.text or apply_edits(texts[0], row.edits), row.reason) for rows in made for row in rows]


def accepted(name: str, *texts: str) -> set[str]:
    """The negatives among the proposals."""
    return {row.text for row in results(name, first_of(texts)).accepted}


def sentences(text: str) -> list[str]:
    """Its sentences, each a caption."""
    return [one.strip() + "." for one in " ".join(text.split()).split(".")[:-1]]
