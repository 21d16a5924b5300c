"""What --strict makes of an operator that fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from negcap.augment.operators import OPERATORS, Operator
from negcap.pipelines.cli import main


def fail(*given: object) -> Iterator:
    raise KeyError("scarf")


@pytest.mark.filterwarnings("ignore:operator noun raised KeyError:RuntimeWarning")
def test_strict_exits_with_1_if_an_operator_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "captions.csv").write_text("image,caption\n1,A dog runs .\n2,A cat sits on a table .\n")
    run, here = str(tmp_path / "run"), ["--quiet", "--scheduler", "synchronous"]
    lexicon = ["--set", "lexicon=reference", "--operator", "noun", "--operator", "verb"]
    build = ["build", str(tmp_path / "captions.csv"), "--output", run, *lexicon, *here]
    monkeypatch.setitem(OPERATORS, "noun", Operator(fail, "noun", 1.0))
    assert main([*build, "--strict"]) == 1
    shown = capsys.readouterr()
    assert shown.err == (
        f"negcap: operators failed on captions, 2 in all: negcap show {run} --reason operator_error lists them\n"
    )
    assert "operator_error 2" in shown.out
    assert main(build) == 0  # the table is kept
    assert main(["show", run, "--reason", "operator_error"]) == 0
    assert "rejected: operator_error (operator noun raised KeyError: 'scarf')" in capsys.readouterr().out
    verbs = ["build", "--output", run, "--only", "negatives", "--strict", "--overwrite", *here]
    assert main([*verbs, "--operator", "noun"]) == 1
    assert main([*verbs, "--operator", "verb"]) == 0
