"""The lexicon and the truth estimates of a run, read from their tables once a process."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from negcap.augment.lexicon.lexicon import Lexicon
    from negcap.augment.truth.estimates import Truth
    from negcap.pipelines.engine.shards import WholeTable


@lru_cache(maxsize=1)
def load_lexicon(lexicon: WholeTable) -> Lexicon:
    """The lexicon of a run."""
    from negcap.augment.lexicon.lexicon import Lexicon

    return Lexicon.from_table(lexicon.read())


@lru_cache(maxsize=1)
def load_truth(lexicon: WholeTable, truth: WholeTable, max_true: float) -> Truth:
    """The truth estimates of a run for the replacements in its lexicon; see negcap.augment.truth."""
    from negcap.augment.truth.estimates import Truth

    return Truth.from_table(truth.read(), load_lexicon(lexicon), max_true)


@lru_cache(maxsize=1)
def load_balanced(lexicon: WholeTable, balance: WholeTable) -> Lexicon:
    """The lexicon of a run, balanced."""
    return load_lexicon(lexicon).balanced(balance.read())
