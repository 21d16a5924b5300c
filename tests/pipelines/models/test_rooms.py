"""The folders of negcap.pipelines.models are ordered: each imports only from those listed before it."""

import ast
from pathlib import Path

import pytest

import negcap.pipelines.models

ORDER = ("", "evaluation", "clip", "univse", "mhad", "trainer", "order", "probe", "captioner", "papers")
FOLDER = Path(next(iter(negcap.pipelines.models.__path__)))
SOURCES = sorted(FOLDER.rglob("*.py"))


def folder_of(module: str) -> str:
    """`negcap.pipelines.models.univse.model` -> `univse`; "" for a module of the shared folder itself."""
    name = module.removeprefix("negcap.pipelines.models").strip(".").partition(".")[0]
    return name if name in ORDER else ""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_folder_imports_only_from_those_before_it(path: Path) -> None:
    own = path.relative_to(FOLDER).parent.as_posix().replace(".", "")
    allowed = ORDER[: ORDER.index(own) + 1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("negcap.pipelines.models"):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            assert {folder_of(name) for name in names} <= set(allowed)
