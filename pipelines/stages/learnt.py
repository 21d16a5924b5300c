"""What the stages before have learnt of a corpus, read from their tables once a process and stage."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from augment.truth.most import MAX_TRUE

if TYPE_CHECKING:
    from augment.language.lexicon import Lexicon
    from augment.truth.estimates import Truth
    from pipelines.engine.shards import WholeTable


@lru_cache(maxsize=1)
def load_lexicon(lexicon: WholeTable, balance: WholeTable | None = None) -> Lexicon:
    """The lexicon of a run, balanced where it has been."""
    from augment.language.lexicon import Lexicon

    return Lexicon.from_table(lexicon.read(), None if balance is None else balance.read())


@lru_cache(maxsize=1)
def load(
    lexicon: WholeTable, truth: WholeTable, balance: WholeTable | None = None, max_true: float = MAX_TRUE
) -> tuple[Lexicon, Truth]:
    """The lexicon of a run, balanced where it has been, and what it knows of truth."""
    from augment.truth.estimates import Truth

    entries = load_lexicon(lexicon, balance)
    return entries, Truth.from_table(truth.read(), entries, max_true)
