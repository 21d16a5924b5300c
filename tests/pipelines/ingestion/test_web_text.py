"""Captions of the web that are refused on demand: other languages, boilerplate, checks."""

import re
from pathlib import Path

import pytest

from negcap.pipelines.ingestion import checks
from negcap.pipelines.readers.record import Record
from tests.pipelines.stages.test_ingest import captions, rejected, run_ingest


def ingested(lines: list[str], tmp_path: Path, **config) -> tuple[list[str], list[tuple[int, str]]]:
    """The captions that are kept of some, each of an image of its own, and line and reason of the others."""
    tmp_path.mkdir(exist_ok=True)
    source, run = tmp_path / "captions.txt", tmp_path / "run"
    source.write_text("\n".join(lines))
    run_ingest(source, run, **config)
    return [row["text"] for row in captions(run)], [(row["line"], row["reason"]) for row in rejected(run)]


BOILERPLATE = {
    "IMG_1234": "a file name",
    "holiday-2019.JPG": "a file name",
    "Visit https://x.org for more": "a web address",
    "Kite &amp; string": "markup",
    "[caption id=3] A kite": "markup",
    "Click to enlarge": "a stock phrase",
    "Red kite, royalty free stock photo": "a stock phrase",
    "A kite © 2019": "a stock phrase",
    "12345 / 678": "of words",
    "kite kite kite kite": "4 times",
}
CAPTIONS = (
    "A red kite over a hill.", "A photo of a man by the sea", "Two signs in a window", "A woman (left) in a #10 shirt",
)  # fmt: skip


def test_boilerplate():
    for text, rule in BOILERPLATE.items():
        bad = checks.is_boilerplate(Record("a.csv", 1, "1.jpg", text))
        assert bad and bad.reason == "boilerplate" and rule in bad.detail, text
    assert not any(checks.is_boilerplate(Record("a.csv", 1, "1.jpg", text)) for text in CAPTIONS)


@pytest.mark.slow
def test_other_languages_are_refused_and_short_texts_kept(tmp_path):
    lines = ["A dog runs along the beach.", "Ein Hund rennt am Strand entlang.", "Two dogs", "Un chien court."]
    kept, bad = ingested(lines, tmp_path, languages=("en",))
    assert kept == [lines[0], lines[2]]
    assert bad == [(2, "other_language"), (4, "other_language")]
    with pytest.raises(ValueError, match="languages must be among those of py3langid, was: xx"):
        ingested(lines, tmp_path, languages=("xx",))


LINES = [
    "A man rides a wave on a surfboard at the beach.",
    "a man rides a wave on a surfboard at the beach",
    "A man rides a wave on a surfboard at the beach!!",
    "A man rides a wave on a surfboard at the beach 2.",
    "A woman holds a green umbrella in the rain.",
    "A man rides a wave on a surfboard at the beach.",
]


@pytest.mark.parametrize("near", [False, True])
def test_repetitions_of_earlier_captions_are_refused(near, tmp_path):
    kept, bad = ingested(LINES, tmp_path, duplicates=True, near_duplicates=near)
    found = {**dict.fromkeys((2, 3, 6), "duplicate_text"), **({4: "near_duplicate_text"} if near else {})}
    assert kept == [text for line, text in enumerate(LINES, 1) if line not in found]
    assert bad == sorted(found.items())
    assert ingested(LINES, tmp_path / "all", boilerplate=True) == (LINES, [])


def test_the_chance_to_share_a_band_is_the_one_documented():
    found = re.findall(r"(\d+) % at (?:J = )?(0\.\d)", checks.__doc__ or "")
    stated = [(float(jaccard), int(percent)) for percent, jaccard in found]
    assert [j for j, _ in stated] == [0.6, 0.8, 0.9]
    for jaccard, percent in stated:
        assert round(100 * (1 - (1 - jaccard**checks.BAND_ROWS) ** checks.BANDS)) == percent
