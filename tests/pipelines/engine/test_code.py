"""What a stage's rows depend on is found in the sources, whole and no more."""

import ast
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.engine import code
from negcap.pipelines.engine.code import Code, code_of, hash_code, source_path, sources
from negcap.pipelines.engine.stage import ReduceStage, Stage
from tests.conftest import ROOT
from tests.sources import SOURCES, below, calls, check, imports, nodes

STAGES = "negcap.pipelines.stages"
FROM_SOURCES = ("ingest", "features", "scenes", "enlarge", "refine")
SHIPPED = ROOT / "augment" / "data"


@cache
def starts() -> dict[str, tuple[Any, ...]]:
    """By the name of every stage, what its code begins with: its functions, or the module of that name."""
    found: dict[str, tuple[Any, ...]] = {name: (f"{STAGES}.{name}",) for name in FROM_SOURCES}
    for path in sorted((ROOT / "pipelines" / "stages").glob("*.py")):
        module = import_module(f"{STAGES}.{path.stem}")
        made = getattr(module, "STAGES", ()) or [getattr(module, "STAGE", None)]
        found |= {stage.name: stage.functions for stage in made if isinstance(stage, Stage | ReduceStage)}
    return found


def stages() -> dict[str, Code]:
    """The code of every stage, by its name."""
    return {name: code_of(*given) for name, given in starts().items()}


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """change(name): as if this file of the repository had other content."""
    changed: set[str] = set()
    plain = code.hash_path
    monkeypatch.setattr(
        code, "hash_path", lambda path: plain(path) + "*" * (path.relative_to(ROOT).as_posix() in changed)
    )
    hash_code.cache_clear()

    def change(name: str) -> None:
        assert (ROOT / name).exists()
        changed.clear()
        changed.add(name)
        hash_code.cache_clear()

    yield change
    hash_code.cache_clear()


@pytest.mark.parametrize(
    "stage, inside, outside",
    [
        ("parse", "augment/language/parse.py", "augment/language/wordnet.py"),
        ("parse", "augment/language/parse.py", "pipelines/engine/cluster.py"),
        ("parse", "augment/data/english_parser", "augment/data/verbs.toml"),
        ("lexicon", "augment/data/verbs.toml", "augment/data/english_parser"),
        ("lexicon", "augment/data/attributes.toml", "augment/language/parse.py"),
        ("lexicon", "augment/data/noun_overlaps.toml", "pipelines/stages/parse.py"),
        ("lexicon", "augment/data/concreteness.json", "pipelines/models/vocabulary.py"),
        ("negatives", "augment/operators/noun.py", "pipelines/models/captioner/losses.py"),
        ("negatives", "augment/truth/contradiction.py", "pipelines/engine/progress.py"),
        ("negatives", "schemas/negatives.py", "schemas/scenes.py"),
        ("ingest", "pipelines/readers/formats.py", "pipelines/features/photos.py"),
        ("features", "pipelines/features/photos.py", "pipelines/readers/webdataset.py"),
        ("caption", "pipelines/models/captioner/generate.py", "pipelines/readers/webdataset.py"),
        ("refine", "pipelines/quality/selection.py", "pipelines/quality/audit/page.py"),
        ("scenes", "pipelines/scenes/draw.py", "augment/operators/noun.py"),
    ],
)
def test_a_stage_is_stale_when_its_own_sources_change(change, stage: str, inside: str, outside: str) -> None:  # type: ignore[no-untyped-def]
    before = code_of(*starts()[stage]).sha256
    change(outside)
    assert code_of(*starts()[stage]).sha256 == before
    change(inside)
    assert code_of(*starts()[stage]).sha256 != before


def test_no_model_but_a_scorer_decides_what_a_negative_is() -> None:
    for name in ("parse", "lexicon", "components", "truth", "balance", "negatives"):
        used = {module for module in stages()[name].names if module.startswith("negcap.pipelines.models")}
        scorer = {"negcap.pipelines.models.scorer", "negcap.pipelines.models.device"}
        assert used == (scorer if name == "negatives" else set())


def test_every_shipped_file_counts_for_some_stage() -> None:
    counted = {source_path(name) for found in stages().values() for name in found.names if "/" in name}
    shipped = {path for path in SHIPPED.iterdir() if path.suffix != ".py" and path.name != "__pycache__"}
    given = {SHIPPED / "reference_lexicon"}  # its content is part of the config of the stages that take it
    assert shipped - counted == {SHIPPED / "WORDNET_LICENSE.txt"} | given


