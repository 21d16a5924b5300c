"""The documentation site: it builds without a warning, holds every command, table and function, and loads nothing."""

import html
import math
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pyarrow as pa
import pytest

import negcap
from negcap import schemas
from negcap.augment.operators import OPERATORS
from negcap.pipelines.cli import negcap as group
from negcap.schemas.markdown import TABLES
from tests.conftest import ROOT

LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?(?:https?:)?//|<link[^>]*\shref=["']?(?:https?:)?//"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", "docs/mkdocs.yml", "--site-dir"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [*command, str(folder)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    return folder


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text("utf-8")))


def test_no_page_loads_anything_from_a_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert not [page for page in pages if LOADED.search(page.read_text("utf-8"))]
    styles = [
        path for path in site.rglob("*.css") if re.search(r"(url\(|@import)\s*[\"']?https?:", path.read_text("utf-8"))
    ]
    assert not styles


@pytest.mark.parametrize("verb", group.commands)
def test_every_command_stands_in_the_reference_with_its_options(verb: str, site: Path) -> None:
    page = (site / "reference" / "cli.html").read_text("utf-8")
    section = page.partition(f'id="negcap-{verb}"')[2].partition("<h3")[0]
    assert section
    for option in group.commands[verb].params:
        assert not isinstance(option, click.Option) or f"<code>{option.opts[-1]}" in section, option.opts


def test_every_table_and_column_stands_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "tables.html").read_text("utf-8")
    for table in TABLES:
        section = page.partition(f'id="{table.metadata[b"table"].decode()}"')[2].partition("<h2")[0]
        assert all(f"<code>{column.name}</code>" in section for column in table)
    overview = (ROOT / "docs/pages/reference/tables.md").read_text("utf-8").partition("<!-- tables -->")[0]
    listed = re.findall(r"^\| `(\w+)` \|", overview, re.M)
    assert listed == [table.metadata[b"table"].decode() for table in TABLES]


def test_the_limits_of_every_operator_stand_on_the_page_on_plausibility(site: Path) -> None:
    page = text_of(site / "explanation" / "plausibility.html")
    shown = {name: tuple(rest.split()) for name, rest in re.findall(r"^(\w+)\n((?:[-–\d.]+\n){4})", page, re.M)}
    expected = {name: one.limits for name, one in OPERATORS.items() if one.limits is not None}
    assert shown.keys() == expected.keys()
    for name, limits in expected.items():
        assert shown[name][1:] == tuple(f"{limit:g}" if math.isfinite(limit) else "–" for limit in limits)
    for name in ("noun", "verb", "shuffle"):
        assert shown[name][0] == f"{import_module(f'negcap.augment.operators.{name}').FLOOR:g}"
    assert shown["numeral"][0] == "–"


def test_the_reference_lists_every_schema() -> None:
    modules = [
        __import__(f"{schemas.__name__}.{path.stem}", fromlist=["_"]) for path in (ROOT / "schemas").glob("*.py")
    ]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, pa.Schema)]
    names = {schema.metadata[b"table"] for schema in found if b"table" in (schema.metadata or {})}
    assert names - {b"taxonomy"} == {table.metadata[b"table"] for table in TABLES}  # WordNet as shipped, of no run


def test_every_function_of_the_package_stands_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text("utf-8")
    assert all(f'id="negcap.{name}"' in page for name in negcap.__all__ if not name.startswith("__"))
