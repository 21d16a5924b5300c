import html
import io
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

import negcap
from negcap.pipelines.cli import main
from negcap.pipelines.report.rows import graphviz, print_graph, quoted


def shown(text: str, dot: bool = False, simple: bool = False) -> str:
    stream = io.StringIO()
    graph = negcap.graph(text, simple=simple)
    if dot:
        return graphviz(text, graph)
    print_graph(graph, stream)
    return stream.getvalue()


def test_a_graph_in_plain_words() -> None:
    assert (
        shown("A man in front of a man with two umbrellas wears a red hat.")
        == """\
objects     man
            man (2)
            umbrella
            hat
attributes  umbrella | two
            hat | red
relations   man | in front of | man (2)
            man (2) | with | umbrella
            man | wear | hat
"""
    )
    assert shown("") == "objects     –\nattributes  –\nrelations   –\n"
    assert "tennis racket" in shown("A tennis racket.")
    assert "tennis" not in shown("A tennis racket.", simple=True)


def test_control_characters_do_not_steer_a_terminal() -> None:
    assert "\x1b" not in shown("A \x1b[31mred\x1b[0m car.") + shown("A \x1b[31mred\x1b[0m car.", dot=True)


def test_a_graph_in_dot() -> None:
    assert (
        shown("A brown dog chases a ball.", dot=True)
        == """\
digraph scene {
  graph [label="A brown dog chases a ball.", labelloc=t, rankdir=LR];
  node [fontname="sans-serif", style=filled, color=white];
  edge [fontname="sans-serif"];
  o0 [label="dog", shape=box, fillcolor="#cfe2f3"];
  o1 [label="ball", shape=box, fillcolor="#cfe2f3"];
  a0 [label="brown", shape=ellipse, fillcolor="#d9ead3"];
  o0 -> a0 [arrowhead=none, style=dashed];
  o0 -> o1 [label="chase"];
}
"""
    )


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_a_quoted_string_ends_where_it_should(text: str) -> None:
    inner = quoted(text)[1:-1]
    assert re.fullmatch(r'(?:[^"\\]|\\"|\\\\)*', inner)
    assert inner.replace('\\"', '"').replace("\\\\", "\\").replace("&amp;", "&") == text


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
def test_graphviz_draws_any_caption_as_it_is_written() -> None:
    text = r'A man in a shirt that says "Hi \N \l & &lt; <b>" rides a horse'
    done = subprocess.run(["dot", "-Tsvg"], input=shown(text, dot=True), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    titles = [html.unescape(title).replace("\xa0", " ") for title in re.findall(r">([^<>]*)</text>", done.stdout)]
    assert text in titles


@pytest.mark.parametrize("flags", [[], ["dot"], ["dot", "simple"]])
def test_the_command_prints_to_stdout(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "A dog on a couch.", *(f"--{flag}" for flag in flags)]) == 0
    assert capsys.readouterr().out == shown("A dog on a couch.", **dict.fromkeys(flags, True))
