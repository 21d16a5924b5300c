"""The contexts of captions, read one image at a time or together."""

from __future__ import annotations

from functools import partial
from itertools import count

import numpy as np
import pytest

from negcap.augment.caption import Caption, Token, by_image, from_parses
from negcap.augment.context import CAPTIONS, TOKENS, batches, contexts
from negcap.augment.mentions import Mentions
from negcap.augment.operators.replacement import attribute_choices, noun_choices, preposition_choices, verb_choices
from tests.augment.fixtures import sample_lexicon, sample_parses


def test_readings_do_not_depend_on_which_captions_are_read_together() -> None:
    lexicon, images = sample_lexicon(), by_image(from_parses(sample_parses()))
    together = iter(contexts(images, lexicon))
    for number, captions in enumerate(images):
        every = [next(together) for _ in captions]
        if number % 7:
            continue
        for alone, caption, batched in zip(contexts([captions], lexicon), captions, every, strict=True):
            one, context = alone.said, batched.said
            assert np.array_equal(one.reading.vectors, context.reading.vectors)
            assert one.reading.scores == context.reading.scores
            assert one.siblings.texts == context.siblings.texts
            assert context.own.captions == (caption,)
            others = Mentions(tuple(other for other in captions if other is not caption))
            for name in ("nouns", "quantities", "relations", "attributes", "verbs"):
                assert getattr(context.siblings, name) == getattr(others, name)
            assert context.siblings.texts == {other.text.lower() for other in captions}
            for choices in (noun_choices, preposition_choices, attribute_choices, verb_choices):
                for a, b in zip(choices(caption, alone), choices(caption, batched), strict=True):
                    assert np.array_equal(a.weights, b.weights)
                    assert (a.log_odds is None) == (b.log_odds is None)
                    assert a.log_odds is None or np.array_equal(a.log_odds, b.log_odds)  # type: ignore[arg-type]


@pytest.mark.parametrize("tokens", [0, 10, 200])
@pytest.mark.parametrize("sizes", [[], [5], [1] * 300, [5] * 60, [CAPTIONS, 1, CAPTIONS + 3, 2]])
def test_batches_are_of_whole_images_in_order(sizes: list[int], tokens: int) -> None:
    captions = count()
    caption = partial(Caption, tokens=(Token(0, 0, 1, "a", "a", "", "", "", 0),) * tokens, chunks=())
    images = [[caption(str(next(captions)), "", "a") for _ in range(size)] for size in sizes]
    found = list(batches(images))
    assert [image for batch in found for image in batch] == images
    most = min(CAPTIONS, TOKENS // max(tokens, 1))
    assert all(sum(map(len, batch)) >= most > sum(map(len, batch[:-1])) for batch in found[:-1])
    assert all(found)
