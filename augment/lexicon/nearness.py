"""How near the captions of a corpus are to those that negcap's statistics were counted on, captions of everyday photos.

Nearness is what the nouns of the captions have in common with those of the shipped reference lexicon: the sum over all
nouns of the lesser of their two shares among all nouns. It is measured here and nowhere else. What is taken from the
reference (lexicon, truth, balance) weighs less as a corpus is farther from it, and from the same limit on the user is
warned.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..data import data_path

if TYPE_CHECKING:
    import pyarrow as pa

# Nearness is 0.20 to 0.58 in COCO, SNLI, ActivityNet, MSR-VTT, AudioCaps and others; in videos of kitchens it is 0.12,
# in aerial photos 0.08, in descriptions of dresses 0.03. A sample of 50 captions seems 0.03 to 0.1 farther than the
# whole, so fewer nouns than LEAST_NOUNS, about 80 captions, are not measured.
NEAR = 0.15
LEAST_NOUNS = 300
# The weight of the reference falls to a tenth with each such step below NEAR. Held-out captions of aerial photos (0.08)
# are likeliest with 20 to 500 captions' worth of the reference, those of dresses (0.03) with 20 or fewer, as
# tests/benchmarks/lexicon.py measures; this gives them 34 and less than 1.
STEP = 0.03
NOUN_TAGS = ("NN", "NNS")


def reference_weight(nearness: float | None) -> float:
    """The weight of the reference for a corpus, relative to that for everyday photos: 1 from NEAR on, or if the corpus
    is too small to be measured (None); below that it tends to 0.
    """
    if nearness is None or nearness >= NEAR:
        return 1.0
    return float(10 ** ((nearness - NEAR) / STEP))


def nearness_of(nouns: Mapping[str, int]) -> float | None:
    """How near captions are to those of the shipped reference lexicon, from 0 (no noun in common) to 1.

    It is the sum over all nouns of the lesser of two shares: the noun's share among the nouns of the captions, and that
    among the nouns of the reference.

    Args:
        nouns: the lemmas of the captions' nouns, with their counts.

    Returns:
        None if there are fewer than LEAST_NOUNS nouns, too few to tell.
    """
    total = sum(nouns.values())
    if total < LEAST_NOUNS:
        return None
    shares = reference_shares()
    # Sorted, so that the sum is rounded alike whatever the order of the captions.
    return sum(min(count / total, shares.get(noun, 0.0)) for noun, count in sorted(nouns.items()))


def count_nouns(parses: pa.Table) -> dict[str, int]:
    """How often the captions of a `parses` table have each noun, by its lemma in lower case, sorted."""
    import pyarrow as pa
    import pyarrow.compute as pc

    tokens = pc.list_flatten(parses["tokens"])
    lemmas = pc.struct_field(tokens, ["lemma"])
    tags = pc.struct_field(tokens, ["tag"])
    nouns = pc.utf8_lower(lemmas.filter(pc.is_in(tags, value_set=pa.array(NOUN_TAGS))))
    words, numbers = np.unique(np.array(nouns.to_pylist(), object), return_counts=True)
    return dict(zip(words.tolist(), numbers.tolist(), strict=True))


@lru_cache(maxsize=1)
def reference_shares() -> dict[str, float]:
    """The share of each noun among the nouns of the captions that the reference lexicon was counted on."""
    import pyarrow.parquet as pq

    path = data_path("reference_lexicon") / "lexicon.parquet"
    # A noun has a row for each context that it was seen in ("obj:walk"), and one with its total, whose place is empty.
    rows = pq.read_table(
        path, columns=["entry", "count"], filters=[("kind", "=", "noun"), ("place", "=", "")]
    ).to_pylist()
    total = sum(row["count"] for row in rows)
    return {row["entry"]: row["count"] / total for row in rows}
