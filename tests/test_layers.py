"""The walls of the house: schemas <- augment <- pipelines, and who may import or raise what."""

import ast
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("schemas", "augment", "pipelines")
SOURCES = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]


def imports(path: Path) -> Iterator[str]:
    """Every module that a source imports, wherever in it, `from x import y` as `x.y`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = node.module or ""
            if node.level:
                folder = path.parents[node.level - 1].relative_to(ROOT)
                package = ".".join([*folder.parts, *filter(None, [node.module])])
            yield from (f"{package}.{alias.name}" for alias in node.names)


def place(module: str) -> str:
    """`negcap.augment.rng` -> `augment.rng`; other modules as they are."""
    return module.removeprefix("negcap.")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def top(module: str) -> str:
    return module.split(".")[0]


def test_there_are_sources() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == set(LAYERS)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_layer_imports_only_layers_below(path: Path) -> None:
    own = LAYERS.index(path.relative_to(ROOT).parts[0])
    above = set(LAYERS[own + 1 :]) | {"tests"}
    assert not [module for module in imports(path) if top(place(module)) in above]


@pytest.mark.parametrize("path", [p for p in SOURCES if name_of(p).startswith("augment/")], ids=name_of)
def test_augment_is_pure(path: Path) -> None:
    banned = {"dask", "distributed", "click", "rich", "pandas", "fsspec", "subprocess", "socket", "requests"}
    if name_of(path) not in ("augment/language/parse.py", "augment/language/attribute_ruler.py"):
        banned.add("spacy")
    assert not [module for module in imports(path) if top(module) in banned]


@pytest.mark.parametrize("path", [p for p in SOURCES if name_of(p).startswith("schemas/")], ids=name_of)
def test_schemas_need_only_pyarrow(path: Path) -> None:
    allowed = {"pyarrow", "negcap", *sys.stdlib_module_names}
    assert {top(module) for module in imports(path)} <= allowed


COMMAND_LINE = "pipelines/cli/"


@pytest.mark.parametrize("path", [p for p in SOURCES if not name_of(p).startswith(COMMAND_LINE)], ids=name_of)
def test_only_the_command_line_knows_click(path: Path) -> None:
    assert not [module for module in imports(path) if top(module) == "click"]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & {"ClickException", "UsageError", "BadParameter"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "sys.exit"
                and name_of(path).startswith("augment/")]  # fmt: skip


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_nothing_loads_pickles(path: Path) -> None:
    assert not [module for module in imports(path) if top(module) in {"pickle", "cloudpickle", "dill", "joblib"}]


def module_of(path: Path) -> str:
    """augment/rng.py -> augment.rng, the API's folder -> negcap."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[:2] == ("pipelines", "api"):
        parts = ("negcap", *parts[2:])
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCES}


def imported(path: Path) -> set[str]:
    """The modules of negcap that a source imports, those for type checkers included; not the source itself."""
    found = set()
    for name in imports(path):
        module = name if name.startswith("negcap._") else place(name)
        while module and module not in MODULES:
            module = module.rpartition(".")[0]
        found.add(module)
    return found - {"", module_of(path)}


def floors(arrows: dict[str, set[str]]) -> list[set[str]]:
    """What stands on each floor, from the ground up: everything lies above what it imports; the rest are circles."""
    left, built = dict(arrows), []
    while floor := {name for name, used in left.items() if not used & left.keys()}:
        built.append(floor)
        left = {name: used for name, used in left.items() if name not in floor}
    assert not left, f"modules that import each other in a circle, and what imports them: {sorted(left)}"
    return built


def room(module: str) -> str:
    """schemas, augment, or a folder of pipelines: the parts of the house."""
    top, _, rest = module.partition(".")
    return f"{top}.{rest.partition('.')[0]}" if top == "pipelines" and rest else top


def rooms(name_of_room: Callable[[str], str], modules: Iterable[str]) -> dict[str, set[str]]:
    arrows: dict[str, set[str]] = {}
    for module in modules:
        own = name_of_room(module)
        used = {name_of_room(other) for other in imported(MODULES[module])}
        arrows.setdefault(own, set()).update(used - {own})
    return arrows


def test_no_module_is_part_of_a_circle_of_imports() -> None:
    floors({module: imported(path) for module, path in MODULES.items()})


def test_the_rooms_stand_on_at_most_eight_floors() -> None:
    assert len(floors(rooms(room, MODULES))) <= 8


def test_every_package_is_installed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(ROOT).as_posix() for path in SOURCES} - {"pipelines/api"}
    assert sorted(listed) == sorted(["negcap", *("negcap." + folder.replace("/", ".") for folder in folders)])


def test_the_api_lies_in_no_second_place() -> None:
    for path in [*SOURCES, *(ROOT / "tests").rglob("*.py")]:
        assert not [name for name in imports(path) if name.startswith("negcap.pipelines.api")]
        assert not [name for name in imports(path) if top(name) in LAYERS], path
