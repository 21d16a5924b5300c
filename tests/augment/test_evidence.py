"""The evidence for captions, gathered one image at a time or for many together."""

from __future__ import annotations

from functools import partial
from itertools import count

import numpy as np
import pytest

from negcap.augment.candidates import Batch
from negcap.augment.caption import Caption, Token
from negcap.augment.evidence import BATCH_CAPTIONS, BATCH_TOKENS, batches, gather_evidence, mentions_of
from negcap.augment.kinds import KINDS
from negcap.augment.truth.contradiction import said_by_caption, said_by_sibling
from tests.augment.fixtures import batch_of, captions_of, sample_images

COLUMNS = ("unit", "log_p", "log_odds", "weight", "reason", "least_unnatural")


def test_evidence_and_candidates_do_not_depend_on_which_captions_are_read_together():
    images, first = sample_images(12), 0
    together = batch_of(images, *KINDS)
    for captions in images:
        alone = batch_of([captions], *KINDS)
        beside = together.evidence[first : first + len(captions)]
        for own, other in zip(alone.evidence, beside, strict=True):
            assert np.array_equal(own.encoding.vectors, other.encoding.vectors)
            assert own.encoding.scores == other.encoding.scores
            assert (own.siblings, own.caption_mentions) == (other.siblings, other.caption_mentions)
            assert (own.sibling_mentions, own.texts) == (other.sibling_mentions, other.texts)
        assert values_by_word(alone, 0, len(captions)) == values_by_word(together, first, len(captions))
        first += len(captions)


def values_by_word(batch: Batch, first: int, number: int) -> dict[tuple, bytes]:
    """What the table says of each candidate of so many captions of a batch, to the last bit."""
    table = batch.candidates
    values = {}
    for candidate, caption in enumerate((table.caption_of_candidate - first).tolist()):
        if 0 <= caption < number:
            slot = table.slots[table.slot[candidate]]
            columns = [getattr(table, column)[candidate] for column in COLUMNS]
            values[caption, slot.kind, slot.start, int(table.entry[candidate])] = np.array(columns, float).tobytes()
    assert values
    return values


def test_siblings_mention_what_any_other_caption_of_the_image_does():
    for captions in sample_images(20):
        for evidence, caption in zip(gather_evidence([captions])[:2], captions, strict=False):
            others = [mentions_of(other) for other in captions if other is not caption]
            for kind in KINDS:
                assert evidence.sibling_mentions[kind] == frozenset().union(*(said[kind] for said in others))


@pytest.mark.parametrize(("siblings", "named"), [
    (["An animal near a cat.", "Two animals."], {"animal", "cat"}),  # several animals may be a dog and a cat
    (["An animal near a cat."], {"cat"}),
])  # fmt: skip
def test_what_only_says_less_of_the_replaced_noun_is_not_specific(siblings, named):
    (own, *_) = gather_evidence([captions_of("A dog runs.", *siblings)])
    assert own.specific_sibling_nouns("dog") & {"animal", "cat"} == named


def test_the_first_sibling_that_fits_decides():
    captions = captions_of("A red or pink car.", "A street.", "A blue car.", "A blue and a green car.")
    own = gather_evidence([captions])[0]
    found = said_by_sibling("sibling_says_so", own, "attribute", lambda mention: mention[1] in ("blue", "green"))
    assert found == ("sibling_says_so", "blue", captions[2].caption_id)
    assert said_by_sibling("sibling_says_so", own, "attribute", lambda mention: mention[1] == "red") is None
    said = said_by_caption("caption_says_so", own, "attribute", lambda mention: mention[1] in ("red", "pink"))
    assert said == ("caption_says_so", "pink", None)  # the first by the alphabet, whatever the order of a set


@pytest.mark.parametrize("tokens", [0, 10, 200])
@pytest.mark.parametrize("sizes", [[5], [1] * 300, [5] * 60, [BATCH_CAPTIONS, 1, BATCH_CAPTIONS + 3, 2]])
def test_batches_are_of_whole_images_in_order(sizes, tokens):
    ids = count()
    caption = partial(Caption, tokens=(Token(0, 0, 1, "a", "a", "", "", "", 0),) * tokens, chunks=())
    images = [[caption(str(next(ids)), "", "a") for _ in range(size)] for size in sizes]
    found = list(batches(images))
    assert not list(batches([]))
    assert [image for batch in found for image in batch] == images
    for batch, following in zip(found, [*found[1:], []], strict=True):
        captions = sum(map(len, batch))
        assert len(batch) == 1 or (len(batch) > 1 and captions * tokens <= BATCH_TOKENS)
        assert sum(map(len, batch[:-1])) < BATCH_CAPTIONS
        if following:
            assert captions >= BATCH_CAPTIONS or (captions + len(following[0])) * tokens > BATCH_TOKENS
