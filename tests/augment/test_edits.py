import pytest
from hypothesis import given
from hypothesis import strategies as st

from negcap.augment.edits import Edit, apply_edits, cased, cased_like
from negcap.augment.language.parse import parse
from tests.cases import cases_of

CASES = cases_of(__file__)["edits"]


def test_apply():
    assert apply_edits("A dog.", [Edit(2, 5, "cat")]) == "A cat."
    assert apply_edits("A dog.", []) == "A dog."
    assert apply_edits("A dog and a cat.", [Edit(0, 5, "A cat"), Edit(10, 15, "a dog")]) == "A cat and a dog."


@pytest.mark.parametrize("edits", [[Edit(2, 5, "x"), Edit(4, 6, "y")], [Edit(5, 2, "x")], [Edit(2, 99, "x")]])
def test_apply_refuses_overlaps_and_bounds(edits):
    with pytest.raises(ValueError, match="edits must"):
        apply_edits("A dog.", edits)


@given(
    st.text(max_size=40), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.text(max_size=5)), max_size=4)
)
def test_apply_keeps_what_is_not_edited(text, spans):
    edits, position, kept = [], 0, []
    for a, b, new in sorted((min(a, b), max(a, b), new) for a, b, new in spans):
        if a >= position and b <= len(text):
            kept.append(text[position:a])
            edits.append(Edit(a, b, new))
            position = b
    kept.append(text[position:])
    changed = apply_edits(text, edits)
    assert len(changed) == len(text) + sum(len(new) - (b - a) for a, b, new in edits)
    assert changed.startswith(kept[0]) and changed.endswith(kept[-1])


@pytest.mark.parametrize(("new", "old", "casing", "first", "expected"), CASES["cased"])
def test_cased(new, old, casing, first, expected):
    assert cased(new, old, casing, first=first) == expected


@pytest.mark.parametrize(("new", "old", "casing", "expected"), CASES["inflected"])
def test_inflected(new, old, casing, expected):
    assert cased_like(new, old, casing) == expected


def test_the_casing_of_a_caption():
    texts = {
        "sentence": ["A dog on a couch.", "A man throws a Frisbee to a TV.", "Dog", "two dogs in New York City"],
        "upper": ["A DOG ON A COUCH"],
        "title": ["A Dog Runs With the Man"],
    }
    for casing, own in texts.items():
        assert {one.casing for one in parse(own)} == {casing}
