"""Every operator takes every form of a word, whether or not the lexicon has counted it."""

from __future__ import annotations

from itertools import cycle

import pytest

from negcap.augment.caption import by_image
from negcap.augment.generate import NegativesConfig, generate_for_images
from negcap.augment.language.grammar import plural_of
from negcap.augment.language.parse import parse
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.operators import OPERATORS
from negcap.augment.operators.negation_sites import FRAMES
from negcap.augment.rows import OPERATOR_ERROR
from negcap.augment.truth.estimates import MAX_P_TRUE
from negcap.pipelines.api.augmenter import _load_resources
from tests.augment.fixtures import sample_lexicon

SENTENCES = (
    "A man stands near {} .",
    "A red dog with {} runs on the beach .",
    "There are two {} in a small room .",
    "A woman wearing {} and holding {} .",
)
ODD = (
    *"SCARVES sCaRf Churches T-shirts merry-go-rounds 3 cafés \u0130stanbul 猫 \U0001f415 dog\u2019s Straße".split(),
    *"O\u2019Neill - #tags %s {0} people person glasses sheep".split(),
    *("1,000 dogs", "a 4x4", "½ apples", "naïve façades", "( )", "no dogs", "a pair of scissors", "dogs cats birds"),
)


def texts(lexicon: Lexicon) -> list[str]:
    """Captions with nouns that the lexicon has in one number only, in both numbers, and with odd words."""
    nouns = sorted(frozenset().union(*(frame.nouns for frame in FRAMES.values())) & set(lexicon.nouns.names))
    of_one_number = [noun for noun in nouns if (noun in lexicon.singular) != (noun in lexicon.plural)]
    words = [*ODD]
    for noun in of_one_number[:: -(-len(of_one_number) // 10)]:
        words += [f"a {noun}", plural_of(noun), noun.title()]
    assert len(words) > len(ODD)
    return [*ODD, *(sentence.format(word, word) for word, sentence in zip(words, cycle(SENTENCES), strict=False))]


@pytest.mark.parametrize("name", ["own", "reference"])
def test_no_operator_fails(name):
    lexicon, truth = sample_lexicon(), None
    if name == "reference":
        lexicon, truth = _load_resources("reference", ("", "", ""), MAX_P_TRUE, None)
    config = NegativesConfig(operators=tuple(OPERATORS), per_family=4)
    captions = parse(texts(lexicon))
    generated = generate_for_images(by_image(captions), lexicon, config, truth)
    made = [result for of_caption in generated.results for result in of_caption.values()]
    assert sum(len(result.accepted) for result in made) > len(captions)
    assert OPERATOR_ERROR not in {row.reason for result in made for row in result.rejected}
