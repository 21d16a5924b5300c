import pyarrow as pa
import pytest

from negcap.schemas.captions import CAPTIONS
from negcap.schemas.fields import check, column, description, int32, listed, schema, struct
from negcap.schemas.markdown import TABLES, markdown, replaced

NESTED = schema("nested", 1, items=column(listed(struct(x=int32("a number"))), "numbers"))


def test_every_column_is_described_and_a_schema_says_its_name_and_version():
    assert all(description(column) for table in TABLES for column in table)
    assert CAPTIONS.metadata == {b"table": b"captions", b"schema_version": b"1"}


def test_markdown_says_what_a_column_holds():
    text = markdown()
    assert "## `captions`\n\n| column | meaning |\n" in text
    assert "| `edits` `list<struct<start, end, old, new>>` | disjoint edits of caption, in order |" in text


def test_a_replaced_section_needs_its_markers():
    assert replaced("a <b>old<e> z", "<b>", "<e>", "new") == "a <b>\n\nnew\n\n<e> z"
    for text in ("no markers", "<b> only", "only <e>"):
        with pytest.raises(ValueError, match="text must hold <b> and <e>"):
            replaced(text, "<b>", "<e>", "new")


def items(values: list) -> pa.Table:
    return pa.Table.from_arrays([pa.array(values, NESTED.field(0).type)], names=["items"])


@pytest.mark.parametrize(("table", "message"), [
    (pa.table({"other": [1]}), r"nested: columns must be \['items'\], were: \['other'\]"),
    (pa.table({"items": [1]}), r"nested.items: type must be .*, was: int64"),
    (items([None]), r"nested.items: must not be null"),
    (items([[{"x": None}]]), r"nested.items\[\].x: must not be null"),
])  # fmt: skip
def test_check_names_what_does_not_fit(table, message):
    check(items([[{"x": 1}], []]).cast(NESTED), NESTED)
    with pytest.raises(ValueError, match=message):
        check(table, NESTED)
