"""What decided a rejection: the word of a caption that may make the candidate true, and the sibling that has it."""

from __future__ import annotations

from itertools import chain

from ..context import Said
from ..edits import LIKELY_TRUE, NOTHING, Candidate, Judged, apply
from ..mentions import mentioned_nouns
from .contradiction import CHECKS
from .estimates import ASSERTIONS, KIND_OF_CHANGE

OF_WORDS = frozenset(
    ("related_in_caption", "overlap_in_caption", "same_quantity", "caption_says_so")
    + ("related_in_sibling", "overlap_in_sibling", "sibling_quantity", "sibling_says_so")
)


def explained(judged: Judged, said: Said) -> Judged:
    """A rejection with the word that decided as its detail, and the caption_id of the first sibling that has it.

    Of `likely_true` nouns and verbs, the word with the largest lift (see `negcap.augment.truth.estimates`); of other
    likely changes, the thing; of what stands for all words that are not drawn, how to list them. Unchanged if a limit
    or a fault of the sentence decided.
    """
    candidate, own = judged.candidate, said.caption
    if judged.reason is None or judged.detail is not None:
        return judged
    if candidate.change == NOTHING.change and candidate.rejected and not judged.text:
        return judged._replace(detail="no word was drawn, most are refused for this reason; excluded=true lists them")
    if judged.reason == LIKELY_TRUE:
        word = _likely(candidate.assertion or candidate, said)
        places = (one for one in (own, *said.siblings.captions) if word in mentioned_nouns(one))
        place = next(places, own)
        return judged._replace(detail=word, sibling_id=None if place is own else place.caption_id)
    if judged.reason == "sibling_says_so":
        text = (judged.text or apply(own.text, candidate.edits)).lower()
        if text in said.texts:  # it says what a sibling says word by word, or its own caption
            same = (one for one in said.siblings.captions if one is not own and one.text.lower() == text)
            return judged._replace(sibling_id=next((one.caption_id for one in same), None))
    if judged.reason in OF_WORDS:
        for found in CHECKS[candidate.change](candidate, said):
            if found.reason == judged.reason:
                word, sibling_id = found.said()
                return judged._replace(detail=word, sibling_id=sibling_id)
    return judged


def _likely(candidate: Candidate, said: Said) -> str | None:
    """The word of the image's captions that makes a candidate likelier than any other of them does; None: none."""
    kind = KIND_OF_CHANGE.get(candidate.change, "")
    if said.image is None or kind in ASSERTIONS:
        return said.caption.tokens[candidate.slots[-1]].lemma
    nouns = frozenset(chain.from_iterable(map(mentioned_nouns, said.image.captions)))
    return said.image.truth.associations[kind].strongest(nouns, candidate.replacement)
