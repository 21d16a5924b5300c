import csv
import io
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.quality.annotation import (
    KEY,
    LETTERS,
    Item,
    SheetConfig,
    agree,
    items,
    krippendorff_alpha,
    read_key,
    write_sheet,
)
from tests.pipelines.publish.fixtures import changed
from tests.tables import rows_of

Line = dict[str, str]
OPERATORS = ("noun", "numeral")


def units(*annotators: str) -> list[list[str | None]]:
    """Annotators' values, a character a unit, `.` where there is none."""
    return [[None if value == "." else value for value in unit] for unit in zip(*annotators, strict=True)]


@pytest.mark.parametrize(
    "annotators, expected",
    [
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
    ],
)
def test_alpha_is_as_published(annotators: tuple[str, ...], expected: float | None) -> None:
    found = [krippendorff_alpha(pd.DataFrame(units(*some))) for some in (annotators, annotators[::-1])]
    assert found == [None if expected is None else pytest.approx(expected, abs=0.0005)] * 2


def lines_of(file: Path) -> list[Line]:
    return list(csv.DictReader(io.StringIO(file.read_bytes().decode("utf-8-sig"))))


def written(run: Path, folder: Path, **given: Any) -> tuple[list[Line], list[Line]]:
    folder.mkdir(exist_ok=True)
    sheet, key, _ = write_sheet(run, folder / "sheet.csv", SheetConfig(**given))
    return lines_of(sheet), lines_of(key)


def test_a_sheet_shows_pairs_and_keeps_what_they_are(toy: Path, tmp_path: Path) -> None:
    sheet, key = written(toy, tmp_path / "out", n=10)
    assert list(sheet[0]) == ["item", "image", "text_a", "text_b", "describes", "fluent"]
    assert [line["item"] for line in sheet] == [line["item"] for line in key]
    assert Counter(line["operator"] for line in key) == {"noun": 10, "numeral": 10}
    images = {row["caption_id"]: row["image"] for row in rows_of(toy, "captions")}
    negatives = {row["negative_id"]: row for row in rows_of(toy, "negatives")}
    for shown, known in zip(sheet, key, strict=True):
        other = "b" if known["caption_is"] == "a" else "a"
        assert shown[f"text_{known['caption_is']}"] == known["caption"] != shown[f"text_{other}"] == known["text"]
        assert (shown["image"], shown["describes"], shown["fluent"]) == (images[known["caption_id"]], "", "")
        row = negatives[known["id"]]
        assert all(row[name] == known[name] for name in ("caption", "text", "operator"))
        assert known["id"].endswith(":0")  # the first draw


def test_nothing_in_the_sheet_tells_what_is_what(toy: Path, tmp_path: Path) -> None:
    sheet, key = written(toy, tmp_path / "out", n=40)
    assert min(Counter(line["caption_is"] for line in key).values()) > 0.3 * len(key)
    kinds = [line["operator"] for line in key]
    assert sum(a != b for a, b in zip(kinds, kinds[1:], strict=False)) > len(kinds) / 3  # mixed, not in blocks
    assert all(set(line["item"]) <= set(LETTERS) for line in sheet)
    text = (tmp_path / "out" / "sheet.csv").read_text(encoding="utf-8-sig")
    assert not [word for word in ("noun", "numeral", "negative", "#") if word in text]


def test_a_sheet_hangs_on_the_seed(toy: Path, tmp_path: Path) -> None:
    one, again, other = (written(toy, tmp_path / str(n), n=7, seed=seed) for n, seed in enumerate((0, 0, 1)))
    assert one == again != other


def test_a_refined_sheet_is_of_what_was_kept(sample_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(sample_run, tmp_path / "run"))
    with pytest.raises(FileNotFoundError, match=f"has no refined negatives yet: run negcap refine {run}"):
        items(run, SheetConfig(refined=True))
    assert main(["refine", str(run), "--operator", "attribute", "--scheduler", "synchronous", "--quiet"]) == 0
    kept = {row["negative_id"] for row in rows_of(run, "refined")}
    asked = {item.id for item in items(run, SheetConfig(n=1000, refined=True))}
    assert asked == kept


