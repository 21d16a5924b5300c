"""The operators, by name: each yields at most `draws` candidates; it neither builds the text nor checks truth."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from ...schemas.negatives import POSITIVE
from ..caption import Caption
from ..context import Context
from ..edits import Candidate
from ..scene_graph import scene_graph
from . import uniform
from .negation import corrected, negation, true_negation, truly_corrected
from .numeral import numeral_choices
from .replacement import (
    attribute_choices,
    draw,
    draw_or_reason,
    draw_spare,
    noun_choices,
    preposition_choices,
    verb_choices,
)
from .swap import paraphrase, shuffle, swap_attribute

Propose = Callable[[Caption, Context, Random, int], Iterator[Candidate]]
UNIFORM = "uniform_"  # before the name of an operator: the one as its paper describes it


def propose_nothing(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Propose no candidate."""
    return iter(())


class Operator(NamedTuple):
    """An operator, its family, and its maximum number of negatives per caption as a share of `per_family`.

    propose(caption, context, rng, draws) yields at most `draws` candidates, and others that it has rejected. fallback:
    another such function with the same random stream, used only if no candidate of `propose` is accepted. compared:
    whether negatives are compared with their caption, and odd ones rejected. checked: whether candidates that may be
    true of the image are rejected. kinds: of the lexicon's entries that it draws by weight, which are balanced for it.
    spare: whether it makes one negative that is odder than preferred of a caption of which it has no other.
    """

    propose: Propose
    family: str
    share: float
    fallback: Propose = propose_nothing
    compared: bool = True
    checked: bool = True
    kinds: tuple[str, ...] = ()
    spare: bool = False


def replacing(
    choices: Callable[[Caption, Context], Any], drawn: Callable[..., Iterator[Candidate]] = draw_or_reason
) -> Propose:
    """The operator that draws from what may replace the words of a caption: by weight, or `uniform.draw_evenly`."""

    def propose(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
        yield from drawn(choices(caption, context), rng, draws, excluded=context.batch.excluded)

    propose.__doc__ = choices.__doc__
    return propose


def relation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Replace the subject, the relation word or the object of a triple (UniVSE, supplement B.2).

    "a dog chases a cat" -> "a horse chases a cat", "a dog carries a cat" or "a dog chases a ball". The paper also adds
    objects, attributes and relations, as the operators of `uniform` do: in 47, 81 and 27 % of 38, 26 and 26 readings,
    what was added was held possible in the same photo.
    """
    graph = scene_graph(caption)
    subjects = {triple.subject for triple in graph.relations}
    objects = {triple.object for triple in graph.relations}
    words = {index for triple in graph.relations for index in triple.tokens}
    nouns = noun_choices(caption, context)
    others = [*preposition_choices(caption, context), *verb_choices(caption, context)]
    parts = [
        draw([choice for choice in choices if choice.tokens[0] in replaced], rng, draws)
        for choices, replaced in ((nouns, subjects), (nouns, objects), (others, words))
    ]
    for _ in range(draws):
        candidate = next(rng.choice(parts), None)
        if candidate:
            yield candidate


def _by_weight(
    choices: Callable[[Caption, Context], Any], family: str, share: float, kind: str, *, spare: bool = False
) -> Operator:
    """The operator that draws from what may replace the words of a caption, by weight.

    spare: see `Operator`. Not numerals, prepositions and verbs: two readers called 47 % of 70 spare ones odd, where the
    judge expected 30; of 67 nouns 34 %, expected 29.
    """
    fallback = replacing(choices, draw_spare) if spare else propose_nothing
    return Operator(replacing(choices), family, share, fallback, kinds=(kind,), spare=spare)


def _as_in_paper(propose: Propose, family: str, share: float) -> Operator:
    """An operator that keeps whatever it proposes."""
    return Operator(propose, family, share, compared=False, checked=False)


OPERATORS: dict[str, Operator] = {
    "noun": _by_weight(noun_choices, "noun", 1.0, "noun", spare=True),
    "numeral": _by_weight(numeral_choices, "numeral", 1.0, "numeral"),
    "shuffle": Operator(shuffle, "relation", 0.5),
    "preposition": _by_weight(preposition_choices, "relation", 0.5, "preposition"),
    "object": _by_weight(noun_choices, "object", 0.25, "noun", spare=True),
    "attribute": _by_weight(attribute_choices, "attribute", 0.25, "attribute", spare=True),
    "relation": Operator(relation, "relation", 0.25, kinds=("noun", "preposition", "verb")),
    "swap_attribute": Operator(swap_attribute, "attribute", 0.25),
    "verb": _by_weight(verb_choices, "relation", 0.25, "verb"),
    "negation": Operator(negation, "negation", 0.3, corrected, kinds=("noun", "verb")),
    "true_negation": Operator(true_negation, POSITIVE, 0.6, truly_corrected, compared=False, kinds=("noun", "verb")),
    "paraphrase": Operator(paraphrase, POSITIVE, 0.1, compared=False),
    "uniform_noun": _as_in_paper(replacing(uniform.uniform_noun, uniform.draw_evenly), "noun", 1.0),
    "uniform_numeral": _as_in_paper(replacing(uniform.uniform_numeral, uniform.draw_evenly), "numeral", 1.0),
    "uniform_shuffle": _as_in_paper(uniform.uniform_shuffle, "relation", 1.0),
    "uniform_preposition": _as_in_paper(replacing(uniform.uniform_preposition, uniform.draw_evenly), "relation", 1.0),
    "uniform_object": _as_in_paper(uniform.uniform_object, "object", 0.25),
    "uniform_attribute": _as_in_paper(replacing(uniform.uniform_attribute, uniform.draw_evenly), "attribute", 0.25),
    "uniform_relation": _as_in_paper(uniform.uniform_relation, "relation", 0.25),
}
UNCHECKED = tuple(name for name, operator in OPERATORS.items() if not operator.checked)
# Sets of operators by name: the attacks of a paper, made well or as in the paper; or all that check their negatives.
PRESETS: dict[str, tuple[str, ...]] = {
    "vse-c": ("noun", "numeral", "shuffle", "preposition"),
    "univse": ("object", "attribute", "relation"),
    "negation": ("negation", "true_negation"),
    "all": tuple(name for name, operator in OPERATORS.items() if operator.checked),
    "vse-c-paper": ("uniform_noun", "uniform_numeral", "uniform_shuffle", "uniform_preposition"),
    "univse-paper": ("uniform_object", "uniform_attribute", "uniform_relation"),
}


def operator(name: str) -> Operator:
    """The operator with this name. Raises ValueError listing the valid names."""
    if name not in OPERATORS:
        raise ValueError(f"operator must be one of {', '.join(OPERATORS)}, was: {name}")
    return OPERATORS[name]


def does(name: str) -> str:
    """What an operator does: the first sentence of its docstring; empty for an unknown operator."""
    said = (OPERATORS[name].propose.__doc__ or "") if name in OPERATORS else ""
    return " ".join(said.split("\n\n")[0].split())


def preset(name: str) -> tuple[str, ...]:
    """The operators of this preset. Raises ValueError listing the valid names."""
    if name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, was: {name}")
    return PRESETS[name]
