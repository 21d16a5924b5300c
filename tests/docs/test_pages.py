"""What the README and the documentation tell a reader to type works, and prints what they show."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import runpy
import shutil
from collections import Counter
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify

from negcap.pipelines.cli import main, negcap
from negcap.pipelines.engine.tables import read_table
from negcap.pipelines.resources.__main__ import resources
from tests.conftest import ROOT
from tests.docs.pages import FOLDER, PAGES, Block, arguments, blocks, commands, name_of

TIMES = re.compile(r"^ stage .*?(?=\n\n|\Z)", re.M | re.S)  # seconds differ from machine to machine
RUNNABLE = [  # the snippets for other readers have a test of their own
    page
    for page in PAGES
    if page.name not in ("read.md", "formats.md")
    and any(block.mark == "session" or block.kind == "python" for block in blocks(page))
]
SNIPPET = re.compile(r"^(\S[^\n]*):\n\n```python\n(.*?)```", re.M | re.S)
READ = FOLDER / "how-to" / "read.md"
READERS = {title.split(",")[0]: code for title, code in SNIPPET.findall(READ.read_text("utf-8"))}
CONSOLES = [(page, block) for page in PAGES for block in blocks(page) if block.kind == "console"]
LINES = [(page, line) for page, block in CONSOLES for line, _ in commands(block.text)]


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{name_of(page)}-{line[:60]}" for page, line in LINES])
def test_a_command_line_has_only_what_the_program_takes(page: Path, line: str) -> None:
    program, *words = arguments(line)
    if program == "negcap":
        command = negcap.commands[words[0]]
        command.make_context(words[0], words[1:]).close()
    elif program == "make":
        targets = [word for word in words if "=" not in word]
        made = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
        assert targets and set(targets) <= set(made)
    elif words[:2] == ["-m", "negcap.pipelines.resources"]:
        resources.commands[words[2]].make_context(words[2], words[3:]).close()
    else:
        assert program in {"pip", "python", "git", "dask", "hf"}


def without_blocks(page: Path) -> str:
    """The text of a page but for its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)


# of sha256sum and dask, of make reproduce and pip, of readers
OTHERS = "--help --check --nthreads --lifetime --scheduler-file --size --index-url --accum-freq --data --dataset "
OTHERS += "--dataset-type --include --task --tasks"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_an_option_that_is_named_exists(page: Path) -> None:
    options = [option for command in negcap.commands.values() for option in command.params]
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    known |= {name for option in resources.commands["cloze"].params for name in option.opts}
    codes = re.findall(r"`([^`]+)`", without_blocks(page))
    assert {flag for code in codes for flag in re.findall(r"--[a-z][a-z-]*", code)} <= known | {*OTHERS.split()}


