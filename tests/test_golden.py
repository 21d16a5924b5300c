"""The sample's negatives, word for word: a change of any operator shows as a diff of tests/golden."""

import pytest

from negcap.augment.generate import OPERATOR_ERROR, TOO_LONG
from negcap.augment.operators import PRESETS
from negcap.pipelines.report.rows import headline, marked
from negcap.pipelines.tables.columns import table_of
from tests.tables import rows_of


def shown(chosen: list[dict]) -> str:
    return "".join(f"{headline(row)}\n  {marked(row)}\n" for row in chosen)


# No swap of noun phrases in the sample is plausible.
@pytest.mark.parametrize("operator", sorted(set(PRESETS["all"]) - {"shuffle"}))
def test_the_first_negative_of_every_caption(operator, sample_run, golden):  # type: ignore[no-untyped-def]
    table = table_of([operator])
    key = table.removesuffix("s") + "_id"
    mine = [row for row in rows_of(sample_run, table) if row[key].endswith(f"#{operator}:0")]
    assert mine
    golden(f"{table}.{operator}.txt", shown(mine))


def test_the_first_refusals_for_every_reason(sample_run, golden):  # type: ignore[no-untyped-def]
    chosen: dict[tuple[str, str], list[dict]] = {}
    for row in rows_of(sample_run, "rejections"):
        same = chosen.setdefault((row["operator"], row["reason"]), [])
        if len(same) < 3:
            same.append(row)
    assert chosen and {OPERATOR_ERROR, TOO_LONG}.isdisjoint(reason for _, reason in chosen)
    golden("rejections.txt", shown([row for key in sorted(chosen) for row in chosen[key]]))
