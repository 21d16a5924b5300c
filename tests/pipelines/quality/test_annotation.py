"""Annotation sheets: what is on them, and what is read of them when people have filled them in."""

import csv
import io
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.quality import annotation
from negcap.pipelines.quality.annotation import AgreementReport, Item, SheetConfig, agree, read_key, write_sheet
from tests.pipelines.publish.fixtures import changed
from tests.tables import rows_of

Line = dict[str, str]
Judge = Callable[[Item], tuple[str, str]]  # what is voted on an item: which text describes the image, which is fluent


@pytest.mark.parametrize("annotators, expected", [
    # Krippendorff (2011), Computing Krippendorff's Alpha-Reliability: A (binary), B (nominal), C (missing data)
    (("0100000010", "1110010000"), 0.095),
    (("aabbdcccedda", "babbbccceddd"), 0.692),
    (("123321412...", "1233224125.3", ".3332342251.", "12332441251."), 0.743),
    # by hand: coincidences o_aa = 4, o_ab = o_ba = 1, o_bb = 2; n = 8; D_o = 2, D_e = 64 - 25 - 9 = 30
    (("aabb", "aaab"), 1 - 7 * 2 / 30),
    (("ab", "ab"), 1.0),
    (("ab", "ba"), -0.5),  # worse than chance
    (("aabb.", "aaaba"), 1 - 7 * 2 / 30),  # a unit of one vote says nothing
    *((votes, None) for votes in (("aaa", "aaa"), ("ab.", "..c"), ("", ""), ("...", "..."))),
])  # fmt: skip
def test_alpha_is_as_published(annotators: tuple[str, ...], expected: float | None) -> None:
    """A character is a vote, a dot none; in any order of annotators."""
    for order in (annotators, annotators[::-1]):
        votes = [[None if vote == "." else vote for vote in unit] for unit in zip(*order, strict=True)]
        alpha = annotation.krippendorff_alpha(pd.DataFrame(votes))
        assert alpha is None if expected is None else alpha == pytest.approx(expected, abs=0.0005)


def lines_of(file: Path) -> list[Line]:
    return list(csv.DictReader(io.StringIO(file.read_bytes().decode("utf-8-sig"))))


def written(run: Path, folder: Path, **given: Any) -> tuple[list[Line], list[Line]]:
    folder.mkdir(exist_ok=True)
    files = write_sheet(run, folder / "sheet.csv", SheetConfig(**given))
    return lines_of(files.sheet), lines_of(files.key)


def test_a_sheet_shows_pairs_that_nothing_tells_apart_and_the_key_does(toy: Path, tmp_path: Path) -> None:
    sheet, key = written(toy, tmp_path / "out", n=40)
    assert list(sheet[0]) == ["item", "image", "text_a", "text_b", "describes", "fluent"]
    images = {row["caption_id"]: row["image"] for row in rows_of(toy, "captions")}
    negatives = {row["negative_id"]: row for row in rows_of(toy, "negatives")}
    for shown, known in zip(sheet, key, strict=True):
        other = "b" if known["caption_is"] == "a" else "a"
        assert shown[f"text_{known['caption_is']}"] == known["caption"] != shown[f"text_{other}"] == known["text"]
        assert (shown["item"], shown["image"]) == (known["item"], images[known["caption_id"]])
        row = negatives[known["id"]]
        assert all(row[name] == known[name] for name in ("caption", "text", "operator")) and row["draw"] == 0
    assert min(Counter(line["caption_is"] for line in key).values()) > 0.3 * len(key)
    kinds = [line["operator"] for line in key]
    assert Counter(kinds) == {"noun": 40, "numeral": 40}
    assert sum(a != b for a, b in zip(kinds, kinds[1:], strict=False)) > len(kinds) / 3  # mixed, not in blocks
    text = (tmp_path / "out" / "sheet.csv").read_text(encoding="utf-8-sig")
    assert not [word for word in ("noun", "numeral", "negative", "#") if word in text]
    again, other_seed = (written(toy, tmp_path / str(seed), n=40, seed=seed) for seed in (0, 1))
    assert again == (sheet, key) != other_seed


def test_a_refined_sheet_is_of_what_was_kept(refined_run: Path) -> None:
    kept = {row["negative_id"] for row in rows_of(refined_run, "refined")}
    assert {item.id for item in annotation.items(refined_run, SheetConfig(n=1000, refined=True))} == kept


