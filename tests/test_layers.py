"""The walls of the house: schemas <- augment <- pipelines, and who may import or raise what."""

import ast
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.conftest import LAYERS, ROOT
from tests.sources import SOURCES, below, calls, check, imports, name_of, nodes


def place(module: str) -> str:
    """`negcap.augment.edits` -> `augment.edits`; other modules as they are."""
    return module.removeprefix("negcap.")


def top(module: str) -> str:
    return module.split(".")[0]


def test_there_are_sources_and_their_folders_are_packages():
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == set(LAYERS)
    assert not [name_of(path) for path in SOURCES if not (path.parent / "__init__.py").exists()]


def test_a_layer_imports_only_layers_below():
    def above(path: Path) -> list[str]:
        layer = LAYERS.index(path.relative_to(ROOT).parts[0])
        return [module for module in imports(path) if top(place(module)) in {*LAYERS[layer + 1 :], "tests"}]

    check(above)


def test_augment_is_pure():
    impure = {"dask", "distributed", "click", "rich", "pandas", "fsspec", "subprocess", "socket", "requests"}
    parsers = tuple(f"augment/language/{name}.py" for name in ("parse", "exact"))

    def banned(path: Path) -> list[str]:
        names = impure if name_of(path) in parsers else {*impure, "spacy"}
        return [module for module in imports(path) if top(module) in names]

    check(banned, below("augment/"))


def test_schemas_need_only_pyarrow():
    allowed = {"pyarrow", "negcap", *sys.stdlib_module_names}
    check(lambda path: {top(module) for module in imports(path)} - allowed, below("schemas/"))


def test_only_the_command_line_knows_click():
    errors = {"ClickException", "UsageError", "BadParameter"}

    def known(path: Path) -> set[str]:
        names = {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}
        names |= {node.id for node in nodes(path) if isinstance(node, ast.Name)}
        return names & errors | {module for module in imports(path) if top(module) == "click"}

    check(known, set(SOURCES) - set(below("pipelines/cli/")) - {ROOT / "pipelines/resources/__main__.py"})
    check(lambda path: [call.lineno for call in calls(path) if ast.unparse(call.func) == "sys.exit"], below("augment/"))


def test_nothing_loads_pickles():
    loaders = {"pickle", "cloudpickle", "dill", "joblib"}
    check(lambda path: [module for module in imports(path) if top(module) in loaders])


def module_of(path: Path) -> str:
    """augment/edits.py -> augment.edits."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCES}


def imported(path: Path) -> set[str]:
    """The modules of negcap that a source imports, those for type checkers included; not the source itself."""
    found = set()
    for name in imports(path):
        module = place(name)
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
    """schemas, augment, or a folder of pipelines: the parts of the house; `__main__` is of the command line."""
    module = "pipelines.cli" if module.endswith(".__main__") else module
    top, _, rest = module.partition(".")
    return f"{top}.{rest.partition('.')[0]}" if top == "pipelines" and rest else top


def rooms(name_of_room: Callable[[str], str], modules: Iterable[str]) -> dict[str, set[str]]:
    arrows: dict[str, set[str]] = {}
    for module in modules:
        own = name_of_room(module)
        used = {name_of_room(other) for other in imported(MODULES[module])}
        arrows.setdefault(own, set()).update(used - {own})
    return arrows


def test_there_is_no_circle_of_imports_and_the_rooms_stand_on_at_most_eight_floors():
    floors({module: imported(path) for module, path in MODULES.items()})
    assert len(floors(rooms(room, MODULES))) <= 8


def test_imports_of_the_package_are_relative():
    """So that every tool finds what they name by the path alone, whatever the folder of a checkout is called."""

    def absolute(path: Path) -> list[str]:
        named = [node for node in nodes(path) if isinstance(node, ast.ImportFrom) and not node.level]
        return [ast.unparse(node) for node in named if top(node.module or "") == "negcap"]

    check(absolute)


ORDER = ("", "evaluation", "clip", "univse", "mhad", "trainer", "order", "probe", "captioner", "papers")


def test_a_folder_of_models_imports_only_from_those_before_it():
    def folder(module: str) -> str:
        """`pipelines.models.univse.model` -> `univse`; "" for a module of the shared folder itself."""
        name = module.removeprefix("pipelines.models").strip(".").partition(".")[0]
        return name if name in ORDER else ""

    def later(path: Path) -> list[str]:
        used = [module for module in imported(path) if module.startswith("pipelines.models")]
        return [name for name in used if ORDER.index(folder(name)) > ORDER.index(folder(module_of(path)))]

    check(later, below("pipelines/models/"))