STUDIES = sorted((ROOT / "docs" / "studies").glob("*.md"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(page), re.M)
    named = re.findall(r"^#+ .*{ *#([\w-]+) *}", without_blocks(page), re.M)
    return {slugify(re.sub(r"[`*]", "", heading), "-") for heading in headings} | {*named}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", *STUDIES], ids=name_of)
def test_a_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page)):
        path, _, anchor = link.partition("#")
        if path.startswith("http") or anchor.startswith(("only-", "negcap-")):
            continue  # anchors of pictures by theme, and of commands, which the site generates
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.fixture
def folder(documented: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `documented`, to work in."""
    shutil.copytree(documented, tmp_path / "here", symlinks=True)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def typed(line: str) -> tuple[int, str]:
    """Exit status and output of a command line of negcap, run in this process."""
    _, *words = arguments(line.replace("--images 200", "--images 40"))
    takes = {parameter.name for parameter in negcap.commands[words[0]].params}
    for name, value in (("scheduler", "synchronous"), ("threads", "1")):
        words += [f"--{name}", value] if name in takes else []
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        return main(words), printed.getvalue().strip("\n")


def executed(code: str, page: Path, names: dict[str, object]) -> str:
    """What a snippet prints; `names` are those of the snippets before it on the page."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, name_of(page), "exec"), names)
    return printed.getvalue().strip("\n")


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_a_page_can_be_followed(page: Path, folder: Path, request: pytest.FixtureRequest) -> None:
    """Commands marked as a session and every snippet of Python are run in order; what is shown is what is printed.

    `<!-- session: run -->` shows no output, `<!-- session: exit 1 -->` is the status of the last command, and
    a text block after a snippet is what it prints. With --update-golden the page is written anew.
    """
    update, text = request.config.getoption("--update-golden"), page.read_text("utf-8")
    names: dict[str, object] = {}
    shown: dict[int, tuple[str, str]] = {}  # start of a block: its text as it is, and as it should be
    found = blocks(page)
    if update and "build pipelines/sample" in text:
        shutil.rmtree(folder / "outputs")  # so that the command shows its times
    for block, following in zip(found, [*found[1:], Block("", "", 0, "", "")], strict=True):
        if block.kind == "console" and block.mark == "session":
            shown[block.start] = (block.text, session(block))
        elif block.kind == "python":
            output = executed(block.text, page, names)
            if following.kind == "text" and following.mark == "output":
                shown[following.start] = (following.text, output + "\n")
    other = {start: pair for start, pair in shown.items() if TIMES.sub("", pair[0]) != TIMES.sub("", pair[1])}
    if update:
        for start, (before, after) in sorted(other.items(), reverse=True):
            text = text[:start] + after + text[start + len(before) :]
        page.write_text(text, "utf-8")
        return
    for before, after in other.values():
        assert TIMES.sub("", before) == TIMES.sub("", after)


def session(block: Block) -> str:
    """A block as it should be, its commands having been typed."""
    lines, made = [line for line, _ in commands(block.text)], []
    statuses = [0] * len(lines)
    if block.how.startswith("exit"):
        statuses[-1] = int(block.how.removeprefix("exit "))
    for line, expected in zip(lines, statuses, strict=True):
        status, output = typed(line)
        assert status == expected, f"{line}\n{output}"
        made.append(f"$ {line}\n" + (f"{output}\n" if output and block.how != "run" else ""))
    return ("" if block.how == "run" else "\n").join(made)


GENERATED = {
    "reference/tables.md": ("## `negatives`", "| `p_true` `float` |"),
    "explanation/scores.md": ("| operator | floor |", "| `noun` |"),
}


@pytest.mark.parametrize(("page", "least"), GENERATED.items())
def test_what_is_generated_stands_in_the_repository(page, least, request):
    text = (FOLDER / page).read_text("utf-8")
    filled = runpy.run_path(str(ROOT / "docs" / "hooks.py"))["filled"](text)
    if request.config.getoption("--update-golden"):
        (FOLDER / page).write_text(filled, "utf-8")
        return
    assert text == filled and all(part in text for part in least)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_shows_rows_of_the_sample(theme: str, documented: Path, request: pytest.FixtureRequest) -> None:
    picture = FOLDER / "assets" / f"negatives-{theme}.svg"
    drawn = runpy.run_path(str(ROOT / "docs" / "picture.py"))["draw"](documented / "outputs" / "sample", theme)
    if request.config.getoption("--update-golden"):
        picture.write_text(drawn, "utf-8")
    assert drawn == picture.read_text("utf-8")


@pytest.mark.filterwarnings("ignore")  # libraries warn of one another
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_counts_the_negatives_of_every_operator(reader, documented, datasets_cache, monkeypatch):
    assert list(READERS) == ["negcap", "pandas", "DuckDB", "Polars", "`datasets`", "Dask"]
    monkeypatch.chdir(documented)
    printed = executed(READERS[reader], READ, {})
    parts = read_table(Path("outputs", "sample"), "negatives")
    expected = Counter(name for part in parts for name in part["operator"].to_pylist())
    assert ast.literal_eval(printed.splitlines()[-1]) == dict(expected)
