"""The operators, by name, and sets of them."""

from collections.abc import Mapping

from ...schemas.messages import word
from ...schemas.negatives import POSITIVE
from ..evidence import Evidence
from ..kinds import KINDS
from ..lexicon.lexicon import Lexicon
from ..rows import Row
from ..truth.contradiction import Violation
from .attribute import ReplaceAttribute
from .negation import Negation, TrueNegation
from .noun import ReplaceNoun
from .numeral import ReplaceNumeral
from .operator import Operator, Traits
from .preposition import ReplacePreposition
from .relation import ReplaceRelation
from .replacement import ReplacingOperator
from .swap import Paraphrase, Shuffle, SwapAttribute
from .uniform import (
    UniformAttribute,
    UniformNoun,
    UniformNumeral,
    UniformObject,
    UniformPreposition,
    UniformRelation,
    UniformShuffle,
)
from .verb import ReplaceVerb

UNIFORM = "uniform_"  # begins the name of an operator that does as its paper describes


def _unchecked_traits(family: str, share: float) -> Traits:
    """The traits of an operator that keeps whatever it proposes."""
    return Traits(family, share, is_checked=False, is_rated=False)


_NUMERAL = ReplaceNumeral("numeral", Traits(family="numeral", share=1.0, kinds=("numeral",)))
_REPLACING: dict[str, ReplacingOperator] = {
    operator.name: operator
    for operator in (
        ReplaceNoun("noun", Traits(family="noun", share=1.0, kinds=("noun",), has_fallback=True)),
        _NUMERAL,
        ReplacePreposition(
            "preposition", Traits(family="relation", share=0.5, kinds=("preposition",), has_fallback=True)
        ),
        ReplaceAttribute("attribute", Traits(family="attribute", share=0.25, kinds=("attribute",), has_fallback=True)),
        ReplaceVerb("verb", Traits(family="relation", share=0.25, kinds=("verb",))),
    )
}

# What other operators replace by: an operator of several kinds has the replacers of these.
_NEGATED = {kind: _REPLACING[kind] for kind in ("noun", "verb")}
_RELATED = {kind: _REPLACING[kind] for kind in ("noun", "preposition", "verb")}
OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        _REPLACING["noun"],
        _REPLACING["numeral"],
        Shuffle("shuffle", Traits("relation", 0.5, has_fallback=True), _NUMERAL),
        _REPLACING["preposition"],
        ReplaceNoun("object", Traits(family="object", share=0.25, kinds=("noun",), has_fallback=True)),
        _REPLACING["attribute"],
        ReplaceRelation("relation", Traits(family="relation", share=0.25, kinds=tuple(_RELATED)), _RELATED),
        SwapAttribute("swap_attribute", Traits("attribute", 0.25)),
        _REPLACING["verb"],
        Negation("negation", Traits(family="negation", share=0.3, kinds=tuple(_NEGATED)), _NEGATED),
        TrueNegation(
            "true_negation", Traits(family=POSITIVE, share=0.6, kinds=tuple(_NEGATED), is_rated=False), _NEGATED
        ),
        Paraphrase("paraphrase", Traits(POSITIVE, 0.1, is_rated=False)),
        UniformNoun("uniform_noun", _unchecked_traits("noun", 1.0)),
        UniformNumeral("uniform_numeral", _unchecked_traits("numeral", 1.0)),
        UniformShuffle("uniform_shuffle", _unchecked_traits("relation", 1.0)),
        UniformPreposition("uniform_preposition", _unchecked_traits("relation", 1.0)),
        UniformObject("uniform_object", _unchecked_traits("object", 0.25)),
        UniformAttribute("uniform_attribute", _unchecked_traits("attribute", 0.25)),
        UniformRelation("uniform_relation", _unchecked_traits("relation", 0.25)),
    )
}


def replacing(*kinds: str) -> dict[str, ReplacingOperator]:
    """The operators that replace words of these kinds, by kind, which is their name."""
    operators = {kind: OPERATORS[kind] for kind in kinds}  # also those that were added to OPERATORS later
    return {kind: operator for kind, operator in operators.items() if isinstance(operator, ReplacingOperator)}


# The operator whose check of truth holds for a change of a caption, also for one that others made.
_CHECKED_BY: Mapping[str, Operator] = {
    **{kind: OPERATORS[kind] for kind in KINDS},
    "swap": OPERATORS["shuffle"],
    "attribute_swap": OPERATORS["swap_attribute"],
    "negated_noun": OPERATORS["negation"],
    "negated_verb": OPERATORS["negation"],
}
# The operators that do as the papers' scripts do: presets name them, lists of operators for users do not.
UNCHECKED = tuple(name for name, operator in OPERATORS.items() if not operator.traits.is_checked)
LISTED = tuple(name for name in OPERATORS if name not in UNCHECKED)
# Sets of operators by name: the attacks of a paper, made well or as in the paper; or all that check their negatives.
PRESETS: dict[str, tuple[str, ...]] = {
    "vse-c": ("noun", "numeral", "shuffle", "preposition"),
    "univse": ("object", "attribute", "relation"),
    "negation": ("negation", "true_negation"),
    # For test sets: operators that keep enough negatives when those that can be guessed without the image are removed.
    "benchmark": ("noun", "numeral", "shuffle", "preposition", "attribute", "relation", "swap_attribute", "verb"),
    "all": LISTED,
    "vse-c-paper": ("uniform_noun", "uniform_numeral", "uniform_shuffle", "uniform_preposition"),
    "univse-paper": ("uniform_object", "uniform_attribute", "uniform_relation"),
}


def violation_of_row(row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
    """Why a row may be true of the image by what its captions say, whoever made it; None if nothing tells.

    Nothing tells of texts that are true by their form, such as paraphrases, nor of changes of no known kind.
    """
    operator = _CHECKED_BY.get(row.change)
    return None if operator is None else operator.violation(row, evidence, lexicon)


def operator_named(name: str) -> Operator:
    """The operator with this name. Raises ValueError listing the valid names."""
    listed = [known for known in OPERATORS if known not in UNCHECKED]  # also of those that were added
    return OPERATORS[word("operator", name, listed, UNCHECKED)]


def operator_summary(name: str) -> str:
    """What an operator does: the first sentence of its docstring; empty for an unknown operator."""
    docstring = (OPERATORS[name].__doc__ or "") if name in OPERATORS else ""
    return " ".join(docstring.split("\n\n")[0].split())


def operators_of_preset(name: str) -> tuple[str, ...]:
    """The operators of this preset. Raises ValueError listing the valid names."""
    return PRESETS[word("preset", name, PRESETS)]
