"""The wheel, installed without the repository beside other people's packages of the same generic names."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.conftest import ROOT

HOSTILE = ("schemas", "augment", "pipelines", "tests", "api")
SENTENCES = "image,caption\n1,A dog sleeps on a red couch.\n2,Three children play in the snow.\n"
READ = """import runpy, sys, negcap.pipelines
print(negcap.pipelines.__file__, len(negcap.read("run")), sep="\\n")
sys.argv[1:] = "show run --n 1".split()
runpy.run_module("negcap", run_name="__main__")
"""


def run(*command: str | Path, cwd: Path, status: int = 0, **environment: str) -> str:
    """What a command in a folder prints, with nothing of this process' Python in its environment; if it fails, what it
    says of that.
    """
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NEGCAP"))}
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, env={**plain, **environment}, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with negcap's wheel, and this one's packages but for negcap."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    left = shutil.ignore_patterns(".*", "outputs", "build", "tests", "docs", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, source, ignore=left)
    pip, only = (sys.executable, "-m", "pip"), ("--quiet", "--no-deps")
    run(*pip, "wheel", *only, "--no-build-isolation", "-w", folder, source, cwd=folder)
    (wheel,) = folder.glob("negcap-*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    site = next((folder / "venv" / "lib").glob("python3*/site-packages"))
    run(*pip, "--python", python, "install", *only, "--no-compile", wheel, cwd=folder)
    (site / "packages_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A working folder in which every generic name is a package of somebody else's that must not be imported."""
    for name in HOSTILE:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise RuntimeError('{name} is not negcap')\n")
    (tmp_path / "captions.csv").write_text(SENTENCES)
    return tmp_path


@pytest.mark.slow
def test_the_main_job_runs_from_the_wheel_alone(environment, hostile):
    command = environment.parent / "negcap"
    site = next(environment.parent.parent.glob("lib/python3*/site-packages"))
    assert (site / "negcap" / "py.typed").exists() and not [name for name in HOSTILE if (site / name).exists()]
    here = {"cwd": hostile, "PYTHONPATH": str(hostile)}
    run(command, *"build captions.csv --output run --workers 1 --quiet".split(), **here)
    where, rows, *shown = run(environment, "-c", READ, **here).splitlines()
    assert where.startswith(str(site)) and int(rows) > 0 and "[-" in "".join(shown)


@pytest.mark.slow
def test_the_wheel_says_what_only_a_checkout_has(environment, hostile):
    run(environment, *"-m negcap.pipelines.resources cloze --help".split(), cwd=hostile)  # for users' own captions
    for command, status in (("negcap.pipelines.resources wordnet", 2), ("negcap.pipelines.models.papers", 1)):
        said = run(environment, "-m", *command.split(), cwd=hostile, status=status)
        assert "from a checkout of the repository" in said.splitlines()[-1]


def test_importing_the_package_is_cheap():
    heavy = ("pandas", "numpy", "pyarrow", "spacy", "torch", "dask", "click")
    code = f"import sys, negcap; negcap.__version__; print([name for name in {heavy} if name in sys.modules])"
    assert run(sys.executable, "-c", code, cwd=ROOT) == "[]\n"
