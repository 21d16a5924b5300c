"""The cloze model's making: captions and vocabulary, loss and schedule, its file, and the command."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from negcap.augment import plausibility
from negcap.augment.cloze.file import FARTHEST, read_about, read_model
from negcap.augment.cloze.fixed_point import STATE
from negcap.augment.cloze.model import ClozeModel
from negcap.augment.cloze.network import places_of_units
from negcap.augment.cloze.states import SPECIAL, UNKNOWN, Units
from negcap.augment.data import data_path
from negcap.augment.edits import Edit
from negcap.augment.language.parse import parse
from negcap.augment.rows import Row
from negcap.pipelines.resources.__main__ import main
from negcap.pipelines.resources.cloze import corpus, network, surrogate
from negcap.pipelines.resources.cloze.config import ClozeTrainingConfig, Sizes, SurrogateConfig
from negcap.pipelines.resources.cloze.corpus import read_photo_ids, read_source
from negcap.pipelines.resources.cloze.network import Cloze, load, perplexity, save
from negcap.pipelines.resources.cloze.train import new_network, rate, sampled_loss, train, unit_sampler
from tests.augment.fixtures import sample_parses
from tests.conftest import SAMPLE

HEADER = "image,split,caption"
ROWS = (
    "1_a.jpg,train,A dog runs.",
    "1_a.jpg,train,A brown dog.",
    "2_b.jpg,restval,A dog runs.",
    "3_c.jpg,val,A cat sleeps.",
    "4_d.jpg,test,A man.",
    "5_e.jpg,train,",
)


def lines(path: Path, *texts: str) -> str:
    path.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return str(path)


def test_of_splits_those_for_training_are_trained_on_and_the_others_held_out(tmp_path: Path) -> None:
    table, apart = lines(tmp_path / "captions.csv", HEADER, *ROWS), tmp_path / "apart.txt"
    assert read_source(table) == ("captions.csv", ("A dog runs.", "A brown dog."), 0, 1)
    others = ("A cat sleeps.", "A man.")
    assert read_source(table, held_out=True).texts == others
    without_train = lines(tmp_path / "others.csv", HEADER, *ROWS[3:5])
    assert read_source(without_train).texts == read_source(without_train, held_out=True).texts == others
    lines(apart, "1", "9")  # photos
    assert read_source(table, read_photo_ids(apart)) == ("captions.csv", ("A dog runs.",), 2, 1)
    with pytest.raises(ValueError, match="must list ids of photos, was empty"):
        read_photo_ids(Path(lines(apart, "")))
    with pytest.raises(ValueError, match="captions to train on, has none"):
        read_source(table, {"1", "2"})


def test_the_vocabulary_has_frequent_words_and_phrases_and_those_known_before() -> None:
    captions = [text.split() for text in ("a dog in front of a ball .", "a dog in front", "a cat", "in front of a dog")]
    units, counts = corpus.vocabulary(captions, ["in front of", "tennis ball"], 2)
    assert units.names == (*SPECIAL, "a", "dog", "in front of")
    assert counts.tolist() == [4, 4, 4, 5, 3, 2]  # ball, in, front and cat are the rest
    known = (*SPECIAL, "bird", "a")
    units, counts = corpus.vocabulary([["a", "dog"], ["a", "dog"], ["a", "cat"]], [], 2, known)
    assert units.names == (*known, "dog")
    assert counts.tolist() == [3, 3, 1, 0, 3, 2]


def test_captions_become_numbers_in_pieces() -> None:
    units, longest = Units((*SPECIAL, "a", "dog")), corpus.MAX_UNITS
    encoded = corpus.encode([*corpus.tokenise(["A dog.", ".", ""]), ["zebra"], ["a"] * (2 * longest + 1)], units)
    assert [caption.tolist() for caption in encoded[:2]] == [[0, 3, 4, 1], [0, 2, 1]]
    assert [len(piece) - 2 for piece in encoded[2:]] == [longest, longest, 1]


SMALL = Sizes(words=8, states=8, hidden=12, heads=2)
UNITS = Units((*SPECIAL, *"abcdefgh", "a b"))
COUNTS = np.array([60, 60, 3, 30, 30, 20, 20, 20, 20, 5, 1, 4])
# Captions "a b c d" and "a b c d e f", in which every word tells the next, and one that has only UNKNOWN.
PATTERN = [np.array([0, *range(3, 7 + 2 * (i % 2)), 1], np.int32) for i in range(60)] + [np.array([0, 2, 1], np.int32)]


def config(**given: float) -> ClozeTrainingConfig:
    return ClozeTrainingConfig(**{"epochs": 20, "batch": 8, "learning_rate": 2e-2, **given})  # type: ignore[arg-type]


def random_network() -> Cloze:
    return new_network(COUNTS, SMALL, ClozeTrainingConfig(dropout=0.0))


@torch.no_grad()
def test_with_all_units_drawn_the_loss_is_that_of_the_softmax() -> None:
    net = random_network()
    contexts, targets = torch.randn(20, 8), torch.randint(3, 12, (20,))
    loss, squared = sampled_loss(net, contexts, targets, torch.arange(3, 12), torch.zeros(12))
    logits = contexts @ net.embedding.weight[3:].T + net.bias[3:]
    torch.testing.assert_close(loss, nn.functional.cross_entropy(logits, targets - 3))
    torch.testing.assert_close(squared, logits.logsumexp(1).square().mean())


@torch.no_grad()
def test_the_sum_of_probabilities_is_estimated_without_bias() -> None:
    net, sampler = random_network(), unit_sampler(COUNTS, 4)
    generator = torch.Generator().manual_seed(1)
    context, target = torch.randn(1, 8, generator=generator), torch.tensor([5])
    exact = (context @ net.embedding.weight[3:].T + net.bias[3:]).exp().sum()
    score = (context @ net.vectors[target].T + net.bias[target])[0, 0]
    drawn = [sampler.draw(generator) for _ in range(2000)]
    losses = [sampled_loss(net, context, target, units, sampler.log_chance).loss for units in drawn]
    sums = (torch.stack(losses) + score).exp()  # the loss is the log of the sum, less the score
    assert sums.std() > 0.1 * exact
    assert float(sums.mean() / exact) == pytest.approx(1, abs=0.05)


def test_the_learning_rate_rises_and_falls() -> None:
    rates = [rate(step, 10_000, 500) for step in (0, 249, 499, 500, 5_250, 9_999)]
    assert rates == pytest.approx([1 / 500, 0.5, 1, 1, 0.5, 1 / 9_500])
    assert rate(9, 100, 500) == rate(0, 1, 500) == 1  # it rises for a tenth of all steps at most


def test_training_learns_what_stands_where() -> None:
    reached: list[float] = []

    def measure(net: Cloze, epoch: int) -> None:
        reached.append(perplexity(net, PATTERN).perplexity)

    train(random_network(), PATTERN, COUNTS, config(), lambda line: None, measure)
    assert len(reached) == 20 and perplexity(random_network(), PATTERN).perplexity > 5 > 2 > reached[-1]


@torch.no_grad()
def test_the_perplexity_is_that_of_the_softmax_over_known_words() -> None:
    net = random_network().eval()
    captions, losses = [np.array(units) for units in ([0, 4, 2, 5, 1], [0, 11, 1], [0, 3, 7, 8, 1])], []
    for caption in captions:
        contexts = net.contexts(torch.from_numpy(caption)[None])[0]
        log_p = (contexts @ net.embedding.weight[3:].T + net.bias[3:]).log_softmax(1)
        losses += [-log_p[i, unit - 3] for i, unit in enumerate(caption[1:-1]) if unit != 2]
    assert perplexity(net, captions).perplexity == pytest.approx(float(torch.stack(losses).mean().exp()), rel=1e-5)
    with pytest.raises(ValueError, match="words that the model knows, have none"):
        perplexity(net, [np.array([0, 2, 1])])


def test_a_file_holds_what_was_trained_and_measured_to_the_last_bit(tmp_path: Path) -> None:
    short = config(epochs=2)
    net = train(new_network(COUNTS, SMALL, short), PATTERN, COUNTS, short, lambda line: None)
    path = tmp_path / "deep" / "model.npz"
    about = save(path, net, UNITS, PATTERN, {"captions": 61})
    units, back = load(path)
    assert (units.names, back.sizes) == (UNITS.names, SMALL)
    assert about["captions"] == 61 and about == read_about(path)
    assert about["perplexity"] == round(perplexity(back, PATTERN).perplexity, 3)
    caption = [0, 4, 2, 5, 7, 1]
    (vectors,), _ = ClozeModel.load(path).network.read([caption], [places_of_units(len(caption))])
    assert np.array_equal(vectors, net.contexts(torch.tensor([caption]))[0].detach().numpy())


@torch.no_grad()
def test_weights_that_cannot_be_exact_are_not_written(tmp_path: Path) -> None:
    net = random_network()
    net.query.weight[3] = 1000.0
    with pytest.raises(ValueError, match=r"query\.weight row 3 must sum to at most 4096"):
        save(tmp_path / "model.npz", net, UNITS, [], {})


@torch.no_grad()
def test_a_larger_vocabulary_is_read_as_before() -> None:
    net = random_network().eval()
    new = Units((*UNITS.names, "zebra", "a zebra"))
    counts = np.append(COUNTS, [10, 5])
    larger = network.enlarged(net, UNITS, new, counts).eval()
    unknown, zebra, phrase = UNITS.number[UNKNOWN], new.number["zebra"], new.number["a zebra"]
    before = net.contexts(torch.tensor([[0, 3, unknown, 4, 1]]))
    assert torch.equal(larger.contexts(torch.tensor([[0, 3, zebra, 4, 1]])), before)
    weights = net.embedding.weight
    torch.testing.assert_close(larger.embedding.weight[phrase], (weights[3] + weights[unknown]) / 2)
    assert float(larger.bias[zebra].exp()) == pytest.approx(10 / counts[3:].sum())
    assert torch.equal(network.enlarged(net, UNITS, UNITS, COUNTS).bias, net.bias)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """The command sets the number of threads of its process."""
    number = torch.get_num_threads()
    yield
    torch.set_num_threads(number)


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command for a small model, without its output; it is measured on captions held out."""
    apart = tmp_path_factory.mktemp("held-out") / "apart.txt"
    held_out = lines(apart, "A dog sleeps on a red sofa.", "Two men play in a park.")
    sizes = "--words 16 --states 16 --hidden 16 --heads 2 --epochs 1 --batch 32".split()
    return ["cloze", str(SAMPLE), "--source", "our own captions", "--held-out", held_out, *sizes, "--output"]


