"""The walls of the house: schemas <- augment <- pipelines, and who may import or raise what."""

import ast
import sys
from pathlib import Path

from tests.conftest import LAYERS, ROOT
from tests.sources import SOURCES, below, calls, check, imports, name_of, nodes


def place(module: str) -> str:
    """`negcap.augment.edits` -> `augment.edits`; other modules as they are."""
    return module.removeprefix("negcap.")


def top(module: str) -> str:
    """`negcap.augment.edits` -> `negcap`."""
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


def test_there_is_no_circle_of_imports():
    """Take away, again and again, the modules that import none of those left: circles, and what imports them, stay."""
    left = {module: imported(path) for module, path in MODULES.items()}
    while ground := {module for module, used in left.items() if not used & left.keys()}:
        left = {module: used for module, used in left.items() if module not in ground}
    assert not left


def test_imports_of_the_package_are_relative():
    """So that every tool finds what they name by the path alone, whatever the folder of a checkout is called."""

    def absolute(path: Path) -> list[str]:
        named = [node for node in nodes(path) if isinstance(node, ast.ImportFrom) and not node.level]
        return [ast.unparse(node) for node in named if top(node.module or "") == "negcap"]

    check(absolute)
