"""The warning about captions in other languages."""

from pathlib import Path

import pytest

from negcap.pipelines.cli import main

ENGLISH, GERMAN = "A brown dog runs across a field.", "Ein brauner Hund läuft über ein Feld."


@pytest.mark.parametrize(
    ("german", "flags", "warned"), [(1, [], False), (2, [], True), (2, ["--language", "de"], False)]
)
def test_captions_that_do_not_look_english_are_told_of(
    german: int, flags: list[str], warned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "captions.txt"
    file.write_text("\n".join([*[GERMAN] * german, *[ENGLISH] * 38]))
    here = ["--output", str(tmp_path / "run"), "--scheduler", "synchronous", "--quiet"]
    assert main(["build", str(file), "--only", "ingest", *here, *flags]) == 0
    said = capsys.readouterr().err
    assert (f"2 of 40 captions looked at, such as {GERMAN!r}: --set languages=en" in said) is warned