@pytest.fixture(scope="module")
def model(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cloze") / "model.npz"
    assert main([*command, str(path)]) == 0
    return path


def test_the_same_input_gives_the_same_bytes_which_say_what_they_were_made_from(model, command, tmp_path, capsys):
    again = tmp_path / "model.npz"
    assert main([*command, str(again)]) == 0
    shown = capsys.readouterr()
    assert shown.out == "" and "epoch 1: perplexity" in shown.err
    assert again.read_bytes() == model.read_bytes()
    about = read_about(model)
    assert (about["source"], about["captions"], about["held_out"]) == ("our own captions", 550, "apart.txt")
    assert about["training"]["seed"] == 1 and about["continues"] is None
    assert str(model.parent.parent) not in str(about)
    held_out = command.index("--held-out")  # without them a model is centred on what it was trained on
    assert main([*command[:held_out], *command[held_out + 2 :], str(again), "--seed", "2"]) == 0
    assert read_model(again)[1]["embedding.weight"].tobytes() != read_model(model)[1]["embedding.weight"].tobytes()
    units, net = load(again)
    assert (
        abs(perplexity(net, corpus.encode(corpus.tokenise(read_source(str(SAMPLE)).texts), units)).mean_log_sum) < 0.003
    )


def test_a_model_is_continued_on_other_captions(model: Path, tmp_path: Path) -> None:
    new = lines(tmp_path / "new.txt", *[f"A zebra stands beside a zebra in field {i}." for i in range(8)])
    other = lines(tmp_path / "other.txt", "A zebra stands beside a zebra.")
    known, _ = read_model(model)
    assert known.number_of("zebra") is None
    more, reached = tmp_path / "more.npz", []
    for epochs in ("1", "6"):
        given = ["--continue", str(model), "--held-out", other, "--output", str(more), "--epochs", epochs]
        assert main(["cloze", new, *given]) == 0
        reached.append(read_about(more)["perplexity"])
    units, arrays = read_model(more)
    assert units.names[: len(known.names)] == known.names and units.number_of("zebra") is not None
    assert arrays["query.bias"].shape == (16,)
    assert reached[1] < reached[0]
    about = read_about(more)
    assert about["continues"] == read_about(model) and about["training"]["learning_rate"] == 5e-4


def test_bad_input_is_answered_in_one_line(model, tmp_path, capsys, monkeypatch):
    rare = lines(tmp_path / "rare.txt", "Every word once only.")
    for arguments, message in (
        ("absent.json", "no such file"),
        (f"{SAMPLE} --continue {SAMPLE}", "must be a cloze model"),
        (f"{SAMPLE} --continue {model} --states 8", "--states must not be given with --continue"),
        (rare, "a word must occur at least 4 times"),
        (f"{SAMPLE} --held-out {SAMPLE}", "the captions held out must differ"),
        (f"{SAMPLE} --states 9 --heads 2", "states must be a multiple of heads"),
        (rare, 'pip install "negcap[train]"'),
    ):
        if "pip" in message:
            monkeypatch.setitem(sys.modules, "torch", None)
        assert main(["cloze", "--output", str(tmp_path / "none.npz"), *arguments.split()]) == 2, message
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.startswith("cloze: ") and message in last
    assert not (tmp_path / "none.npz").exists()


@torch.no_grad()
def test_a_surrogate_estimates_by_its_formula() -> None:
    net, rng = surrogate.SurrogateNetwork(4, 5, 2.0, SurrogateConfig(width=6, shares=3)), np.random.default_rng(0)
    embedding, units, changes = torch.randn(9, 4), np.array([1, 4, 2]), rng.integers(-99, 99, (2, 2, 5))
    vectors = rng.normal(size=(3, 4)).astype(np.float32)
    caption = surrogate.ReplacedPlace(vectors, units, 1, np.zeros((2, 3)), changes.astype(np.int16))
    losses, replacement = net([caption, caption], embedding)
    assert replacement.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    known = torch.cat([torch.from_numpy(vectors), embedding[units] / 2.0], 1)
    for number, (index, place) in enumerate((index, place) for index in range(2) for place in range(3)):
        context = net.context(torch.cat([known[place], known[1]])) + net.distance.weight[place - 1 + FARTHEST]
        share = net.share(nn.functional.gelu(context, approximate="tanh"))
        side = int(place > 1)  # the forward GRU has seen the change
        change = torch.from_numpy(changes[side, index]).float() * 2.0 ** (1 - STATE)
        expected = share @ (net.after if side else net.before)(change)
        torch.testing.assert_close(losses[[number, number + 6]], expected.expand(2))


def test_a_surrogate_is_fitted_and_written_beside_the_model(tmp_path: Path) -> None:
    captions = lines(tmp_path / "captions.txt", *sample_parses()["text"].to_pylist()[:50])
    small = SurrogateConfig(captions=40, epochs=2, batch=20, width=16, shares=8)
    shipped, output = data_path("cloze") / "model.npz", tmp_path / "own.npz"
    surrogate.fit_to([captions], shipped, output, None, small)
    own, about = ClozeModel.load(output), read_about(output)["surrogate"]
    assert about["captions"] == 40 and 0.3 < about["correlation"] <= 1
    texts = parse(["A dog on a couch."])
    encoded = plausibility.encode_captions(texts, own)
    cat = [Row("noun", (Edit(2, 5, "cat"),), (1,), "dog", "cat")]
    (estimated,), (read,) = (how(texts, encoded, cat) for how in (plausibility.compare, plausibility.read_and_compare))
    assert estimated != read and estimated.lowest == pytest.approx(read.lowest, abs=5)
    with pytest.raises(ValueError, match="20 places or more"):
        surrogate.fit_to([lines(tmp_path / "few.txt", "A dog.")], shipped, output, None, small)
