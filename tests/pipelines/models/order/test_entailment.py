"""Entailment: files of pairs, and what is learned of made pairs."""

import json
import random
import re
from pathlib import Path

import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.models.order.entailment import LabelledPairs, read_pairs
from tests.pipelines.models.conftest import LossesAsBefore

WORDS = "dog cat man boat tree kite lamp drum".split()
Labelled = list[tuple[str, str, str]]  # premise, hypothesis, label


def made_pairs(n: int, seed: int) -> Labelled:
    """A premise names three things; a hypothesis one of them (entailed) or another (contradicted or neutral)."""
    rng = random.Random(seed)
    pairs = []
    for k in range(n):
        there = rng.sample(WORDS, 3)
        other = rng.choice([word for word in WORDS if word not in there])
        label = ("entailment", "contradiction", "entailment", "neutral")[k % 4]
        pairs.append((" ".join(there), rng.choice(there) if label == "entailment" else other, label))
    return pairs


def write_jsonl(path: Path, pairs: Labelled) -> Path:
    names = ("sentence1", "sentence2", "gold_label")
    path.write_text("".join(json.dumps(dict(zip(names, pair, strict=True))) + "\n" for pair in pairs))
    return path


def test_files_of_snli_and_sick_are_read_alike(tmp_path: Path) -> None:
    pairs = [
        ('A "dog" runs.', "An animal.", "entailment"),
        ("A dog.", "A cat.", "contradiction"),
        ("a", "b", "neutral"),
    ]
    expected = LabelledPairs([p for p, _, _ in pairs], [h for _, h, _ in pairs], [True, False, False], 1)
    snli = ["gold_label\tx\tsentence1\tsentence2", *(f"{label}\t0\t{p}\t{h}" for p, h, label in pairs), "-\t0\tc\td"]
    sick = ["pair_ID\tsentence_A\tsentence_B\tx\tentailment_judgment"]
    sick += [f"1\t{p}\t{h}\t0\t{label.upper()}" for p, h, label in pairs]
    (tmp_path / "snli.txt").write_text("\n".join(snli))
    (tmp_path / "sick.txt").write_text("\n".join([*sick, ""]))
    assert read_pairs(write_jsonl(tmp_path / "snli.jsonl", [*pairs, ("c", "d", "-")])) == expected
    assert read_pairs(tmp_path / "snli.txt") == expected
    assert read_pairs(tmp_path / "sick.txt") == expected._replace(dropped=0)


PAIR = '{{"sentence1": {}, "sentence2": "b", "gold_label": "{}"}}\n'


@pytest.mark.parametrize(
    ("name", "text", "fact"),
    [
        ("a.txt", "sentence1\tsentence2\na\tb\n", "a.txt:2: a pair must have sentence1, sentence2, gold_label or "),
        ("a.jsonl", PAIR.format('"a"', "maybe"), "a.jsonl:1: gold_label must be one of "),
        ("a.jsonl", PAIR.format("null", "neutral"), "sentence1 and sentence2 must be text, were: None, 'b'"),
        ("a.jsonl", "{", "a.jsonl:1: must be a JSON object, was: {"),
        ("a.txt", "", "none; without a label: 0"),
        ("a.txt", b"\xff\xfe", "must be text in UTF-8"),
    ],
)
def test_a_bad_file_is_an_error_that_names_it(name: str, text: str | bytes, fact: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=re.escape(fact)):
        read_pairs(tmp_path / name)


def test_the_command_learns_made_pairs_with_losses_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], losses_as_before: LossesAsBefore
) -> None:
    def entail(sizes: tuple[int, int, int], output: Path, *more: str) -> str:
        """What the command prints of made pairs."""
        files = [str(write_jsonl(tmp_path / f"{n}.jsonl", made_pairs(size, n))) for n, size in enumerate(sizes)]
        small = "--set joint=16 --set word_dim=8 --set margin=0.2 --threads 1 --quiet --output".split()
        assert main(["entail", *files, *small, str(output), *more]) == 0
        return capsys.readouterr().out

    with losses_as_before("entailment"):
        entail((400, 20, 20), tmp_path / "a", "--epochs", "2", "--seeds", "2")
    output = tmp_path / "out"
    text = entail((400, 40, 100), output, "--epochs", "4", "--set", "learning_rate=0.03")
    assert "entailed: 50 / 50 / 50 %" in text and text == (output / "entailment.md").read_text()
    results = json.loads((output / "entailment.json").read_text())
    assert min(results["order"]["test"][0], results["cosine"]["test"][0]) > 65
    assert results["most frequent class"]["test"] == [50.0] and results["order"]["margin"] == 0.2
    assert {path.name for path in output.glob("*.safetensors")} == {"order-0.safetensors", "cosine-0.safetensors"}


def test_margins_are_chosen_on_the_validation_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(write_jsonl(tmp_path / "a.jsonl", made_pairs(16, 0)))
    small = "--set joint=4 --set word_dim=4 --epochs 1 --threads 1 --similarity order --seeds 2".split()
    assert main(["entail", file, file, file, "--output", str(tmp_path / "out"), *small]) == 0
    lines = capsys.readouterr().err.splitlines()
    shares = [float(re.search(r"([\d.]+) %", line)[1]) for line in lines if "margin" in line]  # type: ignore[index]
    result = json.loads((tmp_path / "out" / "entailment.json").read_text())["order"]
    assert len(shares) == 4 and len(result["test"]) == 2
    assert result["margin"] == (0.02, 0.05, 0.1, 0.2)[shares.index(max(shares))]
