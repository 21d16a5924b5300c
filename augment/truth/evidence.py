"""What decided a rejection: the word of a caption that may make the candidate true, and the sibling that has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from ..caption import Caption
from ..context import Context
from ..edits import Candidate, Judged, apply
from ..language.coreference import may_corefer, says_less
from ..language.semantic_classes import may_be_same, prepositions
from ..mentions import (
    mentioned_attributes,
    mentioned_nouns,
    mentioned_quantities,
    mentioned_relations,
    mentioned_verbs,
)
from ..slots import verbs
from ..slots.nouns import quantity_value
from .contradiction import BOTH, counted, implied_verbs
from .estimates import ASSERTIONS, KIND_OF_CHANGE


def explained(judged: Judged, context: Context) -> Judged:
    """A rejection with the word that decided as its detail, and the caption_id of the first sibling that has it.

    Of `likely_true` nouns and verbs, the word with the largest lift (see `negcap.augment.truth.estimates`); of other
    likely changes, the thing. Unchanged if a limit or a fault of the sentence decided.
    """
    if judged.reason is None or judged.detail is not None:
        return judged
    candidate, own = judged.candidate, context.caption
    siblings = [caption for caption in context.siblings.captions if caption is not own]
    asserted = candidate.assertion or candidate
    if judged.reason == "likely_true":
        word = _likely(asserted, context)
        place = next((one for one in (own, *siblings) if word in mentioned_nouns(one)), None)
        return judged._replace(detail=word, sibling_id=place.caption_id if place in siblings else None)
    if judged.reason == "sibling_says_so":
        text = (judged.text or apply(own.text, candidate.edits)).lower()
        same = next((one for one in siblings if one.text.lower() == text), None)
        if same is not None:
            return judged._replace(sibling_id=same.caption_id)
    for caption in [own] if judged.reason in OWN else siblings if judged.reason in SIBLING else []:
        word = next(_words(judged.reason, asserted, caption, context), None)
        if word is not None:
            return judged._replace(detail=word, sibling_id=None if caption is own else caption.caption_id)
    return judged


OWN = frozenset(("related_in_caption", "overlap_in_caption", "same_quantity", "caption_says_so"))
SIBLING = frozenset(("related_in_sibling", "overlap_in_sibling", "sibling_quantity", "sibling_says_so"))


def _words(reason: str, candidate: Candidate, caption: Caption, context: Context) -> Iterator[str]:
    """The words of a caption that each give the reason alone, sorted: as the checks of `contradiction` find them."""
    change, old, new = candidate.change, candidate.replaced, candidate.replacement
    own, tokens = caption is context.caption, context.caption.tokens
    if change == "noun":
        entry, index = context.lexicon.nouns.number.get(new), context.lexicon.coreference
        several = {noun for noun, count in context.siblings.quantities if count != 1}
        for noun in sorted(mentioned_nouns(caption)):
            heard = own or noun in several or not says_less(noun, old)
            if heard and entry is not None and index.with_noun(noun).reason(entry) == reason.partition("_")[0]:
                yield noun
        if reason == "overlap_in_caption":  # a place for the thing in it
            yield old
    elif change == "quantity":
        thing, value = tokens[candidate.slots[0]].lemma, quantity_value(new)
        for noun, count in sorted(mentioned_quantities(caption)):
            counts, some, group = counted(thing, frozenset([(noun, count)]))
            of_sibling = value in counts or (quantity_value(old) == 1 and (group or some))
            if (noun == thing and count in (0, value)) if own else of_sibling:
                yield noun
    elif change == "preposition":
        object = tokens[candidate.slots[1]].lemma
        said = sorted(mentioned_relations(caption))
        yield from (f"{of} {noun}" for of, noun in said if noun == object and of != old and _overlap(of, new))
    elif change in ("attribute", "attribute_swap"):
        things = [tokens[slot].lemma for slot in candidate.slots[-2:]]
        given = zip(reversed(old.split(BOTH)), things, strict=True) if BOTH in old else [(new, things[-1])]
        for attribute, noun in given:
            for word, of in sorted(mentioned_attributes(caption)):
                about = noun == of or (not own and (not of or may_corefer(noun, of)))
                if about and may_be_same(attribute, word):
                    yield word
    elif change == "verb":
        others = mentioned_verbs(caption) - {old}
        yield from sorted(verb for verb in others if verbs.may_be_same(new, verb))
        yield from sorted(noun for noun in mentioned_nouns(caption) - {old} if new in implied_verbs(noun))


def _overlap(one: str, other: str) -> bool:
    return prepositions().overlap(one, other)


def _likely(candidate: Candidate, context: Context) -> str | None:
    """The word of the image's captions that makes a candidate likelier than any other of them does; None: none."""
    kind = KIND_OF_CHANGE.get(candidate.change, "")
    if context.image is None or kind in ASSERTIONS:
        return context.caption.tokens[candidate.slots[-1]].lemma
    said: Iterable[str] = chain.from_iterable(map(mentioned_nouns, context.image.captions))
    return context.image.truth.associations[kind].strongest(frozenset(said), candidate.replacement)
