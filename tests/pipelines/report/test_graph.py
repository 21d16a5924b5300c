"""A scene graph in plain words."""

import io

import negcap
from negcap.pipelines.report.rows import print_graph


def shown(text: str, simple: bool = False) -> str:
    stream = io.StringIO()
    print_graph(negcap.graph(text, simple=simple), stream)
    return stream.getvalue()


def test_a_graph_in_plain_words() -> None:
    text = shown("A man in front of a man with two umbrellas wears a red hat.")
    for line in ("man (2)", "umbrella | two", "hat | red", "man | in front of | man (2)", "man | wear | hat"):
        assert f"  {line}\n" in text
    assert shown("") == "objects     –\nattributes  –\nrelations   –\n"
    assert "tennis racket" in shown("A tennis racket.") and "tennis" not in shown("A tennis racket.", simple=True)
    assert "\x1b" not in shown("A \x1b[31mred\x1b[0m car.")  # control characters do not steer a terminal
