"""Order-embeddings: hypernyms of a tree, entailment of made pairs, and lengths of captions."""

import json
import random
import re
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Generator
from torch.distributions import MultivariateNormal, kl_divergence

from negcap.pipelines.cli import main
from negcap.pipelines.models.order import hypernyms, taxonomy
from negcap.pipelines.models.order.entailment import LabelledPairs, read_pairs
from negcap.pipelines.models.order.lengths import compositions, length_ranks, named_objects
from negcap.pipelines.models.settings import HypernymConfig
from negcap.pipelines.models.similarities import SIMILARITIES
from negcap.schemas.captions import TAXONOMY
from tests.pipelines.models.conftest import LossesAsBefore

# concept n of the tree lies below (n - 1) // 3
TREE = np.array([(n, (n - 1) // 3) for n in range(1, 121)])


def tree() -> taxonomy.Taxonomy:
    return taxonomy.Taxonomy([f"c{n}.n.01" for n in range(121)], *taxonomy.count_chains(TREE, 121))


def write_wordnet(path: Path, above: list[list[int]], pos: str = "n") -> Path:
    """A taxonomy of concepts c0, c1, … with the given rows above each."""
    sense = {"rank": 1, "count": 0, "antonyms": [], "derived": []}
    rows = [
        {
            **dict.fromkeys(TAXONOMY.names, []),
            **{"pos": pos, "lexname": "noun.Tops", "hypernyms": rows, "senses": [{"lemma": f"c{n}", **sense}]},
        }
        for n, rows in enumerate(above)
    ]
    pq.write_table(pa.Table.from_pylist(rows, TAXONOMY), path)
    return path


@pytest.mark.parametrize("seed", range(5))
def test_the_closure_is_that_of_all_chains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, 12, (14, 2))  # circles and loops, too
    known = {tuple(edge) for edge in edges.tolist()}
    while more := {(a, d) for (a, b), (c, d) in product(known, known) if b == c} - known:
        known |= more
    closure = taxonomy.transitive_closure(edges, 12)
    assert [tuple(pair) for pair in closure.tolist()] == sorted(pair for pair in known if pair[0] != pair[1])


def test_a_pair_counts_once_for_each_chain() -> None:
    closure, chains = taxonomy.count_chains(np.array([(3, 1), (3, 2), (1, 0), (2, 0), (4, 3)]), 5)
    assert dict(zip(map(tuple, closure.tolist()), chains.tolist(), strict=True))[4, 0] == 2 and chains.sum() == 11
    assert np.array_equal(tree().closure, taxonomy.transitive_closure(TREE, 121)) and set(tree().chains) == {1}
    with pytest.raises(ValueError, match="no concept above itself, has 1"):
        taxonomy.count_chains(np.array([(1, 2), (2, 1)]), 3)


def test_a_split_has_every_pair_once_and_false_pairs_replace_either_end() -> None:
    closure = tree().closure
    train, *held = taxonomy.split_pairs(tree(), 30, np.random.default_rng(0))
    assert [len(train), *(len(part.pairs) for part in held)] == [len(closure) - 90, 60, 60, 60]
    true = [tuple(pair) for pair in closure.tolist()]
    parts = [train, *(part.pairs[part.related].numpy() for part in held)]
    assert sorted(map(tuple, np.concatenate(parts).tolist())) == true
    pairs = np.repeat(closure, 20, 0)
    false = taxonomy.false_pairs(pairs, tree(), np.random.default_rng(0))
    assert not set(true) & {tuple(pair) for pair in false.tolist()}
    changed = false != pairs
    below = pairs[:, 1] > 0  # what lies below the root, all do; its pairs can only be made false at the other end
    assert 0.3 < changed[below, 0].sum() / changed[below].sum() < 0.6 and not changed[~below, 0].any()


def test_the_shipped_wordnet_and_its_transitive_closure() -> None:
    """As the paper has it, there are 838,073 pairs, and chains of the known ones are right on 88.2 %."""
    nouns = taxonomy.read_taxonomy()
    assert (len(nouns.names), len(nouns.closure), nouns.chains.sum()) == (82_115, 743_241, 837_888)
    shares = []
    for clean in (True, False):
        split = taxonomy.split_pairs(nouns, 4000, np.random.default_rng(0), clean=clean)
        shares.append(hypernyms.reachable_pairs_accuracy(split, len(nouns.names)))
    checked, as_drawn = shares
    assert checked["true"] == pytest.approx(88.1, abs=0.7) and checked["false"] == 100
    assert as_drawn["accuracy"] == pytest.approx(88.2, abs=0.9) and as_drawn["false"] == pytest.approx(86.5, abs=1.5)


@pytest.mark.parametrize("seed", range(3))
def test_losses_and_the_threshold_with_the_highest_accuracy(seed: int) -> None:
    true, false = torch.tensor([0.5, 0.0]), torch.tensor([0.2, 3.0])
    assert hypernyms.pair_loss(true, false, 1.0).item() == pytest.approx(0.5 + 0.8)
    assert hypernyms.max_margin_loss(true, false, 1.0).item() == pytest.approx(1.3)
    generator = Generator().manual_seed(seed)
    penalties = torch.randint(6, (15,), generator=generator).float()  # with ties
    related = torch.rand(15, generator=generator) < (0.1, 0.5, 0.9)[seed]
    tried = [hypernyms.threshold_accuracy(penalties, related, t) for t in np.arange(-0.5, 6)]
    assert hypernyms.threshold_accuracy(penalties, related, hypernyms.best_threshold(penalties, related)) == max(tried)


def test_penalties_of_gaussians_are_their_divergence() -> None:
    energy = hypernyms.Gaussians(6, 3, Generator().manual_seed(0)).double()
    torch.nn.init.normal_(energy.logs.weight, generator=Generator().manual_seed(1))
    below, above = torch.tensor([0, 1, 2]), torch.tensor([3, 4, 0])
    means, logs = energy.points.weight, energy.logs.weight
    normals = (MultivariateNormal(means[n], torch.diag_embed(logs[n].exp())) for n in (below, above))
    assert torch.allclose(energy(below, above), kl_divergence(*normals))
    energy.constrain()
    assert energy.logs.weight.exp().min() >= 0.05 - 1e-6 and energy.logs.weight.exp().max() <= 5 + 1e-5


@pytest.mark.parametrize("row", hypernyms.ENERGIES)
def test_models_learn_a_tree_with_losses_as_before(row: str, losses_as_before: LossesAsBefore) -> None:
    """Of a tree that is trained on whole, each model tells the pairs; the symmetric one not which lies below."""
    nouns = tree()
    config = HypernymConfig(dim=10, epochs=12, batch_size=40, learning_rate=0.1, threads=1)
    split = taxonomy.split_pairs(nouns, 20, np.random.default_rng(0))
    with losses_as_before(f"hypernyms_{row}"):
        hypernyms.train_energy(row, split, nouns, config.changed(epochs=2), 0)
    true = torch.from_numpy(nouns.closure)
    held = taxonomy.with_false_pairs(nouns.closure, nouns, np.random.default_rng(0))
    energy, shares = hypernyms.train_energy(row, taxonomy.Split(nouns.closure, *[held] * 3), nouns, config, 0)
    assert shares["accuracy"] > {"order": 90, "symmetric": 75}.get(row, 80)
    with torch.no_grad():
        turned = energy(*true.flip(1).T) > energy(*true.T)
    assert turned.double().mean() > 0.9 or row in ("symmetric", "bilinear")


def test_the_command_writes_its_table_and_trains_nothing_twice_with_the_same_settings(tmp_path, capsys):
    wordnet = write_wordnet(tmp_path / "tree.parquet", [[], *([int(above)] for _, above in TREE)])
    given = f"--set wordnet={wordnet} --set held_out=20 --epochs 1 --threads 1 --concept c0.n.01,c1.n.01".split()
    output = tmp_path / "one"

    def predict(*more: str) -> tuple[str, list[str]]:
        """What the command prints, and what it trains."""
        assert main(["hypernyms", "--output", str(output), *given, *more]) == 0
        text, errors = capsys.readouterr()
        return text, re.findall("(.*), epoch 1:", errors)

    first, trained = predict("--row", "order")
    assert trained == ["order, seed 0"] * 2 and predict("--row", "order") == (first, [])
    vectors = output / "order-clean-0.safetensors"
    whole = vectors.read_bytes()
    vectors.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert predict("--row", "order") == (first, ["order, seed 0"]) and vectors.read_bytes() == whole
    text, trained = predict("--row", "order,transitive", "--seeds", "2")
    assert trained == ["order, seed 1"] * 2 and text == (output / "hypernyms.md").read_text()
    results = json.loads((output / "hypernyms.json").read_text())
    rows = {kind: {row: len(seeds) for row, seeds in of_kind.items()} for kind, of_kind in results.items()}
    assert rows == dict.fromkeys(("as-drawn", "clean"), {"transitive": 2, "order": 2})
    again = predict("--row", "order", "--false-pairs", "clean", "--set", "margin=2")
    assert again[1] == ["order, seed 0"] and "as-drawn" not in again[0]


def test_bad_input_is_one_line_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_wordnet(tmp_path / "tree.parquet", [[], *([int(above)] for _, above in TREE)])
    write_wordnet(tmp_path / "verbs.parquet", [[], [0]], "v")
    pq.write_table(pa.table({"pos": ["n"]}), tmp_path / "other.parquet")
    for flags, fact in (
        ("verbs.parquet", "verbs.parquet has 0 nouns"),
        ("other.parquet", "wordnet must be a taxonomy in Parquet"),
        ("tree.parquet", "concepts must be names of nouns"),
        ("tree.parquet --concept c0.n.01", "held_out must be at most a sixth of the 426"),
    ):
        given = f"--output {tmp_path}/out --set wordnet={tmp_path}/{flags}".split()
        assert main(["hypernyms", *given]) == 2 and not (tmp_path / "out").exists()
        errors = capsys.readouterr().err
        assert errors.count("\n") == 1 and fact in errors


def test_a_plane_holds_a_small_order_and_its_losses_are_as_before(losses_as_before):
    with losses_as_before("plane"):
        hypernyms.fit_plane(torch.ones(5, 5, dtype=torch.bool).tril(-1))
    related = torch.zeros(4, 4, dtype=torch.bool)
    related[[1, 2, 3, 3], [0, 0, 0, 1]] = True
    plane = hypernyms.fit_plane(related)
    assert torch.equal(plane.related, related) and (plane.points >= 0).all() and plane.points.shape == (4, 2)


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
    pairs = [('A "dog" runs.', "An animal.", "entailment"), ("A dog.", "A cat.", "contradiction")]
    expected = LabelledPairs(['A "dog" runs.', "A dog."], ["An animal.", "A cat."], [True, False], 1)
    snli = ["gold_label\tx\tsentence1\tsentence2", *(f"{label}\t0\t{p}\t{h}" for p, h, label in pairs), "-\t0\tc\td"]
    sick = ["pair_ID\tsentence_A\tsentence_B\tx\tentailment_judgment"]
    sick += [f"1\t{p}\t{h}\t0\t{label.upper()}" for p, h, label in pairs]
    (tmp_path / "snli.txt").write_text("\n".join(snli))
    (tmp_path / "sick.txt").write_text("\n".join([*sick, ""]))
    assert read_pairs(write_jsonl(tmp_path / "snli.jsonl", [*pairs, ("c", "d", "-")])) == expected
    assert read_pairs(tmp_path / "snli.txt") == expected
    assert read_pairs(tmp_path / "sick.txt") == expected._replace(dropped=0)


PAIR = '{{"sentence1": {}, "sentence2": "b", "gold_label": "{}"}}\n'


@pytest.mark.parametrize(("name", "text", "fact"), [
    ("a.txt", "sentence1\tsentence2\na\tb\n", "a.txt:2: a pair must have sentence1, sentence2, gold_label or "),
    ("a.jsonl", PAIR.format('"a"', "maybe"), "a.jsonl:1: gold_label must be one of "),
    ("a.jsonl", PAIR.format("null", "neutral"), "sentence1 and sentence2 must be text, were: None, 'b'"),
    ("a.jsonl", "{", "a.jsonl:1: must be a JSON object, was: {"),
    ("a.txt", "", "none; without a label: 0"),
    ("a.txt", b"\xff\xfe", "must be text in UTF-8"),
])  # fmt: skip
def test_a_bad_file_is_an_error_that_names_it(name: str, text: str | bytes, fact: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=re.escape(fact)):
        read_pairs(tmp_path / name)


def test_the_command_learns_made_pairs_with_losses_as_before(tmp_path, capsys, losses_as_before):
    sizes = enumerate((400, 20, 20))
    files = [str(write_jsonl(tmp_path / f"{n}.jsonl", made_pairs(size, n))) for n, size in sizes]
    output = tmp_path / "out"
    small = "--set joint=16 --set word_dim=8 --set margin=0.2 --threads 1 --quiet --epochs 2 --seeds 2".split()
    with losses_as_before("entailment"):
        assert main(["entail", *files, *small, "--output", str(output)]) == 0
    text = capsys.readouterr().out
    assert "entailed: 50 / 50 / 50 %" in text and text == (output / "entailment.md").read_text()
    results = json.loads((output / "entailment.json").read_text())
    assert results["most frequent class"]["test"] == [50.0] and results["order"]["margin"] == 0.2
    assert max(results["order"]["test"]) > 55 < max(results["cosine"]["test"])


def test_margins_are_chosen_on_the_validation_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(write_jsonl(tmp_path / "a.jsonl", made_pairs(16, 0)))
    small = "--set joint=4 --set word_dim=4 --epochs 1 --threads 1 --similarity order --seeds 2".split()
    assert main(["entail", file, file, file, "--output", str(tmp_path / "out"), *small]) == 0
    lines = capsys.readouterr().err.splitlines()
    shares = [float(re.search(r"([\d.]+) %", line)[1]) for line in lines if "margin" in line]  # type: ignore[index]
    result = json.loads((tmp_path / "out" / "entailment.json").read_text())["order"]
    assert len(shares) == 4 and len(result["test"]) == 2
    assert result["margin"] == (0.02, 0.05, 0.1, 0.2)[shares.index(max(shares))]


ORDER = SIMILARITIES["order"]


def test_the_longer_caption_lies_below_the_shorter() -> None:
    """Two images with two captions each; the shorter caption's coordinates are below those of the longer one."""
    images = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    captions = torch.tensor([[0.5, 0, 0, 0], [0.9, 0.9, 0, 0], [0, 0, 0.5, 0], [0, 0, 0.4, 0.9]])
    owner, model = torch.tensor([0, 0, 1, 1]), SimpleNamespace(similarity=ORDER)
    split: Any = SimpleNamespace(image_vectors=images, caption_vectors=captions, image_of_caption=owner, model=model)
    words = torch.tensor([2, 9, 3, 5])
    assert length_ranks(split, words, 100) == {"pairs": 2, "image": 1.0, "longer": 1.0}
    assert length_ranks(split, words, 1) == {"pairs": 1, "image": 1.0, "longer": 1.0}
    split.image_vectors = images.flip(0)
    assert length_ranks(split, words, 100)["image"] == 2
    captions[1] = torch.tensor([0, 0, 0.9, 0.9])  # as far from caption 0 as the others; below caption 2
    assert length_ranks(split, words, 100)["longer"] == 2.5
    with pytest.raises(ValueError, match="two captions of different length, has none"):
        length_ranks(split, torch.ones(4, dtype=torch.long), 100)


def test_maxima_compose_and_minima_abstract_under_the_order_and_the_cosine_has_sums() -> None:
    images = torch.tensor([[1.0, 1, 0], [1, 0, 0], [0, 1, 1]])
    captions = [{"dog"}, {"car"}, {"dog", "tree"}, {"car", "dog"}, {"dog"}, {"car"}]
    names, named, pairs = named_objects(captions, [0, 0, 1, 2, 0, 2], 3, 2)
    assert names == ["car", "dog"] and pairs.tolist() == [[0, 1]]
    assert named.tolist() == [[True, False, True], [True, True, True]]
    vectors = torch.tensor([[0.0, 0.6, 0], [0.6, 0.1, 0]])
    named[1, 2] = False  # so that a car can be alone
    rows = compositions(vectors, named, pairs, images, ORDER).values()
    true = [[True, False, False], [True, True, True], [True, False, False]]
    assert [shown[0].tolist() for _, shown in rows] == true
    expected = [[0, -0.36, -0.36], [0, -0.01, 0], [-1, -2, -torch.inf]]  # the last: image 2, and a dog
    for (scores, _), of_images in zip(rows, expected, strict=True):
        assert scores[0].tolist() == pytest.approx(of_images, abs=1e-6)
    scores, _ = compositions(vectors, named, pairs, images, SIMILARITIES["cosine"])["both of two objects"]
    assert scores[0].tolist() == pytest.approx((images @ torch.tensor([0.6, 0.7, 0]) / 0.85**0.5).tolist())
