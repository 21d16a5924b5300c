"""The format snli: pairs of a caption and a part of it, or of its negative."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from negcap.pipelines.publish.snli import TextSpan, cuts
from tests.pipelines.publish.fixtures import published, rows, write_run


def parse(text: str, *chunks: tuple[int, int]) -> dict[str, Any]:
    """A row of parses, tokens split at blanks and before a full stop."""
    tokens, position = [], 0
    for word in text.replace(".", " .").split():
        start = text.index(word, position)
        position = start + len(word)
        tokens.append({"start": start, "end": position})
    return {"text": text, "tokens": tokens, "chunks": [{"start": a, "end": b, "root": b - 1} for a, b in chunks]}


def relation(subject: int, tokens: list[int], object: int) -> dict[str, Any]:
    return {"subject_token": subject, "tokens": tokens, "object_token": object}


def test_a_cut_holds_a_relation_with_its_noun_phrases() -> None:
    text = "Two black dogs run on the wet grass near a tree."
    row = parse(text, (0, 3), (5, 8), (9, 11))
    found = cuts(row, [relation(2, [3, 4], 7), relation(7, [8], 10), relation(2, [3, 8], 10)])
    parts = [text[span.start : span.end] for span in found]
    assert parts == ["Two black dogs run on the wet grass", "the wet grass near a tree"]
    assert found[0] == TextSpan(0, 35) and cuts(row, []) == []
    assert cuts(parse("A dog runs", (0, 2)), [relation(1, [2], 1)]) == []  # no shorter than the caption


@pytest.mark.usefixtures("unmeasured")
def test_pairs_of_a_run_are_balanced_and_cut_alike(sample_run: Path, tmp_path: Path) -> None:
    files = published(Path(copytree(sample_run, tmp_path / "run")), tmp_path / "out", "snli", split=())
    pairs = [json.loads(line) for name, data in files.items() if name.endswith(".jsonl") for line in data.splitlines()]
    assert len(pairs) > 10 and len({row["pairID"] for row in pairs}) == len(pairs)
    for entailed, contradicted in zip(pairs[::2], pairs[1::2], strict=True):
        assert (entailed["gold_label"], contradicted["gold_label"]) == ("entailment", "contradiction")
        assert all(entailed[name] == contradicted[name] for name in ("sentence1", "operator"))
        premise, part = entailed["sentence1"], entailed["sentence2"].rstrip(" .")
        assert part.lower() in premise.lower() and len(part) < len(premise)
        assert contradicted["sentence2"].rstrip(" .").lower() not in premise.lower()
        assert (entailed["sentence2"][-1] == ".") == (premise[-1] == ".") == (contradicted["sentence2"][-1] == ".")


def test_a_run_without_components_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", *rows(14, 5))
    with pytest.raises(ValueError, match="format snli needs the table parses, .*: negcap build --only parse makes it"):
        published(run, tmp_path / "out", "snli")
    assert not (tmp_path / "out").exists()
