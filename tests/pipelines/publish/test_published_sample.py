"""outputs/published, the sample's refined negatives as a test set: it is what the present code publishes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pandas as pd

from negcap.pipelines.cli import main
from tests.conftest import BENCHMARK, ROOT

PUBLISHED = ROOT / "outputs" / "published"


def rows_of(folder: Path) -> dict[str, pd.DataFrame]:
    """The rows of each file of a published set, by its path in the folder."""
    return {str(path.relative_to(folder)): pd.read_parquet(path) for path in sorted(folder.rglob("*.parquet"))}


def test_it_has_the_rows_that_the_present_code_publishes(documented: Path, tmp_path: Path) -> None:
    out = tmp_path / "published"
    license_flags = ["--format", "huggingface", "--license", "CC0-1.0", "--refined"]
    assert main(["publish", str(documented / BENCHMARK), "--output", str(out), *license_flags, "--quiet"]) == 0
    expected = rows_of(out)
    published = rows_of(PUBLISHED)
    assert published.keys() == expected.keys() and len(expected) >= 6
    for name, rows in expected.items():
        pd.testing.assert_frame_equal(published[name], rows)


def test_its_files_are_those_of_its_checksums_and_its_metadata() -> None:
    lines = (PUBLISHED / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    sums = dict(reversed(line.split("  ", 1)) for line in lines)
    files = {str(path.relative_to(PUBLISHED)) for path in PUBLISHED.rglob("*") if path.is_file()}
    assert files == {*sums, "SHA256SUMS", "README.md", "croissant.json"}
    for name, expected in sums.items():
        assert hashlib.sha256((PUBLISHED / name).read_bytes()).hexdigest() == expected, name
    assert json.loads((PUBLISHED / "croissant.json").read_text(encoding="utf-8"))["license"]
