"""The runs that are published."""

from pathlib import Path
from shutil import copytree

import pytest

from tests.pipelines.publish.fixtures import (
    IMAGES,
    TESTS,
    TOY_TESTS,
    TOYS,
    Toy,
    published,
    report,
    rows,
    write_images,
    write_run,
)

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


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was published, so that it has a measure of how guessable it is."""
    folder = tmp_path_factory.mktemp("measured")
    published(write_run(folder / "run", *rows(IMAGES, TESTS)), folder / "out")
    return folder / "run"


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    return Path(copytree(measured, tmp_path / "run"))


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """How guessable negatives are is not measured, which takes most of the time: every baseline is at chance."""
    measure = "negcap.pipelines.quality.bias.measure.blind"
    monkeypatch.setattr(measure, lambda name, pairs, *_: report(len(pairs) // 2, len(pairs), name))
