"""The examples of the page on operators are what the operators make, with nothing switched off."""

from __future__ import annotations

import re

import pytest

import negcap
from negcap.augment.operators import OPERATORS
from tests.docs.pages import FOLDER

PAGE = (FOLDER / "reference" / "operators.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"^\| `(\w+)` \|(?:[^|]+\|){2} ([^|]+) \|$", PAGE, re.M))  # name, family, meaning, example
CHECKED = [name for name, kind in OPERATORS.items() if kind.traits.is_checked and kind.family != "positive"]


@pytest.mark.parametrize("operator", CHECKED)
def test_an_operator_makes_its_example(operator: str) -> None:
    """The example is a caption and its negative: "a cat ~~on~~ **under** the table"."""
    example = EXAMPLES[operator]
    old = re.sub(r"\*\*[^*]+\*\*", "", example).replace("~~", "")
    new = re.sub(r"~~[^~]+~~", "", example).replace("**", "")
    caption, negative = (" ".join(text.split()).replace(" .", ".") for text in (old, new))
    assert negative != caption
    assert negative in set(negcap.negatives([caption], operators=[operator])["text"])
