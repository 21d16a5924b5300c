"""Find the code that a stage's rows depend on, by following imports: nobody lists it by hand.

The sources of a stage are the module of its functions, all modules of negcap that it imports (directly or through
others, at the top or inside a function), and the files of negcap.augment.data that these modules read. Excluded are:
- what is imported for type checkers only (`if TYPE_CHECKING:`);
- the `__init__.py` of a package from which only modules are imported;
- `negcap.pipelines.engine`, which decides when, where and by whom a stage is run, but not what is in its rows.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any

from .identity import hash_value
from .manifest import hash_path

PACKAGE = "negcap"
ENGINE = "negcap.pipelines.engine"
DATA = "negcap.augment.data"
DATA_PATH = "data_path"
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True)
class Code:
    """The sources of a stage: their names (see `sources`) and the hash of their content in the main process."""

    names: tuple[str, ...]
    sha256: str

    def check(self) -> None:
        """Raise RuntimeError if the sources in this process (a worker) differ from those of the main process."""
        if hash_code(self.names) != self.sha256:
            raise RuntimeError("this worker has another version of negcap's code: install the same and restart it")


def code_of(*functions: Callable[..., Any] | str) -> Code:
    """The sources on which the results of these functions depend (see `sources`), and the hash of their content.

    functions: functions, or names of modules. Raises FileNotFoundError for a module that does not exist, ValueError for
    one with a data file whose name is computed.
    """
    modules = sorted({item if isinstance(item, str) else item.__module__ for item in functions})
    names = sources(tuple(modules))
    return Code(names, hash_code(names))


@cache
def sources(modules: tuple[str, ...]) -> tuple[str, ...]:
    """The sorted names of the sources of `modules`: dotted names of modules, and data files as `package/file`.

    Imports are followed into negcap and into the top-level packages of `modules`. Raises FileNotFoundError for a
    module that does not exist, ValueError for one with a data file whose name is computed.
    """
    packages = {PACKAGE, *(module.partition(".")[0] for module in modules)}
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        if "/" not in name:
            followed = (used for used in _used(name) if used.partition(".")[0] in packages)
            waiting += (used for used in followed if used != ENGINE and not used.startswith(f"{ENGINE}."))
    return tuple(sorted(found))


@cache
def hash_code(names: tuple[str, ...]) -> str:
    """The hash of the content of sources (named as by `sources`), cached. Raises FileNotFoundError if missing."""
    return hash_value({name: hash_path(source_path(name)) for name in names})


def source_path(name: str) -> Path:
    """The file of a source: of a module (for a package, its `__init__.py`), or of data, `package/name`.

    Imports nothing but the top-level package. Raises FileNotFoundError when there is no such file.
    """
    module, _, inside = name.partition("/")
    path = _module_file(module)
    if path is not None and inside:
        path = path.parent / inside
    if path is None or not path.exists():
        raise FileNotFoundError(f"code must name a module or a file beside it, was: {name}")
    return path


@cache
def _module_file(module: str) -> Path | None:
    """The file of a module, or None; imports at most the top-level package to find it."""
    top = module.split(".", 2)
    try:
        spec = find_spec(".".join(top[:2]))
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        return None
    if len(top) == 3:
        if not spec.submodule_search_locations:  # no package
            return None
        path = Path(spec.submodule_search_locations[0]).joinpath(*top[2].split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    else:
        path = Path(spec.origin or "")
    return path if path.is_file() else None


@cache
def _used(module: str) -> tuple[str, ...]:
    """The modules of any package that a module imports, and the data files that it reads, by the names of `sources`."""
    path = source_path(module)
    text = path.read_text("utf-8")
    tree = ast.parse(text, str(path))
    found: list[str] = []
    for statement in _statements(tree.body):
        if isinstance(statement, ast.Import):
            found += (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            used = resolve_name("." * statement.level + (statement.module or ""), package)
            own = used.partition(".")[0] in (PACKAGE, module.partition(".")[0])
            inside = [f"{used}.{alias.name}" for alias in statement.names]
            found += (name if own and _module_file(name) else used for name in inside)
    if DATA_PATH in text and module != DATA:
        found += (f"{DATA}/{name}" for name in _data(tree, path))
    return tuple(dict.fromkeys(found))


def _statements(block: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every statement of a block and of the blocks inside it, except those under `if TYPE_CHECKING`."""
    for statement in block:
        yield statement
        for name in BLOCKS:
            inside = getattr(statement, name, ())
            if name != "body" or not (isinstance(statement, ast.If) and _for_type_checkers(statement.test)):
                yield from _statements(inside)


def _for_type_checkers(test: ast.expr) -> bool:
    return ast.unparse(test).removeprefix("typing.") == "TYPE_CHECKING"


def _data(tree: ast.Module, path: Path) -> Iterator[str]:
    """The arguments of all calls of `data_path` in a source. Raises ValueError for one that is not a literal."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or getattr(node.func, "id", getattr(node.func, "attr", "")) != DATA_PATH:
            continue
        match node.args, node.keywords:
            case [ast.Constant(value=str(name))], []:
                yield name
            case _:
                raise ValueError(f"{path}:{node.lineno}: {DATA_PATH} must be called with one literal name")
