"""Pairs of a run: which, in which order, and what is known of each."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from negcap.pipelines.tables.pairs import captions_with_negatives, earlier_draws, join_shards, pair_tables, pairs
from negcap.schemas.negatives import POSITIVES, VERDICTS
from tests.pipelines.publish.fixtures import PROVENANCE, rows, write_run
from tests.tables import write_table

CAPTIONS, NEGATIVES = rows(8, 3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("pairs") / "run", CAPTIONS, NEGATIVES, images=3)


def ids(table: pa.Table) -> list[str]:
    return table["negative_id"].to_pylist()


def test_a_pair_has_what_captions_and_negatives_say_of_it(run: Path) -> None:
    image = {row["caption_id"]: row["image"] for row in CAPTIONS}
    same = ("negative_id", "caption_id", "image_id", "split", "caption", "operator", "family", "draw", "replaced")
    for pair, row in zip(pairs(run).to_pylist(), NEGATIVES, strict=True):
        assert {name: pair[name] for name in same} == {name: row[name] for name in same}
        assert (pair["negative"], pair["image"], pair["positive_id"]) == (row["text"], image[row["caption_id"]], "")
        others = [r["text"] for r in CAPTIONS if r["image_id"] == row["image_id"] and r["text"] != row["caption"]]
        assert pair["siblings"] == others


def test_pairs_are_chosen_whatever_the_order_of_rows(run, tmp_path):
    of_test = [row["negative_id"] for row in NEGATIVES if row["split"] == "test"]
    first_two = [row["negative_id"] for row in NEGATIVES if row["negative_id"].endswith(("noun:0", "noun:1"))]
    assert ids(pairs(run, splits=["test"])) == of_test
    assert ids(pairs(run, ["noun"], per_operator=2)) == first_two
    reversed_run = write_run(tmp_path / "run", CAPTIONS, NEGATIVES[::-1], images=1)
    assert sorted(ids(pairs(reversed_run, ["noun"], per_operator=2))) == sorted(first_two)


def test_shards_have_numbered_rows_and_captions_without_negatives(run: Path) -> None:
    parts = list(pair_tables(run, ["noun"], columns=("row", "negative_id"), shards=slice(1, 3)))
    numbers = [row for part in parts for row in part["row"].to_pylist()]
    assert [NEGATIVES[row]["negative_id"] for row in numbers] == [name for part in parts for name in ids(part)]
    bare = [row for part in pair_tables(run, ["numeral"], every_caption=True) for row in part.to_pylist()]
    assert [row["caption_id"] for row in bare] == [row["caption_id"] for row in CAPTIONS]
    assert all((row["negative"] is None) == row["caption_id"].endswith(":4") for row in bare)
    assert [row["caption"] for row in bare] == [row["text"] for row in CAPTIONS]
    captions, negatives, starts = join_shards(captions_with_negatives(run, ["numeral"], of_captions=("text",)))
    assert captions["text"].to_pylist() == [row["text"] for row in CAPTIONS]
    assert negatives["negative"].to_pylist() == [row["negative"] for row in bare if row["negative"]]
    assert np.diff(starts).tolist() == [row["negative"] is not None for row in bare]


def test_ranks_are_of_a_caption_and_operator() -> None:
    table = pa.table({"caption_id": ["a", "a", "a", "b", "a"], "operator": ["x", "x", "y", "y", "x"]})
    assert earlier_draws(table).tolist() == [0, 1, 0, 0, 2]
    assert earlier_draws(table.append_column("draw", pa.array([10, 2, 5, 0, 3]))).tolist() == [2, 0, 0, 0, 1]
    assert earlier_draws(table.slice(0, 0)).tolist() == []


def test_a_false_denial_stands_beside_the_true_one(tmp_path: Path) -> None:
    first = next(row for row in NEGATIVES if row["operator"] == "numeral")
    made = [
        {**first, "operator": "negation", "family": "negation", "text": new, "replaced": old, "replacement": new}
        | {"negative_id": f"{first['caption_id']}#negation:{draw}"}
        for draw, (old, new) in enumerate({"not cat": "cat", "hat": "not hat", "not cow": "cow"}.items())
    ]
    run = write_run(tmp_path, CAPTIONS, [first, *made], images=8)
    assert set(pairs(run, ["negation"])["caption"].to_pylist()) == {first["caption"]}
    true = {**dict.fromkeys(POSITIVES.names, ""), "edits": [], "operator": "true_negation", "family": "positive"}
    true |= {name: first[name] for name in ("caption_id", "image_id", "split")}
    true |= {"positive_id": "p0", "text": "There is no cat.", "replacement": "not cat"}
    write_table(run, "positives", pa.Table.from_pylist([true], POSITIVES), 0, PROVENANCE)
    found = pairs(run, columns=("positive_id", "caption", "negative"))
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("", first["caption"], first["text"]),
        ("p0", "There is no cat.", "cat"),
        ("", first["caption"], "not hat"),
    ]  # that of the cow is left out: nothing true says that there is none
    assert pairs(run, ["negation"]).schema == pairs(run, ["numeral"]).schema  # so that both are chosen from together


def test_only_what_readers_accept(tmp_path: Path) -> None:
    run = write_run(tmp_path, CAPTIONS, NEGATIVES)
    texts = {name: "" for name in VERDICTS.names if VERDICTS.field(name).type == pa.string()}
    empty = {**dict.fromkeys(VERDICTS.names), **texts, "reading": "blind", "odd": "neither"}
    read = [row["negative_id"] for row in NEGATIVES[:3]]
    verdicts = [{**empty, "negative_id": name, "both_true": name == read[1]} for name in [*read, read[1]]]
    write_table(run, "verdicts", pa.Table.from_pylist(verdicts, VERDICTS))
    assert ids(pairs(run, vetted=True)) == [read[0], read[2]]


@pytest.mark.parametrize("given, message", [
    ({"operators": ["verb"]}, "operator must be one of noun, numeral in .*/negatives, was: verb"),
    ({"splits": ["dev"]}, "split must be one of 'test', 'train' in .*/negatives, was: 'dev'"),
    ({"refined": True}, "has no refined negatives yet"),
])  # fmt: skip
def test_what_a_run_lacks_is_named(given, message, run):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        pairs(run, **given)


def test_a_negative_without_its_caption_is_named(tmp_path):
    run = write_run(tmp_path, CAPTIONS[1:], NEGATIVES, images=8)
    with pytest.raises(ValueError, match=r"negatives/part-00000.parquet has toy:p000:0, which captions/part-00000"):
        pairs(run)