def test_a_spreadsheet_takes_no_text_for_a_formula(tmp_path: Path) -> None:
    def edit(captions: list[dict[str, Any]], negatives: list[dict[str, Any]]) -> None:
        for row in negatives:
            row["caption"], row["text"] = f"=HYPERLINK({row['caption']}", f'@SUM("{row["text"]}", \u202e1\r\n)'

    sheet, _ = written(changed(tmp_path, edit), tmp_path / "out", n=5)
    texts = [line[f"text_{side}"] for line in sheet for side in "ab"]
    assert all(text.startswith(("'=HYPERLINK(A", "'@SUM(")) for text in texts)
    assert not [text for text in texts if "\u202e" in text or "\n" in text]


def test_votes_are_never_overwritten_unasked(toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, key = tmp_path / "s.csv", tmp_path / "k.csv"
    assert main(["sheet", str(toy), "--output", str(file), "--n", "2", "--key", str(key)]) == 0
    assert f"{file}: 4 pairs (2 noun, 2 numeral)" in capsys.readouterr().out
    before = file.read_bytes()
    for lost in (key, file):
        lost.unlink()
        with pytest.raises(FileExistsError, match="is there already and may hold votes"):
            write_sheet(toy, file, SheetConfig(n=2), key)
        write_sheet(toy, file, SheetConfig(n=2), key, overwrite=True)
    assert file.read_bytes() == before
    with pytest.raises(ValueError, match="key must be another file than the sheet"):
        write_sheet(toy, file, SheetConfig(), tmp_path / "." / file.name)
    with pytest.raises(ValueError, match="was: nouns; did you mean noun"):
        annotation.items(toy, SheetConfig(operators=("nouns",)))


# filled sheets


def save(file: Path, lines: list[Line], delimiter: str = ",") -> Path:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(lines)
    file.write_text(text.getvalue(), encoding="utf-8", newline="")
    return file


class Sheet:
    """A sheet and its key in a folder, filled in by people who know the key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = folder / "sheet.key.csv"

    def vote(self, name: str, judge: Judge) -> Path:
        """A copy with the votes `caption`, `text`, `both` …, of which the first two are written as sides."""
        known = read_key(self.key)
        lines = lines_of(self.folder / "sheet.csv")
        for line in lines:
            caption = known[line["item"]].caption_is
            sides = {"caption": caption, "text": "b" if caption == "a" else "a"}
            describes, fluent = judge(known[line["item"]])
            line |= {"describes": sides.get(describes, describes), "fluent": sides.get(fluent, fluent)}
        return save(self.folder / f"{name}.csv", lines)

    def agree(self, *judges: Judge) -> AgreementReport:
        return agree([self.vote(str(number), judge) for number, judge in enumerate(judges)])


@pytest.fixture(scope="module")
def made(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_sheet(toy, folder / "sheet.csv", SheetConfig(n=10))
    return folder


@pytest.fixture
def sheet(made: Path, tmp_path: Path) -> Sheet:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return Sheet(tmp_path)


def good(item: Item) -> tuple[str, str]:
    return "caption", "both"


def numerals_are_true(item: Item) -> tuple[str, str]:
    return "both" if item.operator == "numeral" else "caption", "caption"


def nouns_fit_neither(item: Item) -> tuple[str, str]:
    return "neither" if item.operator == "noun" else "caption", "both"


def test_three_annotators_three_files(sheet: Sheet) -> None:
    report = sheet.agree(good, numerals_are_true, nouns_fit_neither)
    noun, numeral, everything = report["operators"]
    assert [entry["name"] for entry in report["operators"]] == ["noun", "numeral", "all"]
    assert (noun["items"], noun["votes"], noun["valid"].percent, noun["false"].percent) == (10, 30, 100.0, 100.0)
    assert (numeral["valid"].percent, numeral["false"].percent) == (100.0, 100.0)  # two of three
    assert everything["items"] == 20 and everything["fluent"] is not None and everything["fluent"].percent == 100.0
    # Wilson's interval of 10 in 10: 100 * 10 / (10 + 1.96^2)
    assert (noun["valid"].low, noun["valid"].high) == pytest.approx((72.25, 100.0), abs=0.01)
    assert noun["alpha"] == pytest.approx(1 - 29 * 20 / (900 - 400 - 100))  # every unit: caption, caption, neither
    assert report["invalid"] == [] and report["unanswered"] == 0


def test_what_a_majority_finds_true_is_not_valid_and_a_tie_is_no_majority(sheet: Sheet) -> None:
    report = sheet.agree(good, numerals_are_true, numerals_are_true)
    noun, numeral, everything = report["operators"]
    assert [entry["valid"].percent for entry in (noun, numeral, everything)] == [100.0, 0.0, 50.0]
    assert noun["fluent"] and noun["fluent"].percent == 0.0
    numerals = [item.id for item in read_key(sheet.key).values() if item.operator == "numeral"]
    assert sorted(report["invalid"]) == sorted(numerals)
    assert sheet.agree(good, numerals_are_true)["operators"][1]["valid"].percent == 0.0
    neither = sheet.agree(nouns_fit_neither)["operators"][0]
    assert (neither["valid"].percent, neither["false"].percent) == (0.0, 100.0)


def test_an_item_without_a_vote_does_not_count(sheet: Sheet) -> None:
    report = sheet.agree(lambda item: good(item) if item.operator == "noun" else ("", ""))
    entries = [(entry["name"], entry["items"], entry["votes"]) for entry in report["operators"]]
    assert entries == [("noun", 10, 10), ("all", 10, 10)]
    assert report["unanswered"] == 10 and report["operators"][0]["alpha"] is None


def test_what_spreadsheets_do_to_a_csv_is_read(sheet: Sheet, tmp_path: Path) -> None:
    plain = sheet.vote("plain", good)
    expected = agree([plain])["operators"]
    lines = lines_of(plain)
    for line in lines:
        del line["image"]
        line["describes"] = f" {line['describes'].upper()} "
    mangled = save(tmp_path / "mangled.csv", list(reversed(lines)), ";")
    mangled.write_bytes(b"\xef\xbb\xbf" + mangled.read_bytes() + b";;;;\r\n\r\n")
    assert agree([mangled])["operators"] == agree([save(tmp_path / "tabs.csv", lines, "\t")])["operators"] == expected


BAD_VOTES: list[tuple[Callable[[list[Line]], Any], str]] = [
    (lambda lines: lines[3].update(describes="c"), ":5: describes must be one of a, b, both, .*, was: 'c'"),
    (lambda lines: lines[0].update(fluent="yes"), ":2: fluent must be one of a, b, .*, was: 'yes'"),
    (lambda lines: lines[2].update(item="zzz"), ":4: item zzz is none of the key's"),
    (lambda lines: lines[4].update(item=lines[1]["item"]), "occurs twice"),
    (lambda lines: [line.pop("describes") for line in lines], ":1: must have the columns .*, lacks: describes"),
    (lambda lines: [line.update(describes="") for line in lines], "no votes in "),
]


@pytest.mark.parametrize(("edit", "said"), BAD_VOTES)
def test_bad_votes_name_file_and_line(edit: Callable[[list[Line]], Any], said: str, sheet: Sheet) -> None:
    lines = lines_of(sheet.vote("bad", good))
    edit(lines)
    with pytest.raises(ValueError, match=said) as error:
        agree([save(sheet.folder / "bad.csv", lines)])
    assert str(sheet.folder / "bad.csv") in str(error.value)


@pytest.mark.parametrize("content", ["item,describes\nübung,a\n".encode("latin-1"), b'item,describes\nx,"a\n'])
def test_a_file_that_is_no_csv_is_named(content: bytes, sheet: Sheet) -> None:
    file = sheet.folder / "bad.csv"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=f"{file}: must be a CSV in UTF-8, cannot be read"):
        agree([file])


def test_a_key_that_does_not_fit_is_named(sheet: Sheet, capsys: pytest.CaptureFixture[str]) -> None:
    file = sheet.vote("votes", good)
    bad = lines_of(sheet.key)
    bad[1]["caption_is"] = "c"
    for files, key, said in (
        ([file, sheet.folder / "." / "votes.csv"], None, "every sheet must be given once"),
        ([file], file, f"{file}:1: must have the columns {', '.join(annotation.KEY)}"),
        ([file], save(sheet.folder / "k.csv", bad), "k.csv:3: caption_is must be one of a, b, was: 'c'"),
    ):
        with pytest.raises(ValueError, match=said):
            agree(files, key)
    shutil.copy(sheet.key, sheet.folder / "other.key.csv")
    assert main(["agree", str(file)]) == 2
    assert re.search("^[^\n]*2 keys beside .*: give --key\n$", capsys.readouterr().err)
    (sheet.folder / "away").mkdir()
    with pytest.raises(FileNotFoundError, match="no \\*.key.csv beside .*: give --key"):
        agree([Path(shutil.copy(file, sheet.folder / "away"))])
