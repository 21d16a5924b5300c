"""Options and fixtures that several test modules share."""

import compileall
import contextlib
import fcntl
import gc
import importlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.models import figures

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "pipelines" / "sample" / "captions.json"
GOLDEN = ROOT / "tests" / "golden"
LAYERS = ("schemas", "augment", "pipelines")
HERE = ("--scheduler", "synchronous", "--quiet")
DATA = Path(os.environ.get("NEGCAP_DATA", ROOT.parent / "shared" / "data"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    """Look for garbage less often, and compile the package once, whatever PYTHONDONTWRITEBYTECODE says: the tests start
    dozens of processes that import it.
    """
    gc.set_threshold(100_000, 50, 1000)
    config.pluginmanager.register(RootIsNoTestPackage())
    if not hasattr(config, "workerinput"):
        for layer in LAYERS:
            compileall.compile_dir(ROOT / layer, quiet=2)


class RootIsNoTestPackage:
    """Keeps pytest from importing the root of the repository, which is the package `negcap`, under its folder's name.

    That fails where the name is no identifier, as that of a clone into `negcap-main`.
    """

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Dir | None:
        return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test, saying why, if a library named by its marker `consumer` cannot be imported.

    It fails instead if it is NEGCAP_CONSUMER, the one whose virtualenv this is.
    """
    names = [name for marker in item.iter_markers("consumer") for name in marker.args]
    for name in names:
        try:
            importlib.import_module(name)
        except (ImportError, RuntimeError, OSError, AttributeError) as error:  # RuntimeError: torch is another one
            if name.startswith(os.environ.get("NEGCAP_CONSUMER") or "-"):
                raise
            pytest.skip(f"{name} cannot be imported: {next(iter(str(error).splitlines()), type(error).__name__)}")


RENDERED = figures.rendered


@pytest.fixture(scope="session", autouse=True)
def quick() -> Iterator[None]:
    """What takes long and changes no result: no pixel of a plot is drawn (most of the time of a small training), and no
    disk is waited for (a file is whole after this process was killed, too).
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "rendered", lambda figure, dpi: b"not drawn")
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are drawn in this test."""
    monkeypatch.setattr(figures, "rendered", RENDERED)


@pytest.fixture
def datasets_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which `datasets` keeps what it reads in this test; it asks no network."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def real_data() -> Path:
    """The folder of real captions; skips the test where there is none."""
    if not DATA.is_dir():
        pytest.skip(f"needs the real captions in NEGCAP_DATA, no folder {DATA}")
    return DATA


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """This process' copy of a folder that `make` fills in one of the processes of pytest-xdist, while others wait."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    made, done = shared / f"{name}-made", shared / f"{name}-done"
    with (shared / f"{name}-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(made, ignore_errors=True)
            make(made)
            done.touch()
    return Path(shutil.copytree(made, tmp_path_factory.mktemp(name) / "run", symlinks=True))


@pytest.fixture(scope="session")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the sample's first 40 images with every operator, made verb by verb; see `sample_copy` to change it."""
    own, every = ["--set", "lexicon=own"], ["--preset", "all"]
    options = {"lexicon": own, "truth": own, "balance": [*own, *every], "negatives": every}

    def make(run: Path) -> None:
        assert main(["build", str(SAMPLE), "--output", str(run), "--only", "ingest", "--limit", "40", *HERE]) == 0
        for verb in ("parse", "lexicon", "components", "truth", "balance", "negatives"):
            assert main(["build", "--output", str(run), "--only", verb, *options.get(verb, ()), *HERE]) == 0

    return made_once(tmp_path_factory, "sample", make)


BENCHMARK = Path("outputs", "benchmark")  # in the folder `documented`


@pytest.fixture(scope="session")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs of the whole sample that the README makes: outputs/sample, and BENCHMARK, refined."""

    def make(folder: Path) -> None:
        (folder / "outputs").mkdir(parents=True)
        (folder / "pipelines").symlink_to(ROOT / "pipelines")
        with contextlib.chdir(folder):
            source = str(SAMPLE.relative_to(ROOT))
            assert main(["build", source, "--output", "outputs/sample", *HERE]) == 0
            shutil.copytree("outputs/sample", BENCHMARK)  # all but the negatives is the same
            other = ["--preset", "benchmark", "--overwrite"]
            assert main(["build", source, "--output", str(BENCHMARK), *other, *HERE]) == 0
            assert main(["refine", str(BENCHMARK), *HERE]) == 0

    return made_once(tmp_path_factory, "documented", make)


@pytest.fixture
def sample_copy(sample_run: Path, tmp_path: Path) -> Path:
    """A copy of `sample_run` that a test may change: tmp_path / "run"."""
    return Path(shutil.copytree(sample_run, tmp_path / "run"))


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
