"""The loss, the schedule and the measures of the cloze model's training, and its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from negcap.augment.cloze.file import read_about
from negcap.augment.cloze.model import ClozeModel
from negcap.augment.cloze.units import SPECIAL, UNKNOWN, Units
from negcap.pipelines.resources.cloze.model import enlarged, load, perplexity, save
from negcap.pipelines.resources.cloze.network import Cloze, Sizes
from negcap.pipelines.resources.cloze.train import (
    TrainingConfig,
    batches,
    drawing,
    new_network,
    rate,
    sampled_loss,
    train,
)

SMALL = Sizes(words=8, states=8, hidden=12, heads=2)
UNITS = Units((*SPECIAL, *"abcdefgh", "a b"))
COUNTS = np.array([60, 60, 3, 30, 30, 20, 20, 20, 20, 5, 1, 4])


def pattern(n: int = 60) -> list[np.ndarray]:
    """Captions "a b c d" and "a b c d e f", in which every word tells the next, and one that has only UNKNOWN."""
    return [np.array([0, *range(3, 7 + 2 * (i % 2)), 1], np.int32) for i in range(n)] + [np.array([0, 2, 1], np.int32)]


def config(**given: float) -> TrainingConfig:
    return TrainingConfig(**{"epochs": 30, "batch": 8, "learning_rate": 2e-2, "half": False, **given})  # type: ignore[arg-type]


def random_network(seed: int = 1) -> Cloze:
    return new_network(COUNTS, SMALL, TrainingConfig(seed=seed, dropout=0.0))


def trained(**given: float) -> Cloze:
    return train(new_network(COUNTS, SMALL, config(**given)), pattern(), COUNTS, config(**given), lambda line: None)


@torch.no_grad()
def test_with_all_units_drawn_the_loss_is_that_of_the_softmax() -> None:
    net = random_network()
    contexts, targets = torch.randn(20, 8), torch.randint(3, 12, (20,))
    everything = torch.arange(3, 12)
    loss, normal = sampled_loss(net, contexts, targets, everything, torch.zeros(12))
    logits = contexts @ net.embedding.weight[3:].T + net.bias[3:]
    torch.testing.assert_close(loss, nn.functional.cross_entropy(logits, targets - 3))
    torch.testing.assert_close(normal, logits.logsumexp(1).square().mean())


@torch.no_grad()
def test_the_sum_of_probabilities_is_estimated_without_bias() -> None:
    net, how = random_network(), drawing(COUNTS, 4)
    context, generator = torch.randn(1, 8), torch.Generator().manual_seed(1)
    target = torch.tensor([5])
    exact = (context @ net.embedding.weight[3:].T + net.bias[3:]).exp().sum()
    score = (context @ net.vectors[target].T + net.bias[target])[0, 0]
    losses = [sampled_loss(net, context, target, how.draw(generator), how.log_chance)[0] for _ in range(4000)]
    sums = (torch.stack(losses) + score).exp()  # the loss is the log of the sum, less the score
    assert sums.std() > 0.1 * exact
    assert float(sums.mean() / exact) == pytest.approx(1, abs=0.05)


def test_units_are_drawn_as_often_as_their_chance_says() -> None:
    how, generator = drawing(COUNTS, 4), torch.Generator().manual_seed(1)
    times = torch.zeros(12)
    for _ in range(4000):
        times[how.draw(generator)] += 1
    chance = how.log_chance[3:].exp()
    assert times[:3].sum() == 0
    assert float(chance.sum()) == pytest.approx(4, abs=1e-3)
    torch.testing.assert_close(times[3:] / 4000, chance, rtol=0, atol=0.03)
    torch.testing.assert_close(how.rates[3:] / how.rates[3], torch.from_numpy((COUNTS[3:] / 30) ** 0.75))
    whole = drawing(COUNTS, 2000)
    assert whole.draw(generator).tolist() == list(range(3, 12)) and whole.log_chance[3:].abs().max() < 1e-6


def test_batches_hold_every_caption_once() -> None:
    made = batches(pattern(), 8, np.random.default_rng(1))
    assert sorted(row.tobytes() for batch in made for row in batch) == sorted(row.tobytes() for row in pattern())
    assert {batch.shape[1]: len(batch) for batch in made}.keys() == {3, 6, 8}
    again, other = (batches(pattern(), 8, np.random.default_rng(seed)) for seed in (1, 2))
    assert [batch.shape for batch in made] == [batch.shape for batch in again] != [batch.shape for batch in other]


def test_the_learning_rate_rises_and_falls() -> None:
    rates = [rate(step, 10_000, 500) for step in (0, 249, 499, 500, 5_250, 9_999)]
    assert rates == pytest.approx([1 / 500, 0.5, 1, 1, 0.5, 1 / 9_500])
    assert rate(9, 100, 500) == pytest.approx(1)  # a tenth of all steps
    assert rate(0, 1, 500) == 1


def test_training_learns_what_stands_where() -> None:
    untrained, _ = perplexity(random_network(), pattern())
    reached: list[float] = []
    net = train(
        random_network(), pattern(), COUNTS, config(), lambda line: None,
        lambda net, epoch: reached.append(perplexity(net, pattern())[0]),
    )  # fmt: skip
    last, log_sum = perplexity(net, pattern())
    assert len(reached) == 30 and reached[-1] == last
    assert untrained > 5 > 2 > last
    assert abs(log_sum) < 0.5


def test_the_perplexity_is_that_of_the_softmax_over_known_words() -> None:
    net = random_network().eval()
    captions = [np.array([0, 4, 2, 5, 1]), np.array([0, 11, 1]), np.array([0, 3, 7, 8, 1])]
    losses = []
    with torch.no_grad():
        for caption in captions:
            contexts = net.contexts(torch.from_numpy(caption)[None])[0]
            logits = contexts @ net.embedding.weight[3:].T + net.bias[3:]
            logs = logits.log_softmax(1)
            losses += [-logs[i, unit - 3] for i, unit in enumerate(caption[1:-1]) if unit != 2]
    assert perplexity(net, captions)[0] == pytest.approx(float(torch.stack(losses).mean().exp()), rel=1e-5)
    with pytest.raises(ValueError, match="words that the model knows, have none"):
        perplexity(net, [np.array([0, 2, 1])])


def test_the_same_seed_gives_the_same_weights_and_leaves_other_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second, other = (trained(epochs=2, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    weights, again, different = (net.state_dict() for net in (first, second, other))
    assert all(torch.equal(value, again[name]) for name, value in weights.items())
    assert not torch.equal(weights["embedding.weight"], different["embedding.weight"])


@pytest.mark.parametrize("name", ["epochs", "batch", "samples", "learning_rate", "fixed_point"])
def test_a_schedule_that_trains_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        TrainingConfig(**{name: -1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="states must be a multiple of heads, was: 9 states, 2 heads"):
        Cloze(5, Sizes(states=9, heads=2))


def test_a_file_holds_what_was_trained_and_measured(tmp_path: Path) -> None:
    net = trained(epochs=2)
    about = save(tmp_path / "deep" / "model.npz", net, UNITS, pattern(), {"captions": 61})
    units, back = load(tmp_path / "deep" / "model.npz")
    assert (units.names, back.sizes) == (UNITS.names, SMALL)
    assert about["captions"] == 61 and about == read_about(tmp_path / "deep" / "model.npz")
    assert about["perplexity"] == round(perplexity(back, pattern())[0], 3)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["model.npz"]
    assert "perplexity" not in save(tmp_path / "other.npz", net, UNITS, [], {})


def test_what_is_written_is_read_to_the_last_bit(tmp_path: Path) -> None:
    net, caption = trained(epochs=2).eval(), [0, 4, 2, 5, 7, 1]
    save(tmp_path / "model.npz", net, UNITS, [], {})
    model = ClozeModel.load(tmp_path / "model.npz")
    vectors, _ = model.network.read([caption], [[(i - 1, i + 1) for i in range(1, 5)]])[0]
    with torch.no_grad():
        assert np.array_equal(vectors, net.contexts(torch.tensor([caption]))[0].numpy())


def test_training_with_rounding_in_the_loop_learns_as_much() -> None:
    """Small units in a small network: rounded after training, it is worse than if it was trained so."""
    after, within = trained(fixed_point=0), trained(fixed_point=15)
    after.fixed_point = within.fixed_point = True
    assert perplexity(within, pattern())[0] < 1.05 * perplexity(after, pattern())[0]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("query.weight", 1000.0, "query.weight row 3 must sum to at most 4096"),
        ("bias", 1e6, "bias must be finite"),  # more than half precision can express
    ],
)
def test_weights_that_cannot_be_exact_are_not_written(tmp_path: Path, name: str, value: float, message: str) -> None:
    net = random_network()
    with torch.no_grad():
        net.get_parameter(name)[3] = value
    with pytest.raises(ValueError, match=message):
        save(tmp_path / "model.npz", net, UNITS, [], {})
    assert not list(tmp_path.iterdir())


@torch.no_grad()
def test_a_larger_vocabulary_is_read_as_before() -> None:
    net = random_network().eval()
    new = Units((*UNITS.names, "zebra", "a zebra"))
    counts = np.append(COUNTS, [10, 5])
    larger = enlarged(net, UNITS, new, counts).eval()
    unknown, zebra, phrase = UNITS.number[UNKNOWN], new.number["zebra"], new.number["a zebra"]
    before = net.contexts(torch.tensor([[0, 3, unknown, 4, 1]]))
    assert torch.equal(larger.contexts(torch.tensor([[0, 3, zebra, 4, 1]])), before)
    weights = net.embedding.weight
    assert torch.equal(larger.embedding.weight[: len(UNITS.names)], weights)
    torch.testing.assert_close(larger.embedding.weight[phrase], (weights[3] + weights[unknown]) / 2)
    assert float(larger.bias[zebra].exp()) == pytest.approx(10 / counts[3:].sum())
    assert torch.equal(enlarged(net, UNITS, UNITS, COUNTS).bias, net.bias)
