"""What a build warns of: captions in other languages, lemmas, one text many times, other worlds, rejected records."""

from collections.abc import Callable, Sequence
from itertools import islice, product
from pathlib import Path

import pytest

from negcap.pipelines.cli import main

Said = Callable[..., str]
ENGLISH, GERMAN = "A brown dog runs across a field.", "Ein brauner Hund läuft über ein Feld."
WHO, DOES = ("man", "woman", "boy", "girl", "child"), ("rides a horse", "kicks a ball", "eats an apple", "reads a book")
WHERE = ("in a park", "on a beach", "near a house", "at a table")
EVERYDAY = [f"A {who} {does} {where}." for who, does, where in product(WHO, DOES, WHERE)]
AERIAL = [
    f"{how} storage tanks stand beside the {where} of a {what}."
    for how, where, what in product(("Many", "Some", "Four", "Several"), ("runway", "pier", "depot", "silo", "dock"),
                                    ("refinery", "viaduct", "cargo harbour", "container yard", "reservoir"))
]  # fmt: skip
LEMMAS = [f"A {who} {does} near the {what} ." for who, does, what in product(
    WHO, ("ride a horse", "be kick a ball", "eat an apple"), ("house", "tree", "wall"))]  # fmt: skip


@pytest.fixture
def warnings_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    """What is said on stderr about these lines of a file when it is read, and parsed if asked for."""

    def said(lines: Sequence[str], *flags: str, name: str = "captions.txt", parsed: bool = False) -> str:
        file = tmp_path / name
        file.write_text("\n".join(lines))
        only = ["--only", "ingest", *(["--only", "parse", "--only", "lexicon"] if parsed else [])]
        here = ["--output", str(tmp_path / "run"), "--scheduler", "synchronous", "--quiet", "--overwrite"]
        assert main(["build", str(file), *only, *here, *flags]) == 0
        return capsys.readouterr().err

    return said


@pytest.mark.parametrize(
    ("german", "flags", "warned"), [(1, [], False), (2, [], True), (2, ["--language", "de"], False)]
)
def test_captions_that_do_not_look_english_are_told_of(
    german: int, flags: list[str], warned: bool, warnings_of
) -> None:
    said = warnings_of([*[GERMAN] * german, *EVERYDAY[:38]], *flags)
    assert (f"do not look English: 2 of 40 sampled (e.g. {GERMAN!r}); --set languages=en" in said) is warned


@pytest.mark.parametrize(("times", "warned"), [(9, False), (10, True), (30, True)])
def test_one_text_many_times_is_told_of(times: int, warned: bool, warnings_of) -> None:
    said = warnings_of([*[ENGLISH] * times, *EVERYDAY[:40]])
    assert (f"are the same text: {times} of {times + 40} sampled, {ENGLISH!r}; --set duplicates=true" in said) is warned
    assert "the same text" not in warnings_of([*[ENGLISH] * times, *EVERYDAY[:40]], "--set", "duplicates=true")


@pytest.mark.parametrize(("lines", "warned"), [(EVERYDAY, False), (LEMMAS, True), (LEMMAS[:5], False)])
def test_lemmas_are_told_of(lines: list[str], warned: bool, warnings_of) -> None:
    said = warnings_of(lines)
    assert (f"dictionary forms of words, not sentences (e.g. {lines[0]!r})" in said) is warned


@pytest.mark.parametrize(("lines", "warned"), [(EVERYDAY * 2, False), (AERIAL, True), (AERIAL[:20], False)])
def test_captions_far_from_everyday_photos_are_told_of(lines: list[str], warned: bool, warnings_of) -> None:
    said = warnings_of(lines, parsed=True)
    assert ("these captions differ from those of everyday photos: their nouns (" in said) is warned
    assert ("tank" in said and "cloze CAPTIONS --continue shipped" in said) is warned
    assert ("20 % or more; so that lexicon weighs nothing; expect" in said) is warned


@pytest.mark.parametrize(("bad", "warned"), [(1, False), (2, True), (5, True)])
def test_many_rejected_records_are_told_of_with_the_commonest_reason(bad: int, warned: bool, warnings_of) -> None:
    rows = [f"{number}.jpg,{text}" for number, text in enumerate(islice(EVERYDAY, 60 - bad))]
    said = warnings_of(["image,caption", *rows, "../a.jpg,A dog.", *["x.jpg,."] * (bad - 1)], name="a.csv")
    share = f"{bad} of 60 records rejected, most (" in said
    assert share is warned
    if bad == 5:
        assert "most (4) as no_text, such as a.csv:58: caption must have a word, was: '.' ('.')" in said


def test_records_that_are_not_utf8_are_told_of_with_what_to_do(tmp_path: Path, capsys) -> None:
    (tmp_path / "a.csv").write_bytes("image,caption\n1.jpg,A café.\n2.jpg,A dog.\n".encode("cp1252"))
    here = ["--output", str(tmp_path / "run"), "--scheduler", "synchronous", "--quiet", "--only", "ingest"]
    assert main(["build", str(tmp_path / "a.csv"), *here]) == 0
    assert (
        "records rejected as they are not UTF-8: 1; if the file is of Windows or Latin-1, iconv"
        in capsys.readouterr().err
    )
