"""The examples of the page on operators are what the operators make, with nothing switched off."""

from __future__ import annotations

import re

import pytest

import negcap
from negcap.augment.operators import OPERATORS
from tests.docs.pages import FOLDER

EXAMPLE = re.compile(r"~~(?P<old>[^~]+)~~ ?|\*\*(?P<new>[^*]+)\*\*")


def examples() -> dict[str, str]:
    """The example of each operator that checks its negatives and replaces something."""
    rows = (FOLDER / "reference" / "operators.md").read_text("utf-8").splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("| `")]
    found = {cell[0].strip("`"): cell[-1] for cell in cells if len(cell) == 4}
    return {
        name: found[name]
        for name, operator in OPERATORS.items()
        if operator.traits.is_checked and operator.family != "positive"
    }


def before_and_after(example: str) -> tuple[str, str]:
    """The caption and the negative of "a cat ~~on~~ **under** the table"."""
    old = EXAMPLE.sub(lambda match: f"{match['old']} " if match["old"] else "", example)
    new = EXAMPLE.sub(lambda match: match["new"] or "", example)
    return (" ".join(text.split()).replace(" .", ".") for text in (old, new))  # type: ignore[return-value]


@pytest.mark.parametrize(("operator", "example"), examples().items())
def test_an_operator_makes_its_example(operator: str, example: str) -> None:
    caption, negative = before_and_after(example)
    assert negative != caption
    assert negative in set(negcap.negatives([caption], operators=[operator])["text"])
