"""The sources of the package as syntax trees, each parsed once in a process, and the check of a rule over many."""

import ast
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from tests.conftest import LAYERS, ROOT

SOURCES = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]


def name_of(path: Path) -> str:
    """`augment/reproducible.py`."""
    return path.relative_to(ROOT).as_posix()


def below(folder: str) -> list[Path]:
    """The sources in a folder."""
    return [path for path in SOURCES if name_of(path).startswith(folder)]


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a source's tree, the module first."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))))


def calls(path: Path) -> list[ast.Call]:
    """Every call of a source."""
    return [node for node in nodes(path) if isinstance(node, ast.Call)]


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every module that a source imports, wherever in it, under its full name; `from x import y` as `x.y`."""
    found: list[str] = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = node.module or ""
            if node.level:
                folder = path.parents[node.level - 1].relative_to(ROOT)
                package = ".".join(["negcap", *folder.parts, *filter(None, [node.module])])
            found += [f"{package}.{alias.name}" for alias in node.names]
    return tuple(found)


def check(rule: Callable[[Path], Iterable[object]], paths: Iterable[Path] = SOURCES) -> None:
    """Fail with all that a rule finds in sources, a line each, if it finds anything."""
    found = [f"{name_of(path)}: {one}" for path in sorted(paths) for one in rule(path)]
    assert not found, "\n" + "\n".join(found)
