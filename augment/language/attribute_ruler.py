"""spaCy's attribute ruler with a cache per token, for pipelines whose rules each set the part of speech of one token.

Matching about 180 patterns takes a seventh of the parsing time, and always gives the same result for the same token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spacy.tokens import Doc

# Token attributes that the rules may use, and those that determine all of them.
LOOKED_AT = {"ORTH", "TEXT", "LOWER", "TAG", "DEP", "POS"}
KEY: list[int | str] = ["ORTH", "TAG", "DEP", "POS"]


def is_cacheable(rules: Iterable[Mapping[str, Any]]) -> bool:
    """Whether all rules (a ruler's `patterns`) match single tokens by attributes in `LOOKED_AT` and set only POS."""
    return all(
        rule["attrs"].keys() == {"POS"}
        and all(len(tokens) == 1 and tokens[0].keys() <= LOOKED_AT for tokens in rule["patterns"])
        for rule in rules
    )


class CachedAttributeRuler:
    """A pipeline component that runs `ruler`, whose rules must be `is_cacheable`, only for uncached tokens."""

    ruler: Callable[[Doc], Doc]

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], int] = {}

    def __call__(self, doc: Doc) -> Doc:
        """Set the part of speech of each token of a Doc."""
        tokens = list(map(tuple, doc.to_array(KEY).tolist()))
        try:
            answers = [self._known[token] for token in tokens]
        except KeyError:
            doc = self.ruler(doc)
            self._known.update(zip(tokens, doc.to_array("POS").tolist(), strict=True))
            return doc
        parts_of_speech: Any = np.array(answers, np.uint64)
        return doc.from_array("POS", parts_of_speech)
