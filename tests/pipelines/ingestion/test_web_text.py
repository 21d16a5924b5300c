"""Captions of the web that are refused on demand: other languages, boilerplate, repetitions."""

import re
from pathlib import Path

import pytest

from negcap.pipelines.ingestion import checks
from negcap.pipelines.readers.record import Record
from tests.cases import cases_of
from tests.pipelines.stages.test_ingest import captions, rejected, run_ingest

CASES = cases_of(__file__)


def ingested(lines: list[str], tmp_path: Path, **config) -> tuple[list[str], dict[int, str]]:
    """The captions that are kept of some, each of an image of its own, and by line why the others are not."""
    tmp_path.mkdir(exist_ok=True)
    source, run = tmp_path / "captions.txt", tmp_path / "run"
    source.write_text("\n".join(lines))
    run_ingest(source, run, **config)
    return [row["text"] for row in captions(run)], {row["line"]: row["reason"] for row in rejected(run)}


@pytest.mark.parametrize("text, rule", CASES["boilerplate"].items())
def test_boilerplate(text, rule):
    bad = checks.is_boilerplate(Record("a.csv", 1, "1.jpg", text))
    assert bad is None if rule == "good" else bad.reason == "boilerplate" and rule in bad.detail


@pytest.mark.slow
def test_other_languages_are_refused_and_short_texts_kept(tmp_path):
    lines = ["A dog runs along the beach.", "Ein Hund rennt am Strand entlang.", "Two dogs", "Un chien court."]
    kept, bad = ingested(lines, tmp_path, languages=("en",))
    assert kept == [lines[0], lines[2]] and bad == {2: "other_language", 4: "other_language"}
    with pytest.raises(ValueError, match="languages must be among those of py3langid, was: xx"):
        ingested(lines, tmp_path, languages=("xx",))


@pytest.mark.parametrize("near", [False, True])
def test_repetitions_of_earlier_captions_are_refused(near, tmp_path):
    lines = CASES["repeated"]["lines"]
    kept, bad = ingested(lines, tmp_path, duplicates=True, near_duplicates=near)
    expected = {**dict.fromkeys((2, 3, 6), "duplicate_text"), **({4: "near_duplicate_text"} if near else {})}
    assert bad == expected
    assert kept == [text for line, text in enumerate(lines, 1) if line not in expected]
    assert ingested(lines, tmp_path / "all", boilerplate=True) == (lines, {})


def test_the_chance_to_share_a_band_is_the_one_documented():
    documented = re.findall(r"(\d+) % at (?:J = )?(0\.\d)", checks.__doc__ or "")
    assert [jaccard for _, jaccard in documented] == ["0.6", "0.8", "0.9"]
    for percent, jaccard in documented:
        assert round(100 * (1 - (1 - float(jaccard) ** checks.BAND_ROWS) ** checks.BANDS)) == int(percent)