def test_a_spreadsheet_takes_no_text_for_a_formula(tmp_path: Path) -> None:
    def edit(captions: list[dict[str, Any]], negatives: list[dict[str, Any]]) -> None:
        for row in negatives:
            row["caption"], row["text"] = f"=HYPERLINK({row['caption']}", f'@SUM("{row["text"]}", \u202e1\r\n)'

    sheet, _ = written(changed(tmp_path, edit), tmp_path / "out", n=5)
    texts = [line[f"text_{side}"] for line in sheet for side in "ab"]
    assert not [text for text in texts if text.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert not [text for text in texts if "\u202e" in text or "\n" in text]
    assert sum(text.startswith("'=HYPERLINK(A") for text in texts) == 10


BAD_SHEETS = {  # the options: what is said
    "--n 0": "n must be >= 1, was: 0",
    "--operator nouns": "was: nouns; did you mean noun?",
    "--operator verb": "operator must be one of noun, numeral",
    "--split val": "split must be one of 'test', 'train' in {run}/negatives, was: 'val'",
    "--refined": "has no refined negatives yet: run negcap refine {run}",
    "--key {tmp}/sheet.csv": "key must be another file than the sheet",
}


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command says that refuses its input in one line."""
    capsys.readouterr()
    assert main([*map(str, arguments)]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    return shown.err


def test_a_bad_sheet_is_one_line(toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, said in BAD_SHEETS.items():
        given = options.format(tmp=tmp_path).split()
        assert said.format(run=toy) in refusal(capsys, "sheet", toy, "--output", tmp_path / "sheet.csv", *given)
    assert not list(tmp_path.glob("*.csv"))


Judge = Callable[[Item], tuple[str, str]]


def side(item: Item, what: str) -> str:
    return {"caption": item.caption_is, "text": "b" if item.caption_is == "a" else "a"}.get(what, what)


def vote(sheet: Path, file: Path, key: Path, judge: Judge) -> Path:
    """Fill a copy of a sheet in as a person would who knows the key: `caption`, `text`, `both` …"""
    known = read_key(key)
    lines = lines_of(sheet)
    for line in lines:
        describes, fluent = judge(known[line["item"]])
        line["describes"] = side(known[line["item"]], describes)
        line["fluent"] = side(known[line["item"]], fluent)
    return save(file, lines)


def save(file: Path, lines: list[Line], delimiter: str = ",") -> Path:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(lines)
    file.write_text(text.getvalue(), encoding="utf-8", newline="")
    return file


def good(item: Item) -> tuple[str, str]:
    return "caption", "both"


def numerals_are_true(item: Item) -> tuple[str, str]:
    return ("both" if item.operator == "numeral" else good(item)[0]), "caption"


@pytest.fixture(scope="module")
def made(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_sheet(toy, tmp_path_factory.mktemp("made") / "sheet.csv", SheetConfig(n=10))[:2]


@pytest.fixture
def sheet(made: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """A sheet and its key, in the folder of the test."""
    return Path(shutil.copy(made[0], tmp_path)), Path(shutil.copy(made[1], tmp_path))


def test_three_annotators_three_files(sheet: tuple[Path, Path], tmp_path: Path) -> None:
    def careful(item: Item) -> tuple[str, str]:
        return ("neither" if item.operator == "noun" else good(item)[0]), "both"

    judges = {"anna": good, "ben": numerals_are_true, "cleo": careful}
    files = [vote(sheet[0], tmp_path / f"{name}.csv", sheet[1], judge) for name, judge in judges.items()]
    report = agree(files)
    assert [one["name"] for one in report["operators"]] == ["noun", "numeral", "all"]
    noun, numeral, everything = report["operators"]
    assert (noun["items"], noun["votes"], noun["valid"].percent, noun["false"].percent) == (10, 30, 100.0, 100.0)
    assert (numeral["valid"].percent, numeral["false"].percent) == (100.0, 100.0)  # two of three
    assert everything["items"] == 20 and everything["fluent"] is not None and everything["fluent"].percent == 100.0
    # Wilson's interval of 10 in 10: 100 * 10 / (10 + 1.96^2)
    assert noun["valid"].low == pytest.approx(72.25, abs=0.01) and noun["valid"].high == pytest.approx(100.0)
    assert noun["alpha"] == pytest.approx(1 - 29 * 20 / (900 - 400 - 100))  # every unit: caption, caption, neither
    assert report["invalid"] == [] and report["unanswered"] == 0


def test_what_a_majority_finds_true_is_not_valid(sheet: tuple[Path, Path], tmp_path: Path) -> None:
    judges = [good, numerals_are_true, numerals_are_true]
    files = [vote(sheet[0], tmp_path / f"{n}.csv", sheet[1], judge) for n, judge in enumerate(judges)]
    report = agree(files, sheet[1])
    noun, numeral, everything = report["operators"]
    assert noun["valid"].percent == 100.0 and numeral["valid"].percent == 0.0 and everything["valid"].percent == 50.0
    assert noun["fluent"] and noun["fluent"].percent == 0.0
    key = read_key(sheet[1])
    assert sorted(report["invalid"]) == sorted(item.id for item in key.values() if item.operator == "numeral")


def test_a_tie_is_no_majority_and_no_vote_does_not_count(sheet: tuple[Path, Path], tmp_path: Path) -> None:
    def half(item: Item) -> tuple[str, str]:
        return good(item) if item.operator == "noun" else ("", "")

    one = vote(sheet[0], tmp_path / "one.csv", sheet[1], half)
    report = agree([one], sheet[1])
    assert [(entry["name"], entry["items"], entry["votes"]) for entry in report["operators"]] == [
        ("noun", 10, 10),
        ("all", 10, 10),
    ]
    assert report["unanswered"] == 10 and report["operators"][0]["alpha"] is None
    two = vote(sheet[0], tmp_path / "two.csv", sheet[1], lambda item: ("both", ""))
    assert agree([one, two], sheet[1])["operators"][0]["valid"].percent == 0.0


def test_what_spreadsheets_do_to_a_csv_is_read(sheet: tuple[Path, Path], tmp_path: Path) -> None:
    plain = vote(sheet[0], tmp_path / "plain.csv", sheet[1], good)
    lines = lines_of(plain)
    for line in lines:
        line["describes"] = f" {line['describes'].upper()} "
    mangled = save(tmp_path / "mangled.csv", list(reversed(lines)), ";")
    mangled.write_bytes(b"\xef\xbb\xbf" + mangled.read_bytes() + b";;;;;\r\n\r\n")
    assert agree([mangled], sheet[1])["operators"] == agree([plain], sheet[1])["operators"]
    tabs = save(tmp_path / "tabs.csv", [{k: v for k, v in line.items() if k != "image"} for line in lines], "\t")
    assert agree([tabs], sheet[1])["operators"] == agree([plain], sheet[1])["operators"]


def changed_line(number: int, **cells: str) -> Callable[[list[Line]], None]:
    return lambda lines: lines[number].update(cells)


BAD_VOTES: list[tuple[Callable[[list[Line]], Any], str]] = [
    (changed_line(3, describes="c"), "{file}:5: describes must be one of a, b, both, neither, unsure, was: 'c'"),
    (changed_line(0, fluent="yes"), "{file}:2: fluent must be one of a, b, both, neither, unsure, was: 'yes'"),
    (changed_line(2, item="zzz"), "{file}:4: item zzz is none of the key's"),
    (lambda lines: lines[4].update(item=lines[1]["item"]), "occurs twice"),
    (
        lambda lines: [line.pop("describes") for line in lines],
        "{file}:1: must have the columns item, describes, fluent, lacks: describes",
    ),
    (
        lambda lines: [line.pop("item") for line in lines],
        "{file}:1: must have the columns item, describes, fluent, lacks: item",
    ),
    (lambda lines: [line.update(describes="") for line in lines], "no votes in {file}"),
]


def test_bad_votes_name_file_and_line(
    sheet: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for edit, said in BAD_VOTES:
        file = vote(sheet[0], tmp_path / "bad.csv", sheet[1], good)
        lines = lines_of(file)
        edit(lines)
        assert said.format(file=file) in refusal(capsys, "agree", save(file, lines))


def test_bad_files_are_one_line(sheet: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: object) -> str:
        return refusal(capsys, "agree", *arguments)

    file = vote(sheet[0], tmp_path / "votes.csv", sheet[1], good)
    assert "Missing argument" in said()
    assert f"{tmp_path / 'none.csv'}: No such file" in said(tmp_path / "none.csv")
    assert "every sheet must be given once" in said(file, tmp_path / "." / "votes.csv")
    (tmp_path / "latin.csv").write_bytes("item,describes\nübung,a\n".encode("latin-1"))
    assert f"{tmp_path / 'latin.csv'}: must be a CSV in UTF-8, cannot be read: 'utf-8' codec" in said(
        tmp_path / "latin.csv"
    )
    (tmp_path / "open.csv").write_text('item,describes\nx,"a\n')
    assert f"{tmp_path / 'open.csv'}: must be a CSV in UTF-8, cannot be read" in said(tmp_path / "open.csv")
    (tmp_path / "many.csv").write_text("item,describes\nx,a\ny,a,b\n")
    assert f"{tmp_path / 'many.csv'}: must be a CSV in UTF-8, cannot be read" in said(tmp_path / "many.csv")
    assert f"{file}:1: must have the columns {', '.join(KEY)}" in said(file, "--key", file)
    shutil.copy(sheet[1], tmp_path / "other.key.csv")
    assert "2 keys beside" in said(file) and "give --key" in said(file)
    (tmp_path / "away").mkdir()
    moved = Path(shutil.copy(file, tmp_path / "away" / "votes.csv"))
    assert f"no *.key.csv beside {moved}: give --key" in said(moved)
    bad = lines_of(sheet[1])
    bad[1]["caption_is"] = "c"
    assert f"{save(tmp_path / 'k.csv', bad)}:3: caption_is must be one of a, b, was: 'c'" in said(
        file, "--key", tmp_path / "k.csv"
    )


def test_votes_are_never_overwritten_unasked(toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sheet", str(toy), "--output", str(tmp_path / "s.csv"), "--n", "2", "--key", str(tmp_path / "k.csv")]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert f"{tmp_path / 's.csv'}: 4 pairs (2 noun, 2 numeral)" in said and "not for annotators" in said
    before = (tmp_path / "s.csv").read_bytes()
    (tmp_path / "s.csv").write_bytes(before + b"voted")
    assert main([*arguments, "--seed", "3"]) == 2
    assert "is there already and may hold votes (--overwrite replaces it)" in capsys.readouterr().err
    (tmp_path / "s.csv").unlink()
    assert main([*arguments, "--seed", "3"]) == 2  # the key is still there
    assert main([*arguments, "--overwrite"]) == 0
    assert (tmp_path / "s.csv").read_bytes() == before
