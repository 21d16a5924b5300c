"""Negation: deny what a caption says, which makes it false, or deny what the image does not show, which stays true."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

import numpy as np

from negcap.augment.cache import cached, read_only
from negcap.augment.caption import Caption
from negcap.augment.context import Context
from negcap.augment.edits import Candidate, Edit
from negcap.augment.language.articles import article
from negcap.augment.language.semantic_classes import is_salient
from negcap.augment.language.wordnet import first_sense
from negcap.augment.operators.choices import Choice, draw
from negcap.augment.operators.noun import noun_weights
from negcap.augment.operators.verb import verb_choices
from negcap.augment.slots.denials import Denial, denials, denied, verb_denial
from negcap.augment.slots.nouns import NounSlot

DENIED = "not "  # precedes what a negative denies, in `replacement`, or what its caption denies, in `replaced`


def negation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Deny what the caption says: "a man with a hat is riding" -> "a man without a hat ...", "... is not riding".

    Or assert what it denies: "a man without a hat" -> "a man with a hat". Yields at most `draws` candidates, each with
    one of these changes, in random order.
    """
    made = [
        *(Candidate("none", at.edits, (at.index,), at.entry, DENIED + at.entry) for at in denials(caption)),
        *(Candidate("none", at.edits, (at.index,), DENIED + at.entry, at.entry) for at in denied(caption)),
    ]
    rng.shuffle(made)
    yield from made[:draws]


def true_negation(caption: Caption, context: Context, rng: Random, draws: int) -> Iterator[Candidate]:
    """Deny what the image does not show, in the same places: "a man without a dog is riding", "... is not walking".

    The nouns and verbs that are denied are those that would make the caption false if they were asserted, as likely
    there as the operators of nouns and verbs find them. Yields at most `draws` candidates.
    """
    yield from draw([*_verb_choices(caption, context), *_noun_choices(caption, context)], rng, draws)


def _verb_choices(caption: Caption, context: Context) -> list[Choice]:
    places = {place.index for place in denials(caption) if place.frame == "verb"}
    return [_denied(caption, choice) for choice in verb_choices(caption, context) if choice.tokens[0] in places]


def _denied(caption: Caption, choice: Choice) -> Choice:
    def candidate(name: str) -> Candidate | None:
        made = choice.candidate(name)
        if made is None:
            return None
        verb = caption.tokens[choice.tokens[0]]
        edits = verb_denial(caption, verb, name, made.edits[0].new)
        return None if edits is None else made._replace(edits=edits)

    return Choice(choice.tokens, choice.entry, choice.plural, choice.names, choice.weights, choice.log_odds, candidate)


def _noun_choices(caption: Caption, context: Context) -> list[Choice]:
    nouns, choices = context.lexicon.nouns, []
    for place in denials(caption):
        slot = place.noun
        if slot is None or slot.entry not in nouns.number or any(True for _ in caption.dependents(slot.root, "prep")):
            continue
        weighed = noun_weights(context, slot)
        if weighed is not None:
            weights, odds = weighed
            weights = read_only(np.where(_salient(nouns.names), weights, 0.0))
            candidate = partial(_without, caption, context, place, slot)
            choices.append(Choice((slot.root,), slot.entry, slot.plural, nouns.names, weights, odds, candidate))
    return choices


@cached(64)
def _salient(names: tuple[str, ...]) -> np.ndarray:
    """A mask of the nouns that a caption would seldom leave out; read-only."""
    return read_only(np.array([is_salient(name) for name in names], bool))


def _without(caption: Caption, context: Context, place: Denial, slot: NounSlot, name: str) -> Candidate:
    """The candidate that denies a noun in the place of another, whose article and adjectives go with it."""
    surface = (context.lexicon.plural if slot.plural else context.lexicon.singular)[name]
    phrase = next(chunk for chunk in caption.chunks if chunk.root == slot.root)
    start, end = caption.tokens[phrase.start].start, caption.tokens[slot.root].end
    if place.frame != "with":
        surface = f"no {surface}"
    elif slot.form in ("a", "the"):
        surface = f"{article(surface)} {surface}"
    edits = (*(edit for edit in place.edits if edit.start < start), Edit(start, end, surface))
    senses = first_sense(slot.entry), first_sense(name)
    return Candidate("noun", edits, (slot.root,), slot.entry, name, *senses)
