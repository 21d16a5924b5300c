"""Where the sentences of a caption begin and end."""

from __future__ import annotations

from bisect import bisect_right

from ..caption import Caption, cached_on_caption

ENDS = frozenset([".", "!", "?", "...", "…"])
HYPHENS = ("-", "–", "—", "--")
# After one of these a word may have a capital as at the start of a text: 'Photo: Two men', '"A dog is here"'.
OPENING = ENDS | frozenset(
    [":", ";", "(", "[", '"', "“", "”", "„", "«", "‘", "'", "``", "''", "*", "•", "|", "/", *HYPHENS]
)


@cached_on_caption
def sentence_starts(caption: Caption) -> tuple[int, ...]:
    """The first token of each sentence: that of the text, and each one after a full stop."""
    starts = [0]
    has_ended = False
    for token in caption.tokens:
        if token.text in ENDS:
            has_ended = True
        elif has_ended and token.pos != "PUNCT":
            starts.append(token.index)
            has_ended = False
    return tuple(starts)


def sentence_number(caption: Caption, index: int) -> int:
    """The number of the sentence that a token is in, from 0."""
    return bisect_right(sentence_starts(caption), index) - 1


def in_one_sentence(caption: Caption, first: int, second: int) -> bool:
    """Whether two tokens are in the same sentence of a caption."""
    return sentence_number(caption, first) == sentence_number(caption, second)


def begins_sentence(caption: Caption, index: int) -> bool:
    """Whether a token begins the text, a sentence, a quotation, or what follows a colon or a dash.

    There a capital says nothing of the word: it need not be a name.
    """
    return index == 0 or caption.tokens[index - 1].text in OPENING
