import pytest

from negcap.augment.language.parse import parse
from negcap.augment.slots.nouns import noun_slots


def plurals(text: str) -> list[str]:
    (caption,) = parse([text])
    return [slot.entry for slot in noun_slots(caption) if slot.plural]


@pytest.mark.parametrize(
    "text",
    [
        "A tan dog licks a girls hand.",
        "a man holds a girls hand",
        "A women stands behind a fence.",
        "A child pulls an umbrellas out of a bag.",
        "Each dogs runs.",
    ],
)
def test_a_plural_behind_a_singular_determiner_is_not_edited(text: str) -> None:
    assert plurals(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A few dogs run.", ["dog"]),
        ("Another two men sit on a bench.", ["man"]),
        ("Two girls hold a dog.", ["girl"]),
        ("A man with many hats.", ["hat"]),
    ],
)
def test_what_counts_makes_a_plural_clear(text: str, expected: list[str]) -> None:
    assert plurals(text) == expected
