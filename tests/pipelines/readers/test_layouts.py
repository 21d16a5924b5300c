"""Layouts of published data sets, three records of each in the form that they are published in. The page on formats
lists them. The sentences are made up.
"""

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.pipelines.readers.sources import CASES, check_reading, filled

LAYOUTS = CASES["layouts"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_published_layout_is_read(name: str, tmp_path: Path) -> None:
    files = filled(LAYOUTS[name])
    columns = files.pop("columns", "")
    images = files.pop("images", ["1.jpg", "1.jpg", "2.jpg"])
    rejected = files.pop("rejected", [])
    captions = [f"{image}: {text}" for image, text in zip(images, filled(["$DOG", "$CAT", "$BOYS"]), strict=True)]
    check_reading(tmp_path, files, captions + rejected, columns)


def test_the_page_on_formats_lists_every_layout_with_its_columns() -> None:
    page = (ROOT / "docs/pages/reference/formats.md").read_text()
    rows = re.findall(r"^\| ([^|]+?) \| [^\n]* \| (.*?) ?\|$", page.partition("### Layouts")[2], re.MULTILINE)
    listed = {name: re.sub(r"`|--columns |\s", "", columns) for name, columns in rows}
    tested = {name: layout.get("columns", "") for name, layout in LAYOUTS.items()}
    assert {name: listed.get(name) for name in LAYOUTS} == tested
