import math
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from negcap.pipelines.models.captioner.config import CaptionerConfig
from negcap.pipelines.models.captioner.losses import (
    discriminator_loss,
    likelihood_loss,
    mean_of_others,
    policy_loss,
    sample_with_values,
)
from negcap.pipelines.models.captioner.model import FORBIDDEN, Discriminator, Generator, PaddedSentences
from negcap.pipelines.models.vocabulary import END_ID, UNKNOWN_ID

WORDS, MAX_WORDS = 7, 4  # the four specials and three words
ROWS, PARTS = 5_000, 30


def tiny(seed: int = 0) -> Generator:
    torch.manual_seed(seed)
    generator = Generator(3, WORDS, word_dim=4, hidden=5, noise=2, dropout=0.5).eval()
    with torch.no_grad():
        for parameter in generator.parameters():
            parameter *= 2  # so that words depend on those before them
    return generator


def every_sentence() -> PaddedSentences:
    """All sentences a generator can write: words up to <end>, or MAX_WORDS words."""
    free = [word for word in range(WORDS) if word not in (*FORBIDDEN, END_ID)]
    ended = [(*words, END_ID) for n in range(MAX_WORDS) for words in product(free, repeat=n)]
    made = ended + list(product(free, repeat=MAX_WORDS))
    lengths = torch.tensor([len(words) for words in made])
    return PaddedSentences(torch.tensor([words + (0,) * (MAX_WORDS - len(words)) for words in made]), lengths)


def worth(sentences: PaddedSentences) -> Tensor:
    """A reward that depends on all words and their order."""
    weights = torch.linspace(0.3, 1.7, MAX_WORDS)
    return ((sentences.words.float() * weights * sentences.mask).sum(1) * 1.3).sin() * 0.5 + 0.5


def reward(sentences: PaddedSentences, row: Tensor) -> Tensor:
    assert len(sentences.words) == len(row)
    return worth(sentences)


def gradients(generator: Generator, loss: Tensor) -> Tensor:
    return torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, list(generator.parameters()))])


def first_state(generator: Generator, rows: int):  # type: ignore[no-untyped-def]
    return generator.first_state(
        torch.tensor([[0.5, -1.0, 2.0]]).expand(rows, 3), torch.tensor([[0.1, -0.7]]).expand(rows, 2)
    )


def expected_reward(generator: Generator) -> Tensor:
    sentences = every_sentence()
    chance = generator(first_state(generator, len(sentences.words)), sentences).log_probs.sum(1).exp()
    assert chance.sum().item() == pytest.approx(1, abs=1e-5)  # the policy writes these and nothing else
    return (chance * worth(sentences)).sum()


@pytest.mark.parametrize(
    "positions, rollouts, compared",
    [((), 0, False), ((1, 2, 3), 1, False), ((2,), 3, False), ((1, 2, 3), 2, True)],
    ids=["the sentence's own reward", "every prefix", "one prefix", "with a baseline"],
)
def test_the_policy_gradient_is_that_of_the_expected_reward(
    positions: tuple[int, ...], rollouts: int, compared: bool
) -> None:
    generator = tiny()
    exact = -gradients(generator, expected_reward(generator))
    noise = torch.Generator().manual_seed(1)
    estimates = []
    for _ in range(PARTS):
        uniforms = torch.rand(ROWS, MAX_WORDS, generator=noise, dtype=torch.double)
        state = first_state(generator, ROWS)
        sentences, values, own = sample_with_values(generator, state, uniforms, reward, positions, rollouts, noise)
        read = generator(state, sentences)
        level = mean_of_others(values) if compared else torch.zeros_like(values)
        estimates.append(gradients(generator, policy_loss(read, values, level)))
    each = torch.stack(estimates)
    error = (each.var(0).sum() / PARTS).sqrt()  # the standard error of the mean over parts
    assert error < 0.1 * exact.norm()
    assert (each.mean(0) - exact).norm() < 1.5 * error


