"""Sets of negatives that others made: read, their edits recovered, judged, and measured."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from negcap.augment.edits import Edit, apply_edits
from negcap.pipelines.cli import main
from negcap.pipelines.engine.manifest import read_manifest
from negcap.pipelines.readers.pairs import read_pairs
from negcap.pipelines.readers.record import Rejected
from tests.tables import rows_of

DOG = "A dog sleeps on a red couch."
MEN = "Two men ride horses on a beach."
PAIRS = [  # image, caption, negative, operator, replaced, replacement, reason
    ("1.jpg", DOG, "A cat sleeps on a red couch.", "replace_noun", "dog", "cat", None),
    ("1.jpg", DOG, "A dog sleeps on a blue couch.", "replace_attribute", "red", "blue", None),
    ("1.jpg", DOG, "An animal sleeps on a red couch.", "replace_noun", "dog", "animal", "caption_says_so"),
    ("1.jpg", DOG, DOG, "rewrite", "", "", "unchanged"),
    ("1.jpg", DOG, "A cat sleeps on a red couch.", "replace_noun", "dog", "cat", "repeated"),
    ("2.jpg", MEN, "Three men ride horses on a beach.", "replace_numeral", "two", "three", None),
    ("2.jpg", MEN, "Two men ride horses on an beach.", "rewrite", "a", "an", "ungrammatical"),
    ("2.jpg", MEN, "Two men feed horses on a beach.", "replace_verb", "ride", "feed", None),
    ("3.jpg", "A boy chases a girl.", "A girl chases a boy.", "swap", "boy | girl", "girl | boy", None),
    ("3.jpg", "A boy chases a girl.", "A boy does not chase a girl.", "negate", "chases", "does not chase", None),
    ("4.jpg", "A man stands under a tree.", "A man stands under a tree with a kite.", "add", "", "with a kite", None),
]


def imported(source: Path, folder: Path, *more: str) -> Path:
    run = folder / "run"
    flags = ["--output", str(run), "--set", "lexicon=reference", "--scheduler", "synchronous", "--quiet"]
    assert main(["import", str(source), *flags, *more]) == 0
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("import")
    rows = [{"filename": image, "caption": caption, "negative_caption": text} for image, caption, text, *_ in PAIRS]
    rows.append({"filename": "5.jpg", "caption": "", "negative_caption": "A cat."})
    rows.append({"filename": "../up.jpg", "caption": "A cat.", "negative_caption": "A dog."})
    (folder / "set.json").write_text(json.dumps({str(number): row for number, row in enumerate(rows)}))
    return imported(folder / "set.json", folder)


def test_what_a_negative_changes_is_recovered_and_judged(run):
    judged = [(row["text"], row["operator"], row["reason"]) for row in rows_of(run, "judged")]
    assert judged == [(text, operator, reason) for _, _, text, operator, _, _, reason in PAIRS]
    kept = rows_of(run, "negatives")
    changes = {(row["text"], row["replaced"], row["replacement"]) for row in kept}
    assert changes == {(text, old, new) for _, _, text, _, old, new, reason in PAIRS if reason is None}
    for row in kept:
        assert apply_edits(row["caption"], [Edit(e["start"], e["end"], e["new"]) for e in row["edits"]]) == row["text"]
        assert all(row["caption"][e["start"] : e["end"]] == e["old"] for e in row["edits"])
        assert row["plausibility"] is not None and row["p_unnatural"] is not None
    assert {row["negative_id"] for row in rows_of(run, "judged")} - {None} == {row["negative_id"] for row in kept}
    assert {row["reason"] for row in rows_of(run, "rejections")} == {reason for *_, reason in PAIRS if reason}
    counts = read_manifest(run / "negatives").counts
    assert (counts["replace_noun.captions"], counts["rewrite.captions"], counts["captions.without"]) == (1, 0, 0)
    bad = [(row["line"], row["reason"]) for row in rows_of(run, "rejected_records")]
    assert bad == [(12, "no_text"), (13, "unsafe_path")]


def test_a_second_import_changes_nothing(run, capsys):
    before = {path: path.read_bytes() for path in sorted(run.rglob("*.parquet"))}
    imported(run.parent / "set.json", run.parent)
    assert {path: path.read_bytes() for path in sorted(run.rglob("*.parquet"))} == before
    assert main(["info", str(run), "--verify"]) == 0
    said = capsys.readouterr().out
    assert "7 kept (63.6 %)" in said and "2 records rejected (no_text 1, unsafe_path 1)" in said


def test_the_scorecard(run, capsys):
    assert main(["import", str(run), "--report", "--json"]) == 0
    (card,) = json.loads(capsys.readouterr().out).values()
    assert (card["name"], card["pairs"], card["images"]) == ("set", 11, 4)
    shares = {
        name: round(card[name]["percent"] * 11 / 100) for name in ("same", "faulty", "bag", "true", "undecidable")
    }
    assert shares == {"same": 2, "faulty": 1, "bag": 1, "true": 2, "undecidable": 2}
    assert card["reasons"] == {"caption_says_so": 1, "unchanged": 1, "repeated": 1, "ungrammatical": 1}
    assert main(["import", str(run), "--report"]) == 0
    assert "rejected: caption_says_so 1" in capsys.readouterr().out


CAP, NEG = "A dog sleeps on a couch.", "A cat sleeps on a couch."
OTHER, WRONG = "A pet naps.", "A cat stands."
PAIR = {"filename": "1.jpg", "caption": CAP, "negative_caption": NEG}
ARO = {"image_path": "1.jpg", "true_caption": CAP, "false_caption": NEG}
VALSE = {"image_file": "1.jpg", "caption": CAP, "foil": NEG, "linguistic_phenomena": "plurals"}
CE_CLIP = {"image_path": "1.jpg", "caption": CAP, "negatives": [{"edited_caption": NEG, "category": "object"}]}
FIVE = f"image,caption,negative,caption2,caption 3,caption_4\n1.jpg,{CAP},{NEG},{OTHER},,It naps.\n"
Read = tuple[str, str, str | None, list[str], str]  # a file, its content; image, captions and label of its only record
FORMATS: dict[str, Read] = {
    "sugarcrepe": ("a.json", json.dumps({"0": PAIR}), "1.jpg", [CAP], "a"),
    "sugarcrepe++": ("a.json", json.dumps([{**PAIR, "caption2": OTHER}]), "1.jpg", [CAP, OTHER], "a"),
    "five captions": ("a.csv", FIVE, "1.jpg", [CAP, OTHER, "It naps."], "a"),
    "negclip": (
        "a.tsv", f"filepath\ttitle\tneg_caption\tneg_image\n1.jpg\t{CAP}\t\"['{NEG}']\"\t[1]\n", "1.jpg", [CAP], "a",
    ),
    "aro": ("a.json", json.dumps([ARO]), "1.jpg", [CAP], "a"),
    "crepe": ("a.csv", f"image_id,caption,hard_negs\n1,{CAP},\"['{NEG}']\"\n", "1", [CAP], "a"),
    "valse": ("a.json", json.dumps({"x": VALSE}), "1.jpg", [CAP], "plurals"),
    "ce-clip": ("a.json", json.dumps([CE_CLIP]), "1.jpg", [CAP], "object"),
    "lines": ("a.jsonl", json.dumps({"caption": CAP, "negative": NEG}) + "\n", None, [CAP], "a"),
    "plain": ("a.csv", f"caption,negative,image,label\n{CAP},{NEG},1.jpg,mine\n", "1.jpg", [CAP], "mine"),
    "kind": ("a.csv", f"caption,negative,image,kind\n{CAP},{NEG},1.jpg,mine\n", "1.jpg", [CAP], "mine"),
    "trohn": ("a.parquet", "", "1.jpg", [CAP], "a"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_formats_of_other_sets(name, tmp_path):
    file, text, image, captions, label = FORMATS[name]
    path = tmp_path / file
    if file == "a.parquet":
        pq.write_table(pa.table({"image": ["1.jpg"], "caption": [CAP], "negative_captions": [[NEG]]}), path)
    else:
        path.write_text(text)
    (record,) = read_pairs(str(path))
    negatives = [(negative.text, negative.label) for negative in record.negatives]
    assert (record.image, [*record.captions], negatives) == (image, captions, [(NEG, label)])
    assert (record.source, record.line, record.split) == (file, 1, "")


COLUMNS = {"caption": ("c1", "c2"), "negative": ("n1", "n2")}
USER = {"img": "1.jpg", "good": CAP, "bad": NEG}
NESTED = {"img": "1.jpg", "texts": {"good": CAP, "bad": [NEG, WRONG]}}
GIVEN = {  # the name of a file, its content, the columns that are named; captions and negatives of the only record
    "numbers": ("a.csv", f"1.jpg,{CAP},{NEG}\n", {"image": "1", "caption": "2", "negative": "3"}, [CAP], [NEG]),
    "numbers of TSV": ("a.tsv", f"{NEG}\t{CAP}\n", {"caption": "2", "negative": "1"}, [CAP], [NEG]),
    "several": ("a.csv", f"c1,c2,n1,n2\n{CAP},{OTHER},{NEG},{WRONG}\n", COLUMNS, [CAP, OTHER], [NEG, WRONG]),
    "several, one empty": ("a.csv", f"c1,c2,n1,n2\n{CAP},{OTHER},,{WRONG}\n", COLUMNS, [CAP, OTHER], [WRONG]),
    "a list in an object": (
        "a.json", json.dumps({"data": [USER]}), {"image": "img", "caption": "good", "negative": "bad"}, [CAP], [NEG],
    ),
    "usual names in an object": (
        "a.json", json.dumps({"data": [{"caption": CAP, "negatives": [NEG, WRONG]}]}), {}, [CAP], [NEG, WRONG],
    ),
    "paths": (
        "a.jsonl", json.dumps(NESTED), {"caption": "texts.good", "negative": "texts.bad"}, [CAP], [NEG, WRONG],
    ),
    "paths into lists": (
        "a.json", json.dumps([{"caption": CAP, "wrong": [{"t": NEG}, {"t": WRONG}]}]), {"negative": "wrong.t"}, [CAP],
        [NEG, WRONG],
    ),
    "JSON lines named JSON": ("a.json", json.dumps({"caption": CAP, "negative": NEG}) + "\n\n", {}, [CAP], [NEG]),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_columns_that_are_named(name, tmp_path):
    file, text, columns, captions, negatives = GIVEN[name]
    (tmp_path / file).write_text(text)
    (record,) = read_pairs(str(tmp_path / file), columns=columns)
    assert [*record.captions] == captions and [negative.text for negative in record.negatives] == negatives


def test_ids_that_occur_twice(tmp_path):
    (tmp_path / "a.json").write_text(f'{{"0": {json.dumps(PAIR)}, "0": {json.dumps(PAIR)}}}')
    _, twice = read_pairs(str(tmp_path / "a.json"))
    assert isinstance(twice, Rejected) and (twice.line, twice.reason) == (2, "duplicate_caption_id")


def test_columns_of_any_name_and_records_whose_caption_is_false(tmp_path, capsys):
    rows = [f"{image}.jpg,{CAP},{NEG},mine,{true}" for image, true in enumerate((1, 0, "", "maybe"))]
    (tmp_path / "a.csv").write_text("\n".join(["photo,right,wrong,sort,ok", *rows]))
    columns = ["--columns", "caption=right,negative=wrong", "--columns", "image=photo,label=sort,truth=ok"]
    run = imported(tmp_path / "a.csv", tmp_path, *columns)
    (row,) = rows_of(run, "judged")
    assert (row["image_id"], row["text"], row["asked"]) == ("0", NEG, "mine")
    assert [row["reason"] for row in rows_of(run, "rejected_records")] == ["false_caption", "no_truth", "no_truth"]
    for wrong, said in (
        ("caption=true,negative=wrong", "caption column must be one of photo, right, wrong, sort, ok, was: true"),
        ("id=photo", "--columns must be image|caption|negative|label|split|truth=NAME between commas, was: id=photo"),
        ("label=ok,label=sort", "--columns label must be one column, were: ok, sort"),
        ("caption=right,negative=wrong,truth=good", "truth column must be one of photo, right, wrong, sort, ok"),
    ):
        assert main(["import", str(tmp_path / "a.csv"), "--quiet", "--report", "--columns", wrong]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "file, text, said",
    [
        ("a.json", "{", "must be a set of captions with negatives"),
        ("a.json", '[{"image": "1.jpg", "caption": "A dog."}]', "a column for the negative (negative_caption"),
        ("a.json", "{}", "a record must have a caption and a negative"),
        ("a.csv", "foo,bar\n1,2\n", "must have a column for the caption (caption, true_caption"),
        ("a.txt", "A dog.", "by the end of its name (.json"),
        ("a.json", "[]", "must have captions with negatives, has none"),
        ("a.json", '[{"caption": "A dog.", "negative": ""}]', "line 1: negative must not be empty"),
    ],
)
def test_files_that_are_no_such_set(file, text, said, tmp_path, capsys):
    (tmp_path / file).write_text(text)
    assert main(["import", str(tmp_path / file), "--output", str(tmp_path / "run"), "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line and str(tmp_path / file) in line
    assert not list(tmp_path.glob("run/captions/*"))
