"""spaCy's attribute ruler with its answers kept: most pipelines set parts of speech by rules on one token each.

Matching some 180 patterns takes a seventh of a parse, only to hear again that "a" is a determiner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spacy.tokens import Doc

# What the rules may look at, and the attributes of a token that decide all of it.
LOOKED_AT = {"ORTH", "TEXT", "LOWER", "TAG", "DEP", "POS"}
DECIDING: list[int | str] = ["ORTH", "TAG", "DEP", "POS"]


def judges_single_tokens(rules: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a ruler's `patterns` look at single tokens, at nothing beyond `LOOKED_AT`, and set POS alone."""
    return all(
        rule["attrs"].keys() == {"POS"}
        and all(len(tokens) == 1 and tokens[0].keys() <= LOOKED_AT for tokens in rule["patterns"])
        for rule in rules
    )


class CachedAttributeRuler:
    """A pipeline component that asks `ruler`, which `judges_single_tokens`, only of tokens that it has not met yet."""

    ruler: Callable[[Doc], Doc]

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], int] = {}

    def __call__(self, doc: Doc) -> Doc:
        """Set the parts of speech of a Doc's tokens."""
        met = list(map(tuple, doc.to_array(DECIDING).tolist()))
        try:
            answers = [self._known[token] for token in met]
        except KeyError:
            doc = self.ruler(doc)
            self._known.update(zip(met, doc.to_array("POS").tolist(), strict=True))
            return doc
        parts_of_speech: Any = np.array(answers, np.uint64)
        return doc.from_array("POS", parts_of_speech)
