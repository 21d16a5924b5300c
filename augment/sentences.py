"""The sentences of a caption, which are proposed for, read and rated one by one.

A paragraph is false if one of its sentences is. So each sentence is treated as a caption of its image, and the other
sentences of its paragraph as siblings: they say what is true of the image. A caption of one sentence is that sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .caption import MAX_SENTENCE, Caption, Chunk, Token, cached_on_caption
from .edits import Edit, apply_edits
from .evidence import mentions_of
from .language.boundaries import ENDS
from .language.grammar import pronoun_edits
from .language.reference import other_mentions
from .language.semantic_classes import gender
from .mentions import mentioned_verbs
from .rows import Row
from .slots.nouns import numeral_value

CLOSING = frozenset(['"', "'", "”", "’", "''", ")", "]"])  # what may stand behind the end of a sentence
PLURAL_TAGS = ("NNS", "NNPS")
# Reasons of rejections by a sibling, where this is another sentence of the same caption.
OF_CAPTION = {
    "related_in_sibling": "related_in_caption",
    "overlap_in_sibling": "overlap_in_caption",
    "sibling_quantity": "same_quantity",
    "sibling_says_so": "caption_says_so",
}


@cached_on_caption
def sentences_of(caption: Caption) -> tuple[Caption, ...]:
    """The sentences of a caption, in order; the caption itself if it is one.

    A sentence ends with a full stop, question or exclamation mark over which the parse draws no dependency. A sentence
    of more than MAX_SENTENCE tokens loses its tokens, which marks it as `too_long`.
    """
    size = len(caption.tokens)
    # How many dependencies cross the gap before a token, minus how many cross the gap before the previous token.
    change_of_crossings = [0] * (size + 1)
    for token in caption.tokens:
        low, high = sorted((token.index, token.head))
        change_of_crossings[low + 1] += 1
        change_of_crossings[high + 1] -= 1
    starts = [0]
    crossings = 0  # of the gap before the token
    has_ended = False  # whether the token follows the end of a sentence
    for token in caption.tokens:
        crossings += change_of_crossings[token.index]
        has_ended = has_ended and token.text not in ENDS | CLOSING
        if has_ended and crossings == 0:
            starts.append(token.index)
        has_ended = token.text in ENDS or (token.text in CLOSING and caption.word(token.index - 1) in ENDS | CLOSING)
    if len(starts) == 1 and size <= MAX_SENTENCE:
        return (caption,)
    return tuple(
        _cut_sentence(caption, start, end, number) for number, (start, end) in enumerate(pairwise([*starts, size]))
    )


def _cut_sentence(caption: Caption, start: int, end: int, number: int) -> Caption:
    """The tokens `start` to `end` (exclusive) of a caption as a caption of its own, with an id of its own.

    Where the parse draws dependencies to tokens outside, these are cut: the token becomes a root.
    """
    first = caption.tokens[start].start
    tokens: tuple[Token, ...] = ()
    chunks: tuple[Chunk, ...] = ()
    if end - start <= MAX_SENTENCE:
        tokens = tuple(
            token._replace(
                index=token.index - start,
                start=token.start - first,
                end=token.end - first,
                head=(token.head if start <= token.head < end else token.index) - start,
            )
            for token in caption.tokens[start:end]
        )
        chunks = tuple(
            Chunk(start=chunk.start - start, end=chunk.end - start, root=chunk.root - start)
            for chunk in caption.chunks
            if start <= chunk.start and chunk.end <= end
        )
    return Caption(
        caption_id=f"{caption.caption_id}\x1f{number}",
        image_id=caption.image_id,
        text=caption.text[first : caption.tokens[end - 1].end],
        tokens=tokens,
        chunks=chunks,
        part_of=caption,
        first_token=start,
    )


def sentences_of_images(images: Sequence[Sequence[Caption]]) -> list[list[Caption]]:
    """For each image, the sentences of all its captions, in order."""
    return [[sentence for caption in image for sentence in sentences_of(caption)] for image in images]


def group_by_caption(sentences: Sequence[Caption]) -> list[list[int]]:
    """For each caption, the numbers of its sentences in `sentences`, where those of one caption are neighbours."""
    numbers: list[list[int]] = []
    for number, sentence in enumerate(sentences):
        if number and sentences[number - 1].whole is sentence.whole:
            numbers[-1].append(number)
        else:
            numbers.append([number])
    return numbers


def row_of_caption(row: Row, sentence: Caption, siblings: Sequence[Caption]) -> Row:
    """The row of a sentence as one of its whole caption: with its offsets, text and caption_ids.

    siblings: the other sentences of the image.
    """
    # To the checks, another sentence of the caption was a sibling; to the reader of the table it is the caption.
    caption = sentence.whole
    first = sentence.first_token
    if row.sibling_id is not None:
        whole = {sibling.caption_id: sibling.whole.caption_id for sibling in siblings}
        row.sibling_id = whole.get(row.sibling_id, row.sibling_id)
        if row.sibling_id == caption.caption_id and sentence.part_of is not None:
            row.reason = OF_CAPTION.get(row.reason or "", row.reason)
            row.sibling_id = None
    if sentence.part_of is None:
        return row
    offset = caption.tokens[first].start  # of the sentence in its caption, in characters
    row.edits = tuple(Edit(start + offset, end + offset, new) for start, end, new in row.edits)
    row.tokens = tuple(index + first for index in row.tokens)
    if row.text:
        row.text = apply_edits(caption.text, row.edits)
    return row


def repeated_elsewhere(row: Row, sentence: Caption) -> str | None:
    """The word by which another sentence of the caption says again what a row changes; None if none does.

    A thing is named again in "**A plane** is flying. **The plane** has two propellers", see
    `negcap.augment.language.reference`; an attribute or place is given to the same thing again, or a verb is repeated:
    "An elephant **walks** along a road. Its calf **walks** close beside it."
    """
    if sentence.part_of is None or not row.tokens or not row.replaced:
        return None
    others = [other for other in sentences_of(sentence.whole) if other is not sentence]
    if row.change in ("attribute", "preposition"):
        # ("car", "red"): the last of the row's tokens is the noun that the word describes or stands before.
        mention = (sentence.tokens[row.tokens[-1]].lemma, row.replaced)
        is_given_again = any(mention in mentions_of(other)[row.change] for other in others)
        return mention[0] if is_given_again else None
    if row.change == "verb":
        return row.replaced if any(row.replaced in mentioned_verbs(other) for other in others) else None
    if row.change not in ("noun", "numeral", "negated_noun"):
        return None
    first = sentence.first_token
    last = sentence.first_token + len(sentence.tokens)
    mentions = other_mentions(sentence.whole, first + row.tokens[0])
    return next((sentence.whole.lowered[index] for index in mentions if not first <= index < last), None)


def pronouns_left_behind(row: Row, sentence: Caption) -> bool:
    """Whether a pronoun of the next sentence would no longer agree with the noun that a row replaces or counts anew."""
    if sentence.part_of is None or row.change not in ("noun", "numeral") or not row.tokens:
        return False
    noun = sentence.tokens[row.tokens[0]]
    was_plural = noun.tag in PLURAL_TAGS
    is_noun = row.change == "noun"
    # If an edit is needed behind the sentence, or none is known, the pronouns there would not agree any more.
    edits = pronoun_edits(
        _with_next(sentence),
        noun.index,
        old_gender=None if was_plural else gender(noun.lemma),
        new_noun=row.replacement if is_noun else noun.lemma,
        plural=was_plural if is_noun else numeral_value(row.replacement) > 1,
    )
    return edits is None or any(edit.start >= len(sentence.text) for edit in edits)


@cached_on_caption
def _with_next(sentence: Caption) -> Caption:
    """A sentence together with the next one of its caption; alone if it is the last, or if both would be too long."""
    caption = sentence.whole
    start = sentence.first_token
    end = start + len(sentence.tokens)
    following = next((other for other in sentences_of(caption) if other.first_token == end), None)
    # If they are longer than MAX_SENTENCE, `_cut_sentence` would give them no tokens.
    if following is not None and end + len(following.tokens) - start <= MAX_SENTENCE:
        end += len(following.tokens)
    return _cut_sentence(caption, start, end, number=-1)  # sentences have numbers from 0
