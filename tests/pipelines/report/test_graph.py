import io

import pytest

import negcap
from negcap.pipelines.cli import main
from negcap.pipelines.report.rows import print_graph


def shown(text: str, simple: bool = False) -> str:
    stream = io.StringIO()
    print_graph(negcap.graph(text, simple=simple), stream)
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
    assert "\x1b" not in shown("A \x1b[31mred\x1b[0m car.")


@pytest.mark.parametrize("flags", [[], ["simple"]])
def test_the_command_prints_to_stdout(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "A dog on a couch.", *(f"--{flag}" for flag in flags)]) == 0
    assert capsys.readouterr().out == shown("A dog on a couch.", **dict.fromkeys(flags, True))
