"""The evidence for captions, gathered one image at a time or for many together."""

from __future__ import annotations

from functools import partial
from itertools import count

import numpy as np
import pytest

from negcap.augment.caption import Caption, Token, by_image, from_parses
from negcap.augment.evidence import BATCH_CAPTIONS, BATCH_TOKENS, batches, gather_evidence, mentions_of
from negcap.augment.kinds import KINDS
from negcap.augment.truth.contradiction import said_by_caption, said_by_sibling
from tests.augment.fixtures import batch_of, captions_of, sample_parses


def test_evidence_and_candidates_do_not_depend_on_which_captions_are_read_together() -> None:
    images = by_image(from_parses(sample_parses()))[:60]
    together = batch_of(images, *KINDS)
    table, first = together.candidates, 0
    for number, captions in enumerate(images):
        every = together.evidence[first : first + len(captions)]
        if number % 7 == 0:
            alone = batch_of([captions], *KINDS)
            for one, other in zip(alone.evidence, every, strict=True):
                assert np.array_equal(one.encoding.vectors, other.encoding.vectors)
                assert one.encoding.scores == other.encoding.scores
                for name in (
                    "caption", "siblings", "caption_mentions", "sibling_mentions", "plural_sibling_nouns", "texts",
                ):  # fmt: skip
                    assert getattr(one, name) == getattr(other, name)
            inside = (table.caption_of_candidate >= first) & (table.caption_of_candidate < first + len(captions))
            own = alone.candidates
            assert len(own) == inside.sum() > 0
            order = np.lexsort((own.entry, np.array([own.slots[slot].start for slot in own.slot])))
            theirs = np.lexsort((table.entry[inside], [table.slots[slot].start for slot in table.slot[inside]]))
            for column in ("entry", "unit", "log_p", "log_odds", "weight", "reason", "least_unnatural"):
                values = getattr(table, column)[inside]
                assert _by_caption(own.caption_of_candidate, getattr(own, column), order) == _by_caption(
                    table.caption_of_candidate[inside] - first, values, theirs
                )
        first += len(captions)


def _by_caption(captions: np.ndarray, values: np.ndarray, order: np.ndarray) -> dict[int, bytes]:
    """The values of each caption's candidates in an order, to the last bit."""
    return {caption: values[order][captions[order] == caption].tobytes() for caption in set(captions.tolist())}


def test_siblings_mention_what_any_other_caption_of_the_image_does() -> None:
    for captions in by_image(from_parses(sample_parses()))[:40]:
        for own, caption in zip(gather_evidence([captions]), captions, strict=True):
            others = [mentions_of(other) for other in captions if other is not caption]
            assert own.caption is caption
            assert own.siblings == tuple(other for other in captions if other is not caption)
            assert own.texts == {other.text.lower() for other in captions}
            assert own.caption_mentions == mentions_of(caption)
            for name in KINDS:
                assert own.sibling_mentions[name] == frozenset().union(*(its[name] for its in others))


def test_only_the_first_caption_of_an_image_may_be_asked_for() -> None:
    images = by_image(from_parses(sample_parses()))[:5]
    every = iter(gather_evidence(images))
    for first, image in zip(gather_evidence(images, only_first=True), images, strict=True):
        same, *_ = (next(every) for _ in image)
        assert (first.caption, first.siblings, first.sibling_mentions) == (
            same.caption, same.siblings, same.sibling_mentions,
        )  # fmt: skip
        assert first.encoding.scores == same.encoding.scores


def test_what_only_says_less_of_the_replaced_noun_is_not_specific() -> None:
    (own, *_) = gather_evidence([captions_of("A dog runs.", "An animal near a cat.", "Two animals.")])
    assert own.specific_sibling_nouns("dog") >= {"animal", "cat"}  # several animals may be a dog and a cat
    (own, *_) = gather_evidence([captions_of("A dog runs.", "An animal near a cat.")])
    assert own.specific_sibling_nouns("dog") & {"animal", "cat"} == {"cat"}


def test_the_first_sibling_that_fits_decides() -> None:
    captions = captions_of("A red car.", "A street.", "A blue car.", "A blue and a green car.")
    (own, *_) = gather_evidence([captions])
    found = said_by_sibling("sibling_says_so", own, "attribute", lambda mention: mention[1] in ("blue", "green"))
    assert found is not None and found == ("sibling_says_so", "blue", captions[2].caption_id)
    assert said_by_sibling("sibling_says_so", own, "attribute", lambda mention: mention[1] == "red") is None
    own_word = said_by_caption("caption_says_so", own, "attribute", lambda mention: mention[1] == "red")
    assert own_word is not None and own_word == ("caption_says_so", "red", None)


def test_evidence_prints_as_plain_data() -> None:
    (own, *_) = gather_evidence([captions_of("Two dogs on a red couch.", "A cat sleeps.")])
    printed = repr(own)
    for said in ("('dog', 2)", "('couch', 'on')", "('couch', 'red')", "'Two dogs on a red couch.'", "'sleep'"):
        assert said in printed
    assert not any(word in printed for word in ("array(", " object at 0x", "<function", "lambda"))


@pytest.mark.parametrize("tokens", [0, 10, 200])
@pytest.mark.parametrize("sizes", [[], [5], [1] * 300, [5] * 60, [BATCH_CAPTIONS, 1, BATCH_CAPTIONS + 3, 2]])
def test_batches_are_of_whole_images_in_order(sizes: list[int], tokens: int) -> None:
    captions = count()
    caption = partial(Caption, tokens=(Token(0, 0, 1, "a", "a", "", "", "", 0),) * tokens, chunks=())
    images = [[caption(str(next(captions)), "", "a") for _ in range(size)] for size in sizes]
    found = list(batches(images))
    assert [image for batch in found for image in batch] == images
    assert all(found)
    for number, batch in enumerate(found):
        following = found[number + 1] if number + 1 < len(found) else None
        own = sum(map(len, batch))
        assert len(batch) == 1 or own * tokens <= BATCH_TOKENS
        assert sum(map(len, batch[:-1])) < BATCH_CAPTIONS
        if following:
            assert own >= BATCH_CAPTIONS or (own + len(following[0])) * tokens > BATCH_TOKENS
