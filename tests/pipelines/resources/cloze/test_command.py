"""`make cloze` and the command behind it, on the sample captions."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from negcap.augment.cloze.file import read_about, read_model
from negcap.augment.data import data_path
from negcap.pipelines.resources.cloze.__main__ import main, parser
from negcap.pipelines.resources.cloze.corpus import encode, read_source, tokenised
from negcap.pipelines.resources.cloze.model import load, perplexity
from tests.conftest import ROOT, SAMPLE

SMALL = ["--words", "16", "--states", "16", "--hidden", "16", "--heads", "2", "--epochs", "2", "--batch", "32"]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """The command sets the number of threads of its process."""
    number = torch.get_num_threads()
    yield
    torch.set_num_threads(number)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cloze") / "model.npz"
    assert main([str(SAMPLE), "--output", str(path), *SMALL]) == 0
    return path


def lines(path: Path, *captions: str) -> str:
    path.write_text("".join(f"{caption}\n" for caption in captions), "utf-8")
    return str(path)


def test_the_same_input_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    again = tmp_path / "model.npz"
    assert main([str(SAMPLE), "--output", str(again), *SMALL]) == 0
    assert again.read_bytes() == model.read_bytes()
    assert main([str(SAMPLE), "--output", str(again), *SMALL, "--seed", "2"]) == 0
    assert again.read_bytes() != model.read_bytes()


def test_a_model_says_what_it_was_made_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held_out = lines(tmp_path / "apart.txt", "A dog sleeps on a red sofa.", "Two men play a game in a park.")
    output = tmp_path / "model.npz"
    given = ["--held-out", held_out, "--source", "our own captions", "--output", str(output), *SMALL]
    assert main([str(SAMPLE), *given]) == 0
    about = read_about(output)
    assert (about["source"], about["captions"], about["held_out"]) == ("our own captions", 550, "apart.txt")
    assert about["training"]["epochs"] == 2 and about["training"]["seed"] == 1 and about["continues"] is None
    assert 1 < about["perplexity"] < about["units"]
    assert str(tmp_path) not in str(about)
    shown = capsys.readouterr()
    assert shown.out == "" and "epoch 2: perplexity" in shown.err


def test_a_model_is_continued_on_other_captions(model: Path, tmp_path: Path) -> None:
    new = lines(tmp_path / "new.txt", *[f"A zebra stands beside a zebra in field {i}." for i in range(8)])
    other = lines(tmp_path / "other.txt", "A zebra stands beside a zebra.")
    known, _ = read_model(model)
    assert known.of("zebra") is None
    reached = []
    more = ["--continue", str(model), "--held-out", other, "--output", str(tmp_path / "more.npz")]
    for epochs in ("1", "6"):
        assert main([new, *more, "--epochs", epochs]) == 0
        reached.append(read_about(tmp_path / "more.npz")["perplexity"])
    units, arrays = read_model(tmp_path / "more.npz")
    assert units.names[: len(known.names)] == known.names and units.of("zebra") is not None
    assert arrays["query.bias"].shape == (16,)
    assert reached[1] < reached[0]
    about = read_about(tmp_path / "more.npz")
    assert about["continues"] == read_about(model) and about["training"]["learning_rate"] == 5e-4


def test_without_torch_the_extra_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main([str(SAMPLE), "--output", str(tmp_path / "model.npz")]) == 2
    assert capsys.readouterr().err == 'cloze: training needs PyTorch: pip install "negcap[train]"\n'


def test_without_captions_held_out_scores_are_centred_on_those_trained_on(model: Path) -> None:
    units, net = load(model)
    texts = read_source(str(SAMPLE)).texts
    assert abs(perplexity(net, encode(tokenised(texts), units))[1]) < 0.003


def test_the_shipped_model_is_continued_without_naming_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = lines(tmp_path / "new.txt", *["A zebra stands beside a zebra in a field."] * 3)
    given = ["--continue", "shipped", "--epochs", "1", "--batch", "2", "--output", str(tmp_path / "more.npz")]
    assert main([new, "--min-count", "1", *given]) == 0
    shipped = data_path("cloze") / "model.npz"
    assert read_model(tmp_path / "more.npz")[0].names == read_model(shipped)[0].names
    assert read_about(tmp_path / "more.npz")["continues"] == read_about(shipped)


def test_bad_input_is_answered_in_one_line(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rare = lines(tmp_path / "rare.txt", "Every word once only.")
    cases = {
        "no such file": ["absent.json"],
        "must be a cloze model": [str(SAMPLE), "--continue", str(SAMPLE)],
        "--states must not be given with --continue": [str(SAMPLE), "--continue", str(model), "--states", "8"],
        "a word must occur at least 4 times": [rare],
        "the captions held out must differ": [str(SAMPLE), "--held-out", str(SAMPLE)],
        "epochs must be >= 1, was: 0": [str(SAMPLE), "--epochs", "0"],
        "threads must be >= 1, was: 0": [str(SAMPLE), "--threads", "0"],
        "states must be a multiple of heads": [str(SAMPLE), "--states", "9", "--heads", "2"],
        f"output must be a file, is a folder: {tmp_path}": [str(SAMPLE), "--output", str(tmp_path)],
    }
    for message, arguments in cases.items():
        capsys.readouterr()
        assert main(["--output", str(tmp_path / "none.npz"), *arguments]) == 2, message
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.startswith("cloze: ") and message in last
    assert not (tmp_path / "none.npz").exists()
    with pytest.raises(SystemExit) as stopped:
        main([str(SAMPLE)])
    assert stopped.value.code == 2 and "--output" in capsys.readouterr().err


def make(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run make with this Python instead of a virtual environment of its own."""
    (tmp_path / "installed-train").touch()
    environment = {key: value for key, value in os.environ.items() if key != "CAPTIONS"}
    paths = [f"VENV={tmp_path}", f"BIN={Path(sys.executable).parent}"]
    return subprocess.run(["make", "cloze", *paths, *words], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_make_calls_the_command_with_what_it_is_given(tmp_path: Path) -> None:
    sources, options = [str(SAMPLE), str(ROOT / "README.md")], ["--epochs", "2", "--continue", "shipped"]
    given = f"CAPTIONS={' '.join(sources)}", f"MODEL={tmp_path / 'model.npz'}", f"ARGS={' '.join(options)}"
    made = make(tmp_path, "--dry-run", "--no-print-directory", *given)
    assert made.returncode == 0, made.stderr
    python, *words = shlex.split(made.stdout.splitlines()[-1])
    assert Path(python).samefile(sys.executable) and words[:2] == ["-m", parser.__module__.removesuffix(".__main__")]
    assert words[2:] == [*sources, "--output", str(tmp_path / "model.npz"), *options]
    assert parser().parse_args(words[2:]).epochs == 2
    made = make(tmp_path, f"MODEL={tmp_path / 'model.npz'}")  # the sample is not trained on unasked
    assert made.returncode == 2 and "make cloze needs CAPTIONS" in made.stderr
    assert not (tmp_path / "model.npz").exists()
