"""Two runs compared by rows."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from negcap.pipelines.cli import main
from tests.tables import write_table

KEYS = ("caption_id", "operator", "text")


def write(run: Path, kept: list[str], rejected: dict[str, str], operator: str = "noun") -> Path:
    """A run of negatives "a horse", … of one caption, and of rejections with their reasons."""
    rows = [{"caption_id": "0", "operator": operator, "text": text} for text in kept]
    write_table(run, "negatives", pa.Table.from_pylist(rows))
    refused = [
        {"caption_id": "0", "operator": operator, "text": text, "reason": reason, "detail": "dog"}
        for text, reason in rejected.items()
    ]
    write_table(run, "rejections", pa.Table.from_pylist(refused))
    return run


def test_rows_are_kept_added_or_removed_and_the_other_run_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = write(tmp_path / "one", ["a cat", "a bus"], {"a pet": "compatible", "a car": "likely_true"})
    other = write(tmp_path / "other", ["a cat", "a car", "a tree"], {"a bus": "unnatural", "a pet": "likely_true"})
    assert main(["info", str(one), "--diff", str(other), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["noun"]
    added, removed = found.pop("examples_added"), found.pop("examples_removed")
    assert found == {
        "both": 1,
        "added": 1,
        "removed": 2,
        "why_added": {"unnatural": 1},
        "why_removed": {"likely_true": 1, "not drawn": 1},
        "reasons": {"likely_true -> compatible": 1},
    }
    bare = write(tmp_path / "bare", ["A cat"], {"A dog": "unnatural"}, "verb")
    assert main(["info", str(one), "--diff", str(bare), "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)["noun"]
    assert (alone["why_added"], alone["examples_added"]) == ({"not built": 2}, [])
    assert [row["text"] for row in added] == ["a bus"] and {row["text"] for row in removed} == {"a car", "a tree"}
    assert main(["info", str(one), "--diff", str(other)]) == 0
    assert "noun, removed 2; in this run: likely_true 1, not drawn 1" in capsys.readouterr().out
