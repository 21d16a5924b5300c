"""Two runs compared by rows."""

import io
from pathlib import Path

import pyarrow as pa

from negcap.pipelines.report.difference import difference, print_difference
from tests.tables import write_table


def write(run: Path, kept: list[str], rejected: dict[str, str], operator: str = "noun") -> Path:
    """A run of negatives "a horse", … of one caption, and of rejections with their reasons."""
    row = {"caption_id": "0", "operator": operator}
    write_table(run, "negatives", pa.Table.from_pylist([{**row, "text": text} for text in kept]))
    refused = [{**row, "text": text, "reason": reason, "detail": "dog"} for text, reason in rejected.items()]
    write_table(run, "rejections", pa.Table.from_pylist(refused))
    return run


def test_rows_are_kept_added_or_removed_and_the_other_run_says_why(tmp_path: Path) -> None:
    run = write(tmp_path / "one", ["a cat", "a bus", "a bus"], {"a pet": "compatible", "a car": "likely_true"})
    other = write(tmp_path / "other", ["a cat", "a car", "a tree"], {"a bus": "unnatural", "a pet": "likely_true"})
    found = difference(run, other)
    stream = io.StringIO()
    print_difference(found, stream)
    assert "noun, removed 2; in this run: likely_true 1, not drawn 1" in stream.getvalue()
    noun = dict(found["noun"])
    added, removed = ([row["text"] for row in noun.pop(f"examples_{side}")] for side in ("added", "removed"))  # type: ignore[attr-defined]
    assert added == ["a bus"] and {*removed} == {"a car", "a tree"}
    assert noun == {
        "both": 1, "added": 1, "removed": 2, "why_added": {"unnatural": 1},
        "why_removed": {"likely_true": 1, "not drawn": 1}, "reasons": {"likely_true -> compatible": 1},
    }  # fmt: skip
    alone = difference(run, write(tmp_path / "bare", ["A cat"], {"A dog": "unnatural"}, "verb"))["noun"]
    assert (alone["why_added"], alone["examples_added"]) == ({"not built": 2}, [])
