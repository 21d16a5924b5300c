"""What a build warns of: captions in other languages, lemmas, one text many times, other worlds, rejected records."""

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pytest

from negcap.pipelines.cli import main
from tests.conftest import HERE

Warned = Callable[..., str]
ENGLISH, GERMAN = "A brown dog runs across a field.", "Ein brauner Hund läuft über ein Feld."


def combined(pattern: str, *words: str) -> list[str]:
    """A pattern with every combination of words, given between commas for each of its places."""
    return [pattern.format(*chosen) for chosen in product(*(choice.split(",") for choice in words))]


WHO = "man,woman,boy,girl,child"
DOES = "rides a horse,kicks a ball,eats an apple,reads a book"
EVERYDAY = combined("A {} {} {}.", WHO, DOES, "in a park,on a beach,near a house,at a table")
LEMMAS = combined("A {} {} near the {} .", WHO, "ride a horse,be kick a ball,eat an apple", "house,tree,wall")
THERE, OF = "runway,pier,depot,silo,dock", "refinery,viaduct,cargo harbour,container yard,reservoir"
AERIAL = combined("{} storage tanks stand beside the {} of a {}.", "Many,Some,Four,Several", THERE, OF)
REPEATED = [*[ENGLISH] * 10, *EVERYDAY[:40]]
NOT_ENGLISH, SAME, LEMMA, FAR = "do not look English", "are the same text", "dictionary forms", "everyday photos"


@pytest.fixture
def warnings_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Warned:
    """What is said on stderr about a file when it is read, and parsed if asked for."""

    def warned(lines: Sequence[str], *flags: str, name: str = "captions.txt", encoding: str = "utf-8") -> str:
        file = tmp_path / name
        file.write_text("\n".join(lines), encoding)
        only = () if "--only" in flags else ("--only", "ingest")
        assert main(["build", str(file), "--output", str(tmp_path / "run"), *only, *HERE, *flags]) == 0
        return capsys.readouterr().err

    return warned


@pytest.mark.parametrize(("lines", "flags", "warning", "told"), [
    ([GERMAN, *EVERYDAY[:38]], [], NOT_ENGLISH, ""),
    ([GERMAN, GERMAN, *EVERYDAY[:38]], [], NOT_ENGLISH, f"2 of 40 sampled (e.g. {GERMAN!r})"),
    ([GERMAN, GERMAN, *EVERYDAY[:38]], ["--language", "de"], NOT_ENGLISH, ""),
    (REPEATED[1:], [], SAME, ""),
    (REPEATED, [], SAME, f"10 of 50 sampled, {ENGLISH!r}"),
    (REPEATED, ["--set", "duplicates=true"], SAME, ""),
    (EVERYDAY, [], LEMMA, ""),
    (LEMMAS, [], LEMMA, f"(e.g. {LEMMAS[0]!r})"),
    (LEMMAS[:5], [], LEMMA, ""),
], ids=range(9))  # fmt: skip
def test_captions_that_are_not_what_negcap_is_for_are_told_of(lines, flags, warning, told, warnings_of):
    warned = warnings_of(lines, *flags)
    assert (warning in warned) == bool(told) and told in warned


@pytest.mark.parametrize(("lines", "warned"), [(EVERYDAY * 2, False), (AERIAL, True), (AERIAL[:20], False)])
def test_captions_far_from_everyday_photos_are_told_of(lines, warned, warnings_of):
    warning = warnings_of(lines, "--only", "ingest", "--only", "parse", "--only", "lexicon")
    assert all((part in warning) is warned for part in (FAR, "tank", "cloze CAPTIONS --continue shipped"))


@pytest.mark.parametrize(("bad", "warned"), [(1, False), (2, True), (5, True)])
def test_many_rejected_records_are_told_of_with_the_commonest_reason(bad, warned, warnings_of):
    rows = [f"{number}.jpg,{text}" for number, text in enumerate(EVERYDAY[: 60 - bad])]
    warning = warnings_of(["image,caption", *rows, "../a.jpg,A dog.", *["x.jpg,."] * (bad - 1)], name="a.csv")
    assert (f"{bad} of 60 records rejected" in warning) is warned
    assert ("most (4) as no_text, such as a.csv:58: caption must have a word" in warning) is (bad == 5)


def test_records_that_are_not_utf8_are_told_of_with_what_to_do(warnings_of):
    warning = warnings_of(["image,caption", "1.jpg,A café.", "2.jpg,A dog."], name="a.csv", encoding="cp1252")
    assert "not UTF-8: 1; if the file is of Windows or Latin-1, iconv" in warning