def test_a_word_has_the_value_of_the_next_rollout_position() -> None:
    generator, noise = tiny(), torch.Generator().manual_seed(3)
    state, uniforms = first_state(generator, 400), torch.rand(400, MAX_WORDS, generator=noise, dtype=torch.double)
    sentences, values, own = sample_with_values(generator, state, uniforms, reward, (2,), 50, noise)
    long = sentences.lengths > 2
    assert long.any() and not long.all()
    assert torch.equal(values[~long], own[~long, None].expand(-1, MAX_WORDS))
    assert torch.equal(values[long, 0], values[long, 1])
    assert torch.equal(values[long, 2:], own[long, None].expand(-1, 2))
    without = sample_with_values(generator, state, uniforms, reward, (), 0, noise)[0]
    assert torch.equal(sentences.words, without.words)
    everything = every_sentence()
    chance = generator(first_state(generator, len(everything.words)), everything).log_probs.sum(1).exp()
    prefix = sentences.words[long][0, :2]
    same = (everything.words[:, :2] == prefix).all(1)
    exact = (chance * worth(everything))[same].sum() / chance[same].sum()
    mine = (sentences.words[:, :2] == prefix).all(1) & long
    assert values[mine, 0].mean().item() == pytest.approx(exact.item(), abs=0.03)


def test_the_baseline_is_the_mean_value_of_the_others() -> None:
    values = torch.tensor([[1.0, 4.0], [2.0, 8.0], [6.0, 0.0]])
    assert mean_of_others(values).tolist() == [[4.0, 4.0], [3.5, 2.0], [1.5, 6.0]]
    assert mean_of_others(values[:1]).tolist() == [[0.0, 0.0]]


def test_likelihood_leaves_out_unknown_words() -> None:
    generator = tiny()
    words = torch.tensor([[4, UNKNOWN_ID, 5, END_ID], [6, END_ID, 0, 0]])
    sentences = PaddedSentences(words, torch.tensor([4, 2]))
    read = generator(first_state(generator, 2), sentences)
    known = sentences.mask & (words != UNKNOWN_ID)
    assert likelihood_loss(read, sentences).item() == pytest.approx(-read.log_probs[known].mean().item())
    assert (read.log_probs[~known] == 0).all() and (read.entropy[known] > 0).all()
    assert (read.entropy <= math.log(WORDS - len(FORBIDDEN)) + 1e-5).all()


def test_discriminator_loss_is_equation_4() -> None:
    real, made, other = torch.tensor([0.3, -0.2]), torch.tensor([0.1, 0.9]), torch.tensor([-0.4])
    s = torch.sigmoid
    by_hand = -s(real).log().mean() - 0.5 * (1 - s(made)).log().mean() - 0.25 * (1 - s(other)).log().mean()
    assert discriminator_loss(real, made, other, 0.5, 0.25).item() == pytest.approx(by_hand.item(), rel=1e-6)
    config = CaptionerConfig(run=Path(), output=Path())
    assert (config.alpha, config.beta) == (1, 1)


def test_the_discriminator_scores_unit_vectors_and_ignores_padding() -> None:
    torch.manual_seed(0)
    net = Discriminator(3, WORDS, word_dim=4, joint=6)
    short = PaddedSentences(torch.tensor([[4, 5, END_ID]]), torch.tensor([3]))
    padded = PaddedSentences(torch.tensor([[4, 5, END_ID, 0, 0], [6, 6, 6, 6, END_ID]]), torch.tensor([3, 5]))
    image = net.images(torch.tensor([[10.0, -3.0, 4.0]]))
    assert image.norm().item() == pytest.approx(1, rel=1e-6) and net.sentences(short).norm().item() == pytest.approx(1)
    assert net(image, short).item() == pytest.approx(net(image.expand(2, -1), padded)[0].item(), abs=1e-6)
    assert net(image, short).item() == pytest.approx((image @ net.sentences(short).T).item(), abs=1e-6)
