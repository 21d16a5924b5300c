"""What the documentation site takes from the code: every command, table and function; `make docs` builds it."""

import re
import runpy
from importlib import import_module
from pathlib import Path

import click
import pyarrow as pa
import pytest

import negcap
from negcap import schemas
from negcap.augment.kinds import KINDS
from negcap.augment.operators.swap import MIN_LOG_ODDS
from negcap.pipelines.cli import negcap as group
from negcap.schemas.markdown import ON_REQUEST, REFERRED, TABLES
from tests.conftest import ROOT
from tests.docs.pages import FOLDER

HOOKS = runpy.run_path(str(ROOT / "docs" / "hooks.py"))


def page_of(name: str) -> str:
    """A page as the site has it, in Markdown."""
    return HOOKS["on_page_markdown"]((FOLDER / name).read_text("utf-8"))


@pytest.mark.parametrize(("name", "text"), [
    ("a.html", '<script async src="https://a.b/c.js"></script>'),
    ("a.html", "<img alt='' src=//a.b/c.png>"),
    ("a.html", '<link rel="stylesheet" href="http://a.b/c.css">'),
    ("a.css", "@import 'https://a.b/c.css'"),
    ("a.css", "a { background: url(https://a.b/c.png) }"),
])  # fmt: skip
def test_a_page_that_loads_from_a_network_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "b.html").write_text('<script src="assets/c.js"></script><a href="https://a.b">there</a>')
    (tmp_path / "b.css").write_text("a { background: url(c.png) } /* https://a.b */")
    HOOKS["on_post_build"]({"site_dir": str(tmp_path)})
    (tmp_path / name).write_text(text)
    with pytest.raises(HOOKS["PluginError"], match=f"nothing from a network, these do: {name}"):
        HOOKS["on_post_build"]({"site_dir": str(tmp_path)})


@pytest.mark.parametrize("verb", group.commands)
def test_every_command_stands_in_the_reference_with_its_options(verb: str) -> None:
    section = page_of("reference/cli.md").partition(f"### negcap {verb} {{ #negcap-{verb} }}")[2].partition("\n###")[0]
    assert section
    for option in group.commands[verb].params:
        assert not isinstance(option, click.Option) or f"| `{option.opts[-1]}" in section, option.opts


def name_of_table(table: pa.Schema) -> str:
    return table.metadata[b"table"].decode()


def test_every_table_and_the_columns_of_those_for_users_stand_in_the_reference() -> None:
    page = page_of("reference/tables.md")
    columns_of = {name_of_table(table): set(table.names) for table in TABLES}
    for name, columns in columns_of.items():
        section = page.partition(f"\n## `{name}`")[2].partition("\n## ")[0]
        assert bool(section) == (name not in ON_REQUEST)
        for other in REFERRED:
            columns = columns - columns_of[other] if f"`{other}`: all columns" in section else columns
        assert not section or all(f"`{column}`" in section for column in columns)
    listed = re.findall(r"^\| `(\w+)` \|", page.partition("<!-- tables -->")[0], re.M)
    assert listed == list(columns_of)


def test_the_floors_stand_on_the_page_on_scores() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (-[\d.]+) \|$", page_of("explanation/scores.md"), re.M)
    floors = {name: kind.floor for name, kind in KINDS.items() if kind.floor > float("-inf")}
    assert {name: float(floor) for name, floor in rows} == floors | {"shuffle": MIN_LOG_ODDS}


def test_the_reference_lists_every_schema() -> None:
    modules = [import_module(f"{schemas.__name__}.{path.stem}") for path in (ROOT / "schemas").glob("*.py")]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, pa.Schema)]
    names = {name_of_table(table) for table in found if b"table" in (table.metadata or {})}
    assert names - {"taxonomy"} == set(map(name_of_table, TABLES))  # WordNet as shipped, of no run


def test_every_function_of_the_package_stands_in_the_reference() -> None:
    page = page_of("reference/python.md")
    assert all(f"::: negcap.{name}\n" in page for name in negcap.__all__ if not name.startswith("__"))
