"""What a caption denies or leaves open, and which numbers are bounds; what is denied or open is in capitals."""

from pathlib import Path

import pytest

from negcap.augment.caption import Caption
from negcap.augment.generate import NegativesConfig, generate_for_images
from negcap.augment.language.negation import bound_of, leaves_count_open, unsettled_tokens
from negcap.augment.language.parse import parse
from negcap.augment.operators import PRESETS
from negcap.augment.truth.estimates import MAX_P_TRUE
from negcap.pipelines.api.augmenter import _load_resources
from tests.augment.fixtures import UNLIMITED, accepted
from tests.cases import cases_of

CASES = cases_of(__file__)["negation"]
# What is denied or left open in capitals, a caption a line; words stand apart.
DENIED = Path(__file__).with_name("denied.txt").read_text("utf-8").splitlines()
# Nothing is made of these, since the parse or too little is known of the rest.
REFUSED = ("A kitchen WITH", "A beach DEVOID", "A man NOT LOOKING", "A group of people NONE", "Two boys ,", "It is")
# "Without" may give way to another preposition, and an upper bound to a higher count, since both deny what is denied.
TURNED = {"preposition": ("without",), "numeral": ("at most", "more than", "fewer than", "less than", "up to")}
OPERATORS = tuple(name for name in PRESETS["all"] if name not in ("negation", "true_negation", "paraphrase"))
NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()


def plain(line: str) -> str:
    """A line of DENIED as it would be written."""
    text = ". ".join(sentence[:1].upper() + sentence[1:].lower() for sentence in line.split(" . "))
    marks = {" .": ".", " ,": ",", " ?": "?", " n't": "n't", "no one . a": "no one. A"}
    for apart, written in {"can not": "cannot", **marks}.items():
        text = text.replace(apart, written)
    return text


def denied_characters(line: str, text: str) -> set[int]:
    """The positions in the plain text of what a line has in capitals; a single "A" is of the word behind it."""
    words, position, denied = line.split(" "), 0, set[int]()
    for word, following in zip(words, [*words[1:], ""], strict=True):
        start = text.lower().index(word.lower(), position)
        position = start + len(word)
        if word.isupper() and (len(word) > 1 or following.isupper()):
            denied.update(range(start, position))
    return denied


def test_nothing_is_replaced_that_is_denied_and_what_stands_beside_it_is():
    lexicon, truth = _load_resources("reference", ("", "", ""), MAX_P_TRUE, None)
    captions = parse([plain(line) for line in DENIED])
    config = NegativesConfig(operators=OPERATORS, per_family=10, **UNLIMITED)
    generated = generate_for_images([[caption] for caption in captions], lexicon, config, truth)
    changed, without = [], []
    for line, caption, results in zip(DENIED, captions, generated.results, strict=True):
        denied = denied_characters(line, caption.text)
        for name, result in results.items():
            if not any(words in caption.text.lower() for words in TURNED.get(name, ())):
                starts = [(row.text, caption.tokens[token].start) for row in result.accepted for token in row.tokens]
                changed += [text for text, start in starts if start in denied]
        if not any(result.accepted for result in results.values()) and not line.isupper():
            without.append(line)
    assert changed == []
    assert [line for line in without if not line.startswith(REFUSED)] == []


def numbers_of(caption: Caption) -> list[int]:
    """The places of the numbers of a caption."""
    return [token.index for token in caption.tokens if token.tag == "CD"]


@pytest.mark.parametrize(("text", "expected"), CASES["bounds"])
def test_a_bound_gives_way_to_a_number_that_it_excludes(text, expected, without_floors):
    (caption,) = parse([text])
    bound = bound_of(caption, numbers_of(caption)[0])
    texts = accepted("numeral", text)
    assert bound is not None and expected in texts
    numbers = {NUMBERS.index(word) + 1 for negative in texts for word in negative.lower().split() if word in NUMBERS}
    assert not numbers & {*range(bound.lowest, min(bound.highest, 12) + 1)}


@pytest.mark.parametrize("text", CASES["open"])
def test_a_number_that_is_one_of_several_is_not_replaced(text, without_floors):
    (caption,) = parse([text])
    assert any(leaves_count_open(caption, number) for number in numbers_of(caption))
    assert not accepted("numeral", text)


@pytest.mark.parametrize("text", CASES["exact"])
def test_an_exact_number_is_no_bound(text):
    (caption,) = parse([text])
    (number,) = numbers_of(caption)
    assert not bound_of(caption, number) and not leaves_count_open(caption, number)


@pytest.mark.parametrize(("text", "denied"), CASES["denied"])
def test_what_is_denied(text, denied):
    (caption,) = parse([text])
    assert " ".join(caption.tokens[place].text for place in sorted(unsettled_tokens(caption))) == denied
