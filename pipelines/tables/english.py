"""Whether the captions of a run that are taken for English look like it: a warning for the user."""

from __future__ import annotations

from pathlib import Path

from ...augment.language.english import looks_english
from ...schemas.captions import LANGUAGE
from ..engine.tables import shards_of
from .columns import read_columns

SHARDS, CAPTIONS = 8, 250  # looked at: so many shards, evenly spread, and the first captions of each
SHARE = 0.05  # from which on the user is told


def not_english(run: Path) -> list[str]:
    """A warning if at least 5 % of a sample of a run's English captions do not look English, with one of them; else
    none.

    Raises what `shards_of` raises.
    """
    shards = shards_of(run, "captions")
    texts: list[str] = []
    for shard in shards[:: -(-len(shards) // SHARDS) or 1]:
        rows = read_columns(shard, ["text", "language"]).to_pydict()
        english = [text for text, name in zip(rows["text"], rows["language"], strict=True) if name == LANGUAGE]
        texts += english[:CAPTIONS]
    odd = [text for text in texts if not looks_english(text)]
    if not odd or len(odd) < SHARE * len(texts):
        return []
    return [
        f"not English, by their words, are {len(odd):,} of {len(texts):,} captions looked at, such as {odd[0][:80]!r}: "
        "--languages en (languages= in Python) rejects them, --language says what language captions are in"
    ]
