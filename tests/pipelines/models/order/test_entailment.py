"""Entailment: files of pairs, penalties of sentences, and what is learned of made pairs."""

import json
import random
import re
from pathlib import Path

import pytest
import torch
from torch import Generator

from negcap.pipelines.cli import main
from negcap.pipelines.models.order.config import EntailConfig
from negcap.pipelines.models.order.entailment import (
    LabelledPairs,
    SentencePairs,
    encode_pairs,
    penalties_of,
    read_pairs,
)
from negcap.pipelines.models.vocabulary import build_vocabulary
from tests.pipelines.models.golden_losses import losses_as_before

WORDS = "dog cat man boat tree kite lamp drum".split()
CPU = torch.device("cpu")


def made_pairs(n: int, seed: int) -> list[tuple[str, str, str]]:
    """A premise names three things; a hypothesis one of them (entailed) or another (contradicted or neutral)."""
    rng = random.Random(seed)
    pairs = []
    for k in range(n):
        there = rng.sample(WORDS, 3)
        other = rng.choice([word for word in WORDS if word not in there])
        label = ("entailment", "contradiction", "entailment", "neutral")[k % 4]
        pairs.append((" ".join(there), rng.choice(there) if label == "entailment" else other, label))
    return pairs


def write_jsonl(path: Path, pairs: list[tuple[str, str, str]]) -> Path:
    names = ("sentence1", "sentence2", "gold_label")
    path.write_text("".join(json.dumps(dict(zip(names, pair, strict=True))) + "\n" for pair in pairs))
    return path


def test_files_of_snli_and_sick_are_read_alike(tmp_path: Path) -> None:
    pairs = [
        ('A "dog" runs.', "An animal runs.", "entailment"),
        ("A dog.", "A cat.", "contradiction"),
        ("a", "b", "neutral"),
    ]
    expected = LabelledPairs([p for p, _, _ in pairs], [h for _, h, _ in pairs], [True, False, False], 1)
    tsv, sick = tmp_path / "snli.txt", tmp_path / "sick.txt"
    lines = ["gold_label\tx\tsentence1\tsentence2", *(f"{label}\t0\t{p}\t{h}" for p, h, label in pairs), "-\t0\tc\td"]
    tsv.write_text("\n".join(lines))
    lines = [
        "pair_ID\tsentence_A\tsentence_B\tx\tentailment_judgment",
        *(f"1\t{p}\t{h}\t0\t{label.upper()}" for p, h, label in pairs),
    ]
    sick.write_text("\n".join(lines) + "\n")
    assert read_pairs(write_jsonl(tmp_path / "snli.jsonl", [*pairs, ("c", "d", "-")])) == expected
    assert read_pairs(tsv) == expected and read_pairs(sick) == expected._replace(dropped=0)


PAIR = '{{"sentence1": {}, "sentence2": "b", "gold_label": "{}"}}\n'
NONE_LEFT = "must have pairs with a gold label, has none; without a label: "


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "sentence1\tsentence2\na\tb\n", r"a\.txt:2: a pair must have sentence1, sentence2, gold_label or .*"),
        ("a.jsonl", '{"sentence1": "a", "label": "-"}\n', r"a\.jsonl:1: a pair must have .*, has: sentence1, label"),
        ("a.jsonl", PAIR.format('"a"', "-"), NONE_LEFT + "1"),
        ("a.jsonl", PAIR.format('"a"', "maybe"), r"a\.jsonl:1: gold_label must be one of .*, -, was: 'maybe'"),
        ("a.jsonl", PAIR.format("null", "neutral"), "sentence1 and sentence2 must be text, were: None, 'b'"),
        ("a.jsonl", "[]\n", r"a\.jsonl:1: must be a JSON object, was: \[\]"),
        ("a.jsonl", "{", r"a\.jsonl:1: must be a JSON object, was: \{"),
        ("a.txt", "", NONE_LEFT + "0"),
        ("a.txt", b"\xff\xfe", "must be text in UTF-8, is not"),
        ("a.txt", None, "a.txt: No such file"),
    ],
)
def test_a_bad_file_is_one_line_and_writes_nothing(
    name: str, text: str | bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    good = write_jsonl(tmp_path / "good.jsonl", made_pairs(8, 0))
    assert main(["entail", str(good), str(tmp_path / name), str(good), "--output", str(tmp_path / "out")]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and re.search(message, errors) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("similarity", ["order", "cosine"])
def test_penalties_do_not_depend_on_the_pairs_beside(similarity: str) -> None:
    texts = ["a dog", "a man on a very long boat by a tree", "kite"]
    vocabulary = build_vocabulary(texts, 1)
    pairs = encode_pairs(LabelledPairs(texts, texts[::-1], [True] * 3, 0), vocabulary, CPU)
    config = EntailConfig(joint=8, word_dim=5)
    model = SentencePairs(similarity, config, len(vocabulary), None, Generator().manual_seed(0))
    together = penalties_of(model, pairs)
    with torch.no_grad():
        alone = torch.cat([model(pairs, torch.tensor([n])) for n in range(3)])
    assert torch.allclose(together, alone, atol=1e-6) and together[1].item() == pytest.approx(0, abs=1e-6)
    assert (together >= -1e-6).all() and together[0] > 1e-3


def test_the_command_learns_made_pairs_with_losses_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    files = [str(write_jsonl(tmp_path / f"{n}.jsonl", made_pairs(size, n))) for n, size in enumerate((400, 20, 20))]
    small = [
        *"--set joint=16 --set word_dim=8 --epochs 2 --threads 1 --set margin=0.2 --quiet --output".split(),
        str(tmp_path / "a"),
    ]
    with losses_as_before("entailment", request):
        assert main(["entail", *files, "--seeds", "2", *small]) == 0
    capsys.readouterr()
    files = [str(write_jsonl(tmp_path / f"{n}.jsonl", made_pairs(size, n))) for n, size in enumerate((800, 60, 200))]
    small = "--set joint=16 --set word_dim=8 --set learning_rate=0.01 --set margin=0.2".split()
    small += "--epochs 6 --threads 1 --quiet".split()
    output = tmp_path / "out"
    assert main(["entail", *files, "--output", str(output), *small]) == 0
    text = capsys.readouterr().out
    assert text.startswith("800 / 60 / 200 pairs to train on, validate and test; entailed: 50 / 50 / 50 %.")
    assert text == (output / "entailment.md").read_text()
    made = json.loads((output / "entailment.json").read_text())
    assert min(made["order"]["test"][0], made["cosine"]["test"][0]) > 65
    assert made["most frequent class"]["test"] == [50.0]
    assert made["order"]["margin"] == 0.2 and made["order"]["epoch"][0] >= 1
    assert {path.name for path in output.glob("*.safetensors")} == {"order-0.safetensors", "cosine-0.safetensors"}


def test_margins_are_chosen_on_the_validation_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(write_jsonl(tmp_path / "a.jsonl", made_pairs(16, 0)))
    small = "--set joint=4 --set word_dim=4 --epochs 1 --threads 1 --similarity order --seeds 2".split()
    assert main(["entail", file, file, file, "--output", str(tmp_path / "out"), *small]) == 0
    lines = capsys.readouterr().err.splitlines()
    shares = [float(re.search(r"([\d.]+) %", line)[1]) for line in lines if "margin" in line]  # type: ignore[index]
    made = json.loads((tmp_path / "out" / "entailment.json").read_text())["order"]
    assert len(shares) == 4 and len(made["test"]) == 2
    assert made["margin"] == (0.02, 0.05, 0.1, 0.2)[shares.index(max(shares))]
