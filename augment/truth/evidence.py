"""What decided a rejection: the word of a caption that may make the candidate true, and the sibling that has it."""

from __future__ import annotations

from itertools import chain

from ..context import Context
from ..edits import LIKELY_TRUE, NOTHING, Candidate, Judged, apply
from ..mentions import mentioned_nouns
from .contradiction import CHECKS
from .estimates import ASSERTIONS, KIND_OF_CHANGE

OF_WORDS = frozenset(
    ("related_in_caption", "overlap_in_caption", "same_quantity", "caption_says_so")
    + ("related_in_sibling", "overlap_in_sibling", "sibling_quantity", "sibling_says_so")
)


def explained(judged: Judged, context: Context) -> Judged:
    """A rejection with the word that decided as its detail, and the caption_id of the first sibling that has it.

    Of `likely_true` nouns and verbs, the word with the largest lift (see `negcap.augment.truth.estimates`); of other
    likely changes, the thing; of what stands for all words that are not drawn, how to list them. Unchanged if a limit
    or a fault of the sentence decided.
    """
    candidate, own = judged.candidate, context.caption
    if judged.reason is None or judged.detail is not None:
        return judged
    if candidate.change == NOTHING.change and candidate.rejected and not judged.text:
        return judged._replace(detail="no word was drawn, most are refused for this reason; excluded=true lists them")
    if judged.reason == LIKELY_TRUE:
        word = _likely(candidate.assertion or candidate, context)
        places = (one for one in (own, *context.siblings.captions) if word in mentioned_nouns(one))
        place = next(places, own)
        return judged._replace(detail=word, sibling_id=None if place is own else place.caption_id)
    if judged.reason == "sibling_says_so":
        text = (judged.text or apply(own.text, candidate.edits)).lower()
        if text in context.texts:  # it says what a sibling says word by word, or its own caption
            same = (one for one in context.siblings.captions if one is not own and one.text.lower() == text)
            return judged._replace(sibling_id=next((one.caption_id for one in same), None))
    if judged.reason in OF_WORDS:
        for found in CHECKS[candidate.change](candidate, own, context):
            if found.reason == judged.reason:
                word, sibling_id = found.said()
                return judged._replace(detail=word, sibling_id=sibling_id)
    return judged


def _likely(candidate: Candidate, context: Context) -> str | None:
    """The word of the image's captions that makes a candidate likelier than any other of them does; None: none."""
    kind = KIND_OF_CHANGE.get(candidate.change, "")
    if context.image is None or kind in ASSERTIONS:
        return context.caption.tokens[candidate.slots[-1]].lemma
    said = frozenset(chain.from_iterable(map(mentioned_nouns, context.image.captions)))
    return context.image.truth.associations[kind].strongest(said, candidate.replacement)
