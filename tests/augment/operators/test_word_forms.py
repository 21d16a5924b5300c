"""Every operator takes every form of a word, whether or not the lexicon has counted it."""

from __future__ import annotations

from itertools import cycle

import pytest

from negcap.augment.caption import by_image
from negcap.augment.generate import NegativesConfig, generate_for_images
from negcap.augment.language.grammar import plural_of
from negcap.augment.language.parse import parse
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.operators import OPERATORS, PRESETS
from negcap.augment.operators.negation_sites import FRAMES as NEGATED
from negcap.augment.rows import OPERATOR_ERROR
from negcap.augment.truth.estimates import MAX_P_TRUE
from negcap.pipelines.api.augmenter import _load_resources
from tests.augment.fixtures import sample_lexicon

FRAMES = (
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
SAMPLED = 12  # of the nouns of each lexicon that it has in one number only


def texts(lexicon: Lexicon) -> list[str]:
    """Captions with nouns in the singular and plural that the lexicon has in one number only, and odd words."""
    nouns = sorted(frozenset().union(*(frame.nouns for frame in NEGATED.values())) & set(lexicon.nouns.names))
    half = [noun for noun in nouns if (noun in lexicon.singular) != (noun in lexicon.plural)]
    assert half
    forms = [
        form for noun in half[:: -(-len(half) // SAMPLED)] for form in (f"a {noun}", plural_of(noun), noun.title())
    ]
    return [
        *(frame.format(form, form) for form in forms[1::3] for frame in FRAMES[:3]),
        *(frame.format(word, word) for frame, word in zip(cycle(FRAMES), [*forms, *ODD], strict=False)),
        *ODD,
    ]


@pytest.mark.parametrize("name", ["own", "reference"])
def test_no_operator_fails(name):
    lexicon, truth = (
        (sample_lexicon(), None) if name == "own" else _load_resources("reference", ("", "", ""), MAX_P_TRUE, None)
    )
    captions = parse(texts(lexicon))
    uniform = tuple(name for name in OPERATORS if name not in PRESETS["all"])
    for operators, some in ((PRESETS["all"], captions), (uniform, captions[::3])):
        made = generate_for_images(by_image(some), lexicon, NegativesConfig(operators=operators, per_family=4), truth)
        assert sum(len(one.accepted) for of_caption in made.results for one in of_caption.values()) > len(some)
        rejected = [row for of_caption in made.results for one in of_caption.values() for row in one.rejected]
        assert rejected and OPERATOR_ERROR not in {row.reason for row in rejected}
