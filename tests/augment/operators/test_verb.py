import pytest

from negcap.augment.language.parse import parse
from negcap.augment.slots.verbs import are_incompatible, inflected, verb_slots
from tests.augment.fixtures import accepted, proposals

pytestmark = pytest.mark.usefixtures("without_floors")


@pytest.mark.parametrize(
    ("one", "other", "pattern", "expected"),
    [
        ("sit", "stand", "prep:on", True), ("run", "sleep", "bare", True), ("throw", "eat", "object", True),
        ("sit", "rest", "prep:on", False), ("sit", "ride", "prep:on", False), ("hold", "carry", "object", False),
        ("walk", "talk", "prep:on", False), ("run", "jump", "bare", False), ("eat", "devour", "object", False),
        ("be", "sit", "prep:on", False), ("pose", "stand", "bare", False), ("sit", "sit", "bare", False),
    ],
)  # fmt: skip
def test_which_verbs_exclude_one_another(one: str, other: str, pattern: str, expected: bool) -> None:
    assert are_incompatible(one, other, pattern) == are_incompatible(other, one, pattern) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A boy throws a ball.", [("throw", "object")]),
        ("A dog sitting on a bed.", [("sit", "prep:on")]),
        ("A dog is sleeping.", [("sleep", "bare")]),
        ("A man sits down.", []),
        ("A man wants to sleep.", []),
        ("The ball is thrown by a man.", []),
        ("A plane sits on a runway.", []),
        ("A man throws it.", []),
    ],
)
def test_slots_know_the_argument_pattern(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(slot.entry, slot.pattern) for slot in verb_slots(parse([text])[0])] == expected


@pytest.mark.parametrize(
    ("lemma", "tag", "expected"),
    [
        ("sit", "VBG", "sitting"), ("sit", "VBZ", "sits"), ("catch", "VBZ", "catches"), ("sit", "VBP", "sit"),
        ("sit", "VBD", None),
    ],
)  # fmt: skip
def test_verbs_are_inflected_as_the_corpus_writes_them(lemma: str, tag: str, expected: str | None) -> None:
    assert inflected(lemma, tag, {"sit": "sitting"} if tag == "VBG" else {}) == expected


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("A man is standing on the street.", "A man is sitting on the street."),
        ("A dog sits on a bed.", "A dog stands on a bed."),
        ("Two dogs are running on the beach.", "Two dogs are lying on the beach."),
        ("A man is holding a ball.", "A man is chasing a ball."),
    ],
)
def test_verb_keeps_form_and_pattern(text: str, among: str) -> None:
    assert among in accepted("verb", text)


def test_verb_heeds_the_siblings() -> None:
    made = dict(proposals("verb", "A man is standing on the street.", "A man sits on the ground."))
    assert made["A man is sitting on the street."] == "sibling_says_so"


def test_an_auxiliary_says_nothing() -> None:
    assert accepted("verb", "A man is standing on the street.", "A man is in the street.")


def test_a_noun_that_implies_the_verb_says_it() -> None:
    made = dict(proposals("verb", "A man is walking on the beach.", "A surfer and a swimmer on a beach."))
    assert not [text for text, reason in made.items() if reason is None and ("surfing" in text or "swimming" in text)]
