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
from negcap.pipelines.cli import negcap as group
from negcap.schemas.markdown import TABLES
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


def test_the_overview_of_the_reference_lists_every_schema() -> None:
    modules = [import_module(f"{schemas.__name__}.{path.stem}") for path in (ROOT / "schemas").glob("*.py")]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, pa.Schema)]
    names = {table.metadata[b"table"].decode() for table in found if b"table" in (table.metadata or {})}
    overview = page_of("reference/tables.md").partition("<!-- tables -->")[0]
    listed = re.findall(r"^\| `(\w+)` \|", overview, re.M)
    assert listed == [table.metadata[b"table"].decode() for table in TABLES]
    assert set(listed) == names - {"taxonomy"}  # WordNet as shipped, of no run


def test_every_function_of_the_package_stands_in_the_reference() -> None:
    page = page_of("reference/python.md")
    assert all(f"::: negcap.{name}\n" in page for name in negcap.__all__ if not name.startswith("__"))
