"""The runs that are published."""

from pathlib import Path

import pytest

from tests.pipelines.publish.fixtures import IMAGES, TESTS, TOY_TESTS, TOYS, Toy, rows, write_images, write_run

QUIRKS = {"“Wait,” she says": 0, 'A "quoted" sign; it\'s 1,5 m\\wide': 1}


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A run with quotes, commas, backslashes and signs beyond ASCII in its captions."""
    folder = tmp_path_factory.mktemp("toy")
    captions, negatives = rows(TOYS, TOY_TESTS)
    for row in [*captions, *negatives]:
        for quirk, n in QUIRKS.items():
            if row["caption_id"].endswith(f":{n}"):
                for name in {"text", "caption"} & row.keys():
                    row[name] = f"{row[name]} {quirk}, 😀"
    images = write_images(folder / "images", [f"p{i:03d}.jpg" for i in range(TOYS)])
    return Toy(write_run(folder / "run", captions, negatives), images, captions, negatives)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", *rows(IMAGES, TESTS))
