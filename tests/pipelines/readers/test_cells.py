"""Cells of tables that hold lists of captions, as `build` and `import` read them. The sentences are made up."""

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from negcap.pipelines import readers
from negcap.pipelines.readers.cells import captions_in, items_of
from negcap.pipelines.readers.pairs import CaptionWithNegatives, read_pairs
from negcap.pipelines.readers.record import MAX_CAPTIONS, MAX_TEXT, ReadOptions, Record, Rejected

DOG, BALL = "A dog sleeps.", "A dog's ball."
LISTS = {
    "JSON": json.dumps([DOG, BALL]),
    "JSON, spaced": f' [ "{DOG}" ,\n "{BALL}" ] ',
    "Python": repr([DOG, BALL]),
    "Python 2": f"[u'{DOG}', u\"{BALL}\"]",
    "a comma at the end": f"['{DOG}', \"{BALL}\",]",
    "an escaped quote": f"['{DOG}', 'A dog\\'s ball.']",
    "numpy": f"['{DOG}' \"{BALL}\"]",
    "numpy, two lines": f"['{DOG}'\n \"{BALL}\"]",
}
TEXTS = (
    "[blurred] A man walks.",
    "[blurred]",
    "[A man, a dog]",
    "A man walks [blurred]",
    "[blurred] A man walks [again]",
    "['A dog sleeps.] A dog lies.]",
    "[dog for dog in dogs]",
    "[" * 5000 + "]" * 5000,
    "",
    "[",
    "]",
)


@pytest.mark.parametrize("written", LISTS.values(), ids=LISTS)
def test_a_list_written_as_text_is_its_items(written: str) -> None:
    assert items_of(written) == [DOG, BALL]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:12])
def test_a_text_that_only_has_brackets_stays_a_text(text: str) -> None:
    if text.startswith("[["):
        assert len(items_of(text)) == 1
    else:
        assert items_of(text) == [text]


def test_other_cells() -> None:
    assert items_of([DOG, BALL]) == items_of((DOG, BALL)) == [DOG, BALL]
    assert items_of(None) == [None] and items_of(7) == [7] and items_of("[]") == items_of([]) == []
    assert items_of("['A d\\og.', 'A cat.']") == ["A d\\og.", "A cat."]  # without a warning of Python's
    assert items_of("['A', None, {'caption': 'B'}]") == ["A", None, {"caption": "B"}]
    too_long = json.dumps(["x" * MAX_TEXT] * MAX_CAPTIONS)
    assert items_of(too_long) == [too_long]


def table_of(name: str, rows: list[dict[str, str]]) -> bytes:
    """Rows as a table of the kind that the name of a file ends with, quoted as a CSV writer does it."""
    kind = name.rpartition(".")[2]
    if kind == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows), sink)
        return sink.getvalue().to_pybytes()
    if kind == "jsonl":
        return "\n".join(map(json.dumps, rows)).encode()
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter="\t" if kind == "tsv" else ",")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
@pytest.mark.parametrize("way", ["JSON", "Python", "numpy"])
def test_a_list_in_a_cell_becomes_captions_of_its_image(name: str, way: str, tmp_path: Path) -> None:
    cells = {"1.jpg": LISTS[way], "2.jpg": "[blurred] A man walks.", "3.jpg": "[]", "4.jpg": "['A cow.', None]"}
    path = tmp_path / name
    rows = [{"raw": cell, "sentids": "[0, 1]", "split": "train", "filename": image} for image, cell in cells.items()]
    path.write_bytes(table_of(name, rows))
    records = list(readers.read(str(path), readers.detect(str(path)), ReadOptions()))
    kept = [(record.image, record.text) for record in records if isinstance(record, Record)]
    assert kept == [("1.jpg", DOG), ("1.jpg", BALL), ("2.jpg", "[blurred] A man walks."), ("4.jpg", "A cow.")]
    refused = [(record.reason, record.detail) for record in records if isinstance(record, Rejected)]
    assert refused == [("no_text", "caption must be text, was: []"), ("no_text", "caption must be text, is missing")]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_import_reads_such_cells_alike(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    row = {"filepath": "1.jpg", "title": LISTS["Python"], "neg_caption": "['A cat sleeps.' 'A cow sleeps.']"}
    path.write_bytes(table_of(name, [row, {**row, "title": "[blurred] A man."}, {**row, "title": "[]"}]))
    first, second, third = read_pairs(str(path))
    assert isinstance(first, CaptionWithNegatives) and isinstance(second, CaptionWithNegatives)
    assert isinstance(third, Rejected)
    assert first.captions == (DOG, BALL)  # that of the negatives comes first
    assert [negative.text for negative in first.negatives] == ["A cat sleeps.", "A cow sleeps."]
    assert second.captions == ("[blurred] A man.",)
    assert third.detail == "caption must be text, was: []"


CELLS = {  # a cell, and its captions
    "objects": ([{"raw": DOG, "tokens": ["a"]}, {"raw": BALL}], [DOG, BALL]),
    "an object as text": (json.dumps({"caption": DOG}), [DOG]),
    "an object as Python prints it": (repr({"text": BALL}), [BALL]),
    "objects as text": (json.dumps([{"caption": DOG}, {"caption": BALL}]), [DOG, BALL]),
    "a set phrase in braces": ("{blurred} A man", ["{blurred} A man"]),
    "a conversation": ([{"from": "human", "value": "What?"}, {"from": "gpt", "value": DOG}], [DOG]),
    "a conversation as text": (json.dumps([{"from": "human", "value": "?"}, {"from": "gpt", "value": DOG}]), [DOG]),
    "messages in parts": (
        [{"role": "user", "content": [{"type": "text", "text": "What?"}]},
         {"role": "assistant", "content": [{"type": "text", "text": DOG}]}], [DOG]),
    "numbered lines": (f"1. {DOG}\n2. {BALL}\n", [DOG, BALL]),
    "bullets": (f"- {DOG}\n\n- {BALL}", [DOG, BALL]),
    "lines of one text": (f"{DOG}\n{BALL}", [f"{DOG}\n{BALL}"]),
    "nothing": ([], [[]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CELLS)
def test_captions_in_a_cell(name: str) -> None:
    cell, captions = CELLS[name]
    assert captions_in(cell) == captions
