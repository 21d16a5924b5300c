"""Sets of negatives that others made: read, their edits recovered, judged, and measured."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from negcap.augment.edits import Edit, apply
from negcap.pipelines.cli import main
from negcap.pipelines.engine.progress import Progress
from negcap.pipelines.engine.run import Execution
from negcap.pipelines.stages.imports import ImportConfig, read_foreign
from tests.tables import rows_of

PAIRS = [  # image, caption, negative, operator, replaced, replacement, reason
    ("1.jpg", "A dog sleeps on a red couch.", "A cat sleeps on a red couch.", "replace_noun", "dog", "cat", None),
    ("1.jpg", "A dog sleeps on a red couch.", "A dog sleeps on a blue couch.", "replace_attribute", "red", "blue",
     None),
    ("1.jpg", "A dog sleeps on a red couch.", "An animal sleeps on a red couch.", "replace_noun", "dog", "animal",
     "caption_says_so"),
    ("1.jpg", "A dog sleeps on a red couch.", "A dog sleeps on a red couch.", "rewrite", "", "", "unchanged"),
    ("1.jpg", "A dog sleeps on a red couch.", "A cat sleeps on a red couch.", "replace_noun", "dog", "cat", "repeated"),
    ("2.jpg", "Two men ride horses on a beach.", "Three men ride horses on a beach.", "replace_numeral", "two", "three",
     None),
    ("2.jpg", "Two men ride horses on a beach.", "Two men ride horses on an beach.", "rewrite", "a", "an",
     "ungrammatical"),
    ("2.jpg", "Two men ride horses on a beach.", "Two men feed horses on a beach.", "replace_verb", "ride", "feed",
     None),
    ("3.jpg", "A boy chases a girl.", "A girl chases a boy.", "swap", "boy | girl", "girl | boy", None),
    ("3.jpg", "A boy chases a girl.", "A boy does not chase a girl.", "negate", "chases", "does not chase", None),
    ("4.jpg", "A man stands under a tree.", "A man stands under a tree with a kite.", "add", "", "with a kite",
     None),
]  # fmt: skip


def write(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "set.json"
    path.write_text(json.dumps({str(i): row for i, row in enumerate(rows)}))
    return path


def imported(source: Path, folder: Path, *more: str) -> Path:
    run = folder / "run"
    flags = ["--output", str(run), "--set", "lexicon=reference", "--scheduler", "synchronous", "--quiet"]
    assert main(["import", str(source), *flags, *more]) == 0
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("import")
    made = [{"filename": image, "caption": caption, "negative_caption": text} for image, caption, text, *_ in PAIRS]
    made.append({"filename": "5.jpg", "caption": "", "negative_caption": "A cat."})
    made.append({"filename": "../up.jpg", "caption": "A cat.", "negative_caption": "A dog."})
    return imported(write(folder, made), folder)


def test_what_a_negative_changes_is_recovered_and_judged(run: Path) -> None:
    judged = {(row["caption_id"], row["number"]): row for row in rows_of(run, "judged")}
    assert len(judged) == len(PAIRS)
    found = [(row["text"], row["operator"], row["reason"]) for row in judged.values()]
    assert found == [(text, operator, reason) for _, _, text, operator, _, _, reason in PAIRS]
    changes = {(row["text"], row["replaced"], row["replacement"]) for row in rows_of(run, "negatives")}
    assert changes == {(text, old, new) for _, _, text, _, old, new, reason in PAIRS if reason is None}


def test_every_negative_is_its_caption_after_its_edits_and_has_a_plausibility(run: Path) -> None:
    kept = rows_of(run, "negatives")
    for row in kept:
        assert apply(row["caption"], [Edit(e["start"], e["end"], e["new"]) for e in row["edits"]]) == row["text"]
        assert all(row["caption"][e["start"] : e["end"]] == e["old"] for e in row["edits"])
        assert row["plausibility"] is not None and row["p_unnatural"] is not None
    linked = {row["negative_id"] for row in rows_of(run, "judged")} - {None}
    assert linked == {row["negative_id"] for row in kept}
    assert {row["reason"] for row in rows_of(run, "rejections")} == {reason for *_, reason in PAIRS if reason}


def test_bad_records_are_kept_with_reasons(run: Path) -> None:
    bad = [(row["line"], row["reason"]) for row in rows_of(run, "rejected_records")]
    assert bad == [(12, "no_text"), (13, "unsafe_path")]


def test_a_second_import_changes_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in sorted(run.rglob("*.parquet"))}
    imported(run.parent / "set.json", run.parent)
    assert {path: path.read_bytes() for path in sorted(run.rglob("*.parquet"))} == before
    assert main(["info", str(run), "--verify"]) == 0
    said = capsys.readouterr()
    assert "7 kept (63.6 %)" in said.out
    assert said.out.splitlines()[0].endswith("; 2 records rejected (no_text 1, unsafe_path 1)")


def test_what_is_read_is_counted_in_proposals(run: Path, tmp_path: Path) -> None:
    progress = Progress()
    counts = read_foreign(str(run.parent / "set.json"), tmp_path, ImportConfig(), Execution(progress=progress))
    (timing,) = progress.timings
    assert (timing.captions, timing.unit) == (counts["proposals"], "proposals") and timing.captions == len(PAIRS)


def test_the_scorecard(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(run), "--report", "--json"]) == 0
    (card,) = json.loads(capsys.readouterr().out).values()
    assert (card["name"], card["pairs"], card["images"]) == ("set", 11, 4)
    assert card["same"]["percent"] == pytest.approx(200 / 11) and card["faulty"]["percent"] == pytest.approx(100 / 11)
    assert card["bag"]["percent"] == pytest.approx(100 / 11)
    assert card["true"]["percent"] == pytest.approx(200 / 11)
    assert card["undecidable"]["percent"] == pytest.approx(200 / 11)
    assert card["reasons"] == {"caption_says_so": 1, "unchanged": 1, "repeated": 1, "ungrammatical": 1}
    assert main(["import", str(run), "--report"]) == 0
    assert "rejected: caption_says_so 1" in capsys.readouterr().out


CAP, NEG = "A dog sleeps on a couch.", "A cat sleeps on a couch."
FORMATS: dict[str, tuple[str, str]] = {
    "sugarcrepe": ("a.json", json.dumps({"0": {"filename": "1.jpg", "caption": CAP, "negative_caption": NEG}})),
    "sugarcrepe++": (
        "a.json",
        json.dumps([{"id": 7, "filename": "1.jpg", "caption": CAP, "caption2": "A pet.", "negative_caption": NEG}]),
    ),
    "five captions": (
        "a.csv",
        f"image,caption,negative,caption2,caption 3,caption_4\n1.jpg,{CAP},{NEG},A pet.,,It naps.\n",
    ),
    "negclip": ("a.tsv", f"filepath\ttitle\tneg_caption\tneg_image\n1.jpg\t{CAP}\t\"['{NEG}']\"\t[1]\n"),
    "aro": ("a.json", json.dumps([{"image_path": "1.jpg", "true_caption": CAP, "false_caption": NEG}])),
    "crepe": ("a.csv", f"image_id,caption,hard_negs\n1,{CAP},\"['{NEG}']\"\n"),
    "valse": (
        "a.json",
        json.dumps({"x": {"image_file": "1.jpg", "caption": CAP, "foil": NEG, "linguistic_phenomena": "plurals"}}),
    ),
    "ce-clip": (
        "a.json",
        json.dumps(
            [{"image_path": "1.jpg", "caption": CAP, "negatives": [{"edited_caption": NEG, "category": "object"}]}]
        ),
    ),
    "lines": ("a.jsonl", json.dumps({"caption": CAP, "negative": NEG}) + "\n"),
    "plain": ("a.csv", f"caption,negative,image,label\n{CAP},{NEG},1.jpg,mine\n"),
    "kind": ("a.csv", f"caption,negative,image,kind\n{CAP},{NEG},1.jpg,mine\n"),
}


@pytest.mark.parametrize("name", [*FORMATS, "trohn"])
def test_formats_of_other_sets(name: str, tmp_path: Path) -> None:
    from negcap.pipelines.readers.pairs import CaptionWithNegatives, Negative, read_pairs

    if name == "trohn":
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"image": ["1.jpg"], "caption": [CAP], "negative_captions": [[NEG]]}), path)
    else:
        file, text = FORMATS[name]
        path = tmp_path / file
        path.write_text(text)
    labels = {"valse": "plurals", "ce-clip": "object", "plain": "mine", "kind": "mine"}
    image = {"lines": None, "crepe": "1"}.get(name, "1.jpg")
    captions = {"sugarcrepe++": (CAP, "A pet."), "five captions": (CAP, "A pet.", "It naps.")}.get(name, (CAP,))
    negatives = (Negative(NEG, labels.get(name, "a")),)
    assert list(read_pairs(str(path))) == [CaptionWithNegatives(image, captions, negatives, source=path.name, line=1)]


OTHER, WRONG = "A pet naps.", "A cat stands."
PAIR = {"img": "1.jpg", "good": CAP, "bad": NEG}
GIVEN = {  # the name of a file, its content, the columns that are named; captions and negatives of the only record
    "numbers": ("a.csv", f"1.jpg,{CAP},{NEG}\n", {"image": "1", "caption": "2", "negative": "3"}, [CAP], [NEG]),
    "numbers of TSV": ("a.tsv", f"{NEG}\t{CAP}\n", {"caption": "2", "negative": "1"}, [CAP], [NEG]),
    "several": ("a.csv", f"c1,c2,n1,n2\n{CAP},{OTHER},{NEG},{WRONG}\n",
                {"caption": ("c1", "c2"), "negative": ("n1", "n2")}, [CAP, OTHER], [NEG, WRONG]),
    "several, one empty": ("a.csv", f"c1,c2,n1,n2\n{CAP},{OTHER},,{WRONG}\n",
                           {"caption": ("c1", "c2"), "negative": ("n1", "n2")}, [CAP, OTHER], [WRONG]),
    "a list in an object": ("a.json", json.dumps({"version": 1, "data": [PAIR]}),
                            {"image": "img", "caption": "good", "negative": "bad"}, [CAP], [NEG]),
    "usual names in an object": ("a.json", json.dumps({"data": [{"caption": CAP, "negatives": [NEG, WRONG]}]}), {},
                                 [CAP], [NEG, WRONG]),
    "paths": ("a.jsonl", json.dumps({"img": "1.jpg", "texts": {"good": CAP, "bad": [NEG, WRONG]}}),
              {"caption": "texts.good", "negative": "texts.bad"}, [CAP], [NEG, WRONG]),
    "paths into lists": ("a.json", json.dumps([{"caption": CAP, "wrong": [{"t": NEG}, {"t": WRONG}]}]),
                         {"negative": "wrong.t"}, [CAP], [NEG, WRONG]),
    "JSON lines named JSON": ("a.json", json.dumps({"caption": CAP, "negative": NEG}) + "\n" + "\n", {}, [CAP], [NEG]),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_columns_that_are_named(name: str, tmp_path: Path) -> None:
    from negcap.pipelines.readers.pairs import CaptionWithNegatives, read_pairs

    file, text, columns, captions, negatives = GIVEN[name]
    (tmp_path / file).write_text(text)
    (record,) = read_pairs(str(tmp_path / file), columns=columns)
    assert isinstance(record, CaptionWithNegatives), record
    assert record.captions == tuple(captions) and [negative.text for negative in record.negatives] == negatives


def test_records_whose_caption_is_false_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{image}.jpg,{CAP},{NEG},{true}" for image, true in enumerate((1, 0, "", "maybe"))]
    (tmp_path / "a.csv").write_text("\n".join(["image,caption,negative,ok", *rows]))
    run = imported(tmp_path / "a.csv", tmp_path, "--columns", "truth=ok")
    assert [row["image_id"] for row in rows_of(run, "judged")] == ["0"]
    assert [row["reason"] for row in rows_of(run, "rejected_records")] == ["false_caption", "no_truth", "no_truth"]
    flags = ["import", str(tmp_path / "a.csv"), "--quiet", "--report", "--columns"]
    assert main([*flags, "truth=good"]) == 2
    assert "truth column must be one of image, caption, negative, ok, was: good" in capsys.readouterr().err
    assert main([*flags, "label=ok,label=image"]) == 2
    said = "--columns label must be one column, were: ok, image; only caption and negative may be of several columns"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "file, text, said",
    [
        ("a.json", "{", "must be a set of captions with negatives"),
        ("a.json", '[{"image": "1.jpg", "caption": "A dog."}]', "a column for the negative (negative_caption"),
        ("a.csv", "foo,bar\n1,2\n", "must have a column for the caption (caption, true_caption"),
        ("a.txt", "A dog.", "by the end of its name (.json"),
        ("a.json", "[]", "must have captions with negatives, has none"),
        ("a.json", '[{"caption": "A dog.", "negative": ""}]', "line 1: negative must not be empty"),
    ],
)
def test_files_that_are_no_such_set(
    file: str, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / file).write_text(text)
    assert main(["import", str(tmp_path / file), "--output", str(tmp_path / "run"), "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line and str(tmp_path / file) in line
    assert not list((tmp_path / "run").glob("captions/*")) if (tmp_path / "run").exists() else True


def test_ids_that_occur_twice(tmp_path: Path) -> None:
    from negcap.pipelines.readers.pairs import read_pairs
    from negcap.pipelines.readers.record import Rejected

    row = json.dumps({"filename": "1.jpg", "caption": CAP, "negative_caption": NEG})
    (tmp_path / "a.json").write_text(f'{{"0": {row}, "0": {row}}}')
    _, twice = read_pairs(str(tmp_path / "a.json"))
    assert isinstance(twice, Rejected) and (twice.line, twice.reason) == (2, "duplicate_caption_id")


def test_columns_of_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text(f"photo,right,wrong,sort,text\n1.jpg,{CAP},{NEG},mine,other\n")
    flags = ["import", str(tmp_path / "a.csv"), "--quiet", "--columns"]
    named = ["caption=right,negative=wrong", "--columns", "image=photo,label=sort"]
    assert main([*flags, *named, "--output", str(tmp_path / "run")]) == 0
    (row,) = rows_of(tmp_path / "run", "judged")
    assert (row["image_id"], row["text"], row["asked"]) == ("1", NEG, "mine")
    for columns, said in (
        ("caption=true,negative=wrong", "caption column must be one of photo, right, wrong, sort, text, was: true"),
        ("id=photo", "--columns must be image|caption|negative|label|split|truth=NAME between commas, was: id=photo"),
    ):
        assert main([*flags, columns, "--report"]) == 2 and said in capsys.readouterr().err
