"""Options and fixtures that several test modules share."""

import os
from pathlib import Path

import pytest

from negcap.pipelines.cli import main

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "pipelines" / "sample" / "captions.json"
GOLDEN = ROOT / "tests" / "golden"
DATA = Path(os.environ.get("NEGCAP_DATA", ROOT.parent / "shared" / "data"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew instead of comparing")


@pytest.fixture
def real_data() -> Path:
    """The folder of real captions; skips the test where there is none."""
    if not DATA.is_dir():
        pytest.skip(f"needs the real captions in NEGCAP_DATA, no folder {DATA}")
    return DATA


@pytest.fixture(scope="session")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the sample's first 40 images with every operator, made in this process; copy it to change it."""
    run = tmp_path_factory.mktemp("sample") / "run"
    options = ["--limit", "40", "--preset", "all", "--lexicon", "own", "--scheduler", "synchronous", "--quiet"]
    assert main(["build", str(SAMPLE), "--output", str(run), *options]) == 0
    return run


@pytest.fixture
def golden(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    """golden(name, text): compare with tests/golden/<name>, or write it with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is not there: make golden writes it"
        assert text == path.read_text(encoding="utf-8"), f"{path} differs: see make golden"

    return compare
