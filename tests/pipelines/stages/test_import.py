"""Sets of negatives that others made: read, their edits recovered, judged, and measured."""

import json
from pathlib import Path

import pytest

from negcap.augment.edits import Edit, apply_edits
from negcap.pipelines.cli import main
from negcap.pipelines.engine.manifest import read_manifest
from negcap.pipelines.readers.pairs import read_pairs
from tests.cases import cases_of
from tests.tables import rows_of

CASES = cases_of(__file__)["import"]
PAIRS = [(*row[:-1], None if row[-1] == "none" else row[-1]) for row in CASES["pairs"]]


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


def test_the_scorecard(run, capsys):
    assert main(["import", str(run), "--report", "--json"]) == 0
    (card,) = json.loads(capsys.readouterr().out).values()
    assert (card["name"], card["pairs"], card["images"]) == ("set", 11, 4)
    shares = {"same": 2, "faulty": 1, "bag": 1, "true": 2, "undecidable": 2}
    assert {name: round(card[name]["percent"] * 11 / 100) for name in shares} == shares
    assert card["reasons"] == {"caption_says_so": 1, "unchanged": 1, "repeated": 1, "ungrammatical": 1}
    assert main(["import", str(run), "--report"]) == 0
    assert "rejected: caption_says_so 1" in capsys.readouterr().out
    imported(run.parent / "set.json", run.parent)  # all is up to date
    assert "7 kept (63.6 %)" in (shown := capsys.readouterr().out) and "(no_text 1, unsafe_path 1)" in shown


CAP, NEG = "A dog sleeps on a couch.", "A cat sleeps on a couch."
PAIR = {"filename": "1.jpg", "caption": CAP, "negative_caption": NEG}


@pytest.mark.parametrize("name", CASES["formats"])
def test_formats_of_other_sets(name, tmp_path):
    case = CASES["formats"][name]
    (tmp_path / case["file"]).write_text(case["text"])
    (record,) = read_pairs(str(tmp_path / case["file"]))
    assert (record.image, [*record.captions]) == (case.get("image"), case["captions"])
    assert [(negative.text, negative.label) for negative in record.negatives] == [(NEG, case["label"])]
    assert (record.source, record.line, record.split) == (case["file"], 1, "")


@pytest.mark.parametrize("name", CASES["columns"])
def test_columns_that_are_named(name, tmp_path):
    case = CASES["columns"][name]
    (tmp_path / case["file"]).write_text(case["text"])
    (record,) = read_pairs(str(tmp_path / case["file"]), columns=case["columns"])
    assert [*record.captions] == case["captions"]
    assert [negative.text for negative in record.negatives] == case["negatives"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Of five columns, the last of which says whether the caption is true."""
    rows = [f"{image}.jpg,{CAP},{NEG},mine,{true}" for image, true in enumerate((1, 0, "", "maybe"))]
    (tmp_path / "a.csv").write_text("\n".join(["photo,right,wrong,sort,ok", *rows]))
    return tmp_path / "a.csv"


def test_columns_of_any_name_and_records_whose_caption_is_false(table, tmp_path):
    columns = ["--columns", "caption=right,negative=wrong", "--columns", "image=photo,label=sort,truth=ok"]
    run = imported(table, tmp_path, *columns)
    (row,) = rows_of(run, "judged")
    assert (row["image_id"], row["text"], row["asked"]) == ("0", NEG, "mine")
    assert [row["reason"] for row in rows_of(run, "rejected_records")] == ["false_caption", "no_truth", "no_truth"]


@pytest.mark.parametrize("columns, said", CASES["wrong_columns"].items())
def test_columns_that_cannot_be_are_named(columns, said, table, capsys):
    assert main(["import", str(table), "--quiet", "--report", "--columns", columns]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("file, text, said", CASES["not_a_set"])
def test_files_that_are_no_such_set(file, text, said, tmp_path, capsys):
    (tmp_path / file).write_text(text)
    assert main(["import", str(tmp_path / file), "--output", str(tmp_path / "run"), "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line and str(tmp_path / file) in line
    assert not list(tmp_path.glob("run/captions/*"))


def test_of_several_files_one_that_is_no_such_set_is_a_rejected_record(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "a.csv").write_text("foo,bar\n1,2\n")
    (folder / "b.json").write_text(json.dumps([PAIR]))
    run = imported(folder, tmp_path)
    assert [row["text"] for row in rows_of(run, "judged")] == [NEG]
    assert [(row["source"], row["reason"]) for row in rows_of(run, "rejected_records")] == [("a.csv", "not_a_record")]