def literals(path: Path) -> set[str]:
    """The strings of a source but those that document it or that `data_path` is called with."""
    documents = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    passed = {id(name) for call in calls(path) if ast.unparse(call.func) == code.DATA_PATH for name in call.args}
    strings = [node for node in nodes(path) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {node.value for node in strings if id(node) not in documents | passed}


def test_shipped_files_are_reached_through_data_path_alone() -> None:
    def found_by_itself(path: Path) -> list[str]:
        files = [node.id for node in nodes(path) if isinstance(node, ast.Name) and node.id == "__file__"]
        return files + [module for module in imports(path) if "importlib" in module or "pkgutil" in module]

    def named(path: Path) -> list[str]:
        found = literals(path)
        return [*found & banned, *(text for text in found if "augment/data" in text)]

    shipped = {path.name for path in SHIPPED.iterdir()} - {"__init__.py", "__pycache__"}
    banned = {*shipped, *(f"data/{name}" for name in shipped)}
    check(named, set(SOURCES) - set(below("pipelines/resources/")))  # they write what is shipped
    check(found_by_itself, set(below("augment/")) - {SHIPPED / "__init__.py"})


def test_nothing_in_a_stage_is_imported_by_a_name_that_is_computed() -> None:
    for name in {used for found in stages().values() for used in found.names if "/" not in used}:
        called = {ast.unparse(call.func) for call in calls(source_path(name))}
        assert not called & {"import_module", "importlib.import_module", "__import__", "exec", "eval"}, name


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of stages outside negcap."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "toypackage", raising=False)
    package = tmp_path / "toypackage"
    (package / "inner").mkdir(parents=True)
    for name in ("__init__.py", "inner/__init__.py", "other.py", "typed.py", "lazy.py", "inner/part.py"):
        (package / name).write_text("")
    for cached in (sources, hash_code, code._used, code._module_file):
        cached.cache_clear()
    return package


def test_a_closure_holds_lazy_imports_and_none_for_type_checkers(package: Path) -> None:
    (package / "work.py").write_text(
        "from __future__ import annotations\nimport json\nfrom typing import TYPE_CHECKING\n"
        "import negcap.augment.elementary\nfrom negcap.pipelines.engine import shards\n"
        "from negcap.augment.data import data_path\n"
        "if TYPE_CHECKING:\n    from toypackage import typed\nelse:\n    from toypackage import other\n"
        "def work():\n    try:\n        from toypackage.inner import part\n    except ImportError:\n"
        "        import toypackage.lazy\n    return data_path('verbs.toml')\n"
    )
    names = [
        "negcap.augment.data",
        "negcap.augment.data/verbs.toml",
        "negcap.augment.elementary",
        "toypackage.inner.part",
    ]
    own = ["toypackage.lazy", "toypackage.other", "toypackage.work"]
    assert sources(("toypackage.work",)) == (*names, *own)
    first = hash_code(("toypackage.lazy",))
    hash_code.cache_clear()
    (package / "lazy.py").write_text("a = 2\n")
    assert hash_code(("toypackage.lazy",)) != first


@pytest.mark.parametrize(
    "name, text, used",
    [
        ("work.py", "from . import other\n", "other"),
        ("work.py", "from .inner.part import x\n", "inner.part"),
        ("inner/work.py", "from .. import lazy\nfrom ..other import x\n", "lazy other"),
        ("inner/work.py", "from .part import x\n", "inner.part"),
        ("inner/work/__init__.py", "from ..part import x\nfrom ... import typed\n", "inner.part typed"),
    ],
)
def test_relative_imports_are_followed(package: Path, name: str, text: str, used: str) -> None:
    (package / name).parent.mkdir(exist_ok=True)
    (package / name).write_text(text)
    module = f"toypackage.{name.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"
    assert set(sources((module,))) == {module, *(f"toypackage.{one}" for one in used.split())}


def test_a_data_file_whose_name_is_computed_is_refused(package: Path) -> None:
    (package / "work.py").write_text("from negcap.augment.data import data_path\nname = 'a'\ndata_path(name)\n")
    with pytest.raises(ValueError, match=r"work.py:3: data_path must be"):
        sources(("toypackage.work",))


def test_what_is_not_there_is_named(package: Path) -> None:
    for name in ("toypackage.nothing", "no_such_package", "negcap.augment.data/nothing.toml", "toypackage.other.more"):
        with pytest.raises(FileNotFoundError, match=f"was: {name}"):
            source_path(name)
