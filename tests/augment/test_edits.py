"""Edits of a caption, and in which case what they insert is written."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from negcap.augment.edits import Edit, apply_edits, cased, cased_like
from negcap.augment.language.parse import parse
from tests.cases import cases_of

CASES = cases_of(__file__)["edits"]
SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.text("ab ", max_size=5)), max_size=4)


@settings(deadline=None)
@given(st.text("abc ", max_size=40), SPANS)
def test_edits_replace_their_spans_and_keep_the_rest(text, spans):
    edits, pieces, position = [], [], 0
    for start, end, new in sorted((min(a, b), max(a, b), new) for a, b, new in spans):
        if start >= position and end <= len(text):
            edits.append(Edit(start, end, new))
            pieces += [text[position:start], new]
            position = end
    assert apply_edits(text, edits) == "".join(pieces) + text[position:]


@pytest.mark.parametrize("edits", [[Edit(2, 5, "x"), Edit(4, 6, "y")], [Edit(5, 2, "x")], [Edit(2, 99, "x")]])
def test_edits_that_overlap_or_leave_the_text_are_refused(edits):
    with pytest.raises(ValueError, match="edits must"):
        apply_edits("A dog.", edits)


@pytest.mark.parametrize(("new", "old", "casing", "first", "expected"), CASES["cased"])
def test_a_word_is_written_as_the_one_before(new, old, casing, first, expected):
    assert cased(new, old, casing, first=first) == expected


@pytest.mark.parametrize(("new", "old", "casing", "expected"), CASES["inflected"])
def test_another_form_of_a_word_is_written_as_it(new, old, casing, expected):
    assert cased_like(new, old, casing) == expected


@pytest.mark.parametrize(("casing", "texts"), CASES["casing"].items())
def test_the_casing_of_a_caption(casing, texts):
    assert {caption.casing for caption in parse(texts)} == {casing}
