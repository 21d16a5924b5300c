import pytest

from negcap.augment.language.parse import parse
from negcap.augment.slots.denials import denials
from tests.augment.fixtures import accepted

pytestmark = pytest.mark.usefixtures("without_floors")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A man is riding a bike.", {"A man is not riding a bike."}),
        ("A man rides a bike.", {"A man does not ride a bike."}),
        ("Two men ride a bike.", {"Two men do not ride a bike."}),
        ("A man riding a bike.", {"A man not riding a bike."}),
        ("A dog with a red ball runs.", {"A dog without a red ball runs.", "A dog with a red ball does not run."}),
        ("There is a dog on the bed.", {"There is no dog on the bed."}),
        ("A table with a cup and a plate.", {"A table with a cup but no plate."}),
        ("A man without a hat.", {"A man with a hat."}),
        ("A man is not riding a bike.", {"A man is riding a bike."}),
    ],
)
def test_negation_denies_what_the_caption_says_or_says_what_it_denies(text: str, expected: set[str]) -> None:
    assert set(accepted("negation", text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "A man with a big nose.",
        "A box filled with apples is here.",
        "A man with two dogs.",
        "A man in a red shirt.",
        "A room with no table.",
    ],
)
def test_what_is_bound_or_counted_is_not_denied(text: str) -> None:
    assert not [place for place in denials(parse([text])[0]) if place.frame == "with"]


def test_true_negations_deny_other_nouns_and_verbs_in_the_same_places() -> None:
    verbs = accepted("true_negation", "A man is sitting on a bench.")
    assert "A man is not standing on a bench." in verbs
    assert all(" is not " in text for text in verbs) and "A man is not sitting on a bench." not in verbs
    nouns = accepted("true_negation", "A man on a bench with a ball.")
    assert nouns and all(text.startswith("A man on a bench without a") for text in nouns)
    assert not [text for text in nouns if "a ball" in text]


def test_what_a_sibling_mentions_is_not_denied_as_absent() -> None:
    alone = accepted("true_negation", "A man on a bench with a ball.")
    beside = accepted("true_negation", "A man on a bench with a ball.", "A horse and a cat near a man.")
    assert any("horse" in text or "cat" in text for text in alone)
    assert not [text for text in beside if "horse" in text or "cat" in text]
