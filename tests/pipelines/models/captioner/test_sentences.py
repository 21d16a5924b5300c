"""Sentences: how they are scored and decoded, the losses of the nets, and measures of captions."""

import math
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from negcap.pipelines.models.captioner import generate, train
from negcap.pipelines.models.captioner.evaluate import bleu, cider_d, distinct, self_bleu
from negcap.pipelines.models.captioner.model import FORBIDDEN, Discriminator, Generator, LSTMState, PaddedSentences
from negcap.pipelines.models.vocabulary import END_ID, PAD_ID, SPECIALS, START_ID, UNKNOWN_ID, WordVocabulary
from negcap.schemas.captions import CAPTION_REASONS

WORDS, MAX_WORDS = 7, 4  # the four specials and three words
ROWS, PARTS = 2_000, 20


@pytest.fixture
def generator() -> Generator:
    torch.manual_seed(0)
    generator = Generator(3, WORDS, word_dim=4, hidden=5, noise=2, dropout=0.5).eval()
    with torch.no_grad():
        for parameter in generator.parameters():
            parameter *= 2  # so that words depend on those before them
    return generator


def every_sentence() -> PaddedSentences:
    """All sentences a generator can write: words up to <end>, or MAX_WORDS words."""
    free = [word for word in range(WORDS) if word not in (*FORBIDDEN, END_ID)]
    ended = [(*words, END_ID) for n in range(MAX_WORDS) for words in product(free, repeat=n)]
    sentences = ended + list(product(free, repeat=MAX_WORDS))
    lengths = torch.tensor([len(words) for words in sentences])
    return PaddedSentences(torch.tensor([words + (0,) * (MAX_WORDS - len(words)) for words in sentences]), lengths)


def reward(sentences: PaddedSentences, row: Tensor | None = None) -> Tensor:
    """A reward that depends on all words and their order."""
    weights = torch.linspace(0.3, 1.7, MAX_WORDS)
    return ((sentences.words.float() * weights * sentences.mask).sum(1) * 1.3).sin() * 0.5 + 0.5


def gradients(generator: Generator, loss: Tensor) -> Tensor:
    return torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, list(generator.parameters()))])


def first_state(generator: Generator, rows: int) -> LSTMState:
    features, noise = torch.tensor([[0.5, -1.0, 2.0]]), torch.tensor([[0.1, -0.7]])
    return generator.first_state(features.expand(rows, 3), noise.expand(rows, 2))


def chances(generator: Generator, sentences: PaddedSentences) -> Tensor:
    return generator(first_state(generator, len(sentences.words)), sentences).sum(1).exp()


@pytest.mark.parametrize(
    "positions, rollouts, compared",
    [((), 0, False), ((2,), 3, False), ((1, 2, 3), 2, True)],
    ids=["the sentence's own reward", "one prefix", "every prefix, with a baseline"],
)
def test_the_policy_gradient_is_that_of_the_expected_reward(generator, positions, rollouts, compared):
    chance = chances(generator, every_sentence())
    assert chance.sum().item() == pytest.approx(1, abs=1e-5)  # the policy writes these and nothing else
    exact = -gradients(generator, (chance * reward(every_sentence())).sum())
    noise = torch.Generator().manual_seed(1)
    estimates = []
    for _ in range(PARTS):
        uniforms = torch.rand(ROWS, MAX_WORDS, generator=noise, dtype=torch.double)
        state = first_state(generator, ROWS)
        sentences, values, _ = train.sample_with_values(generator, state, uniforms, reward, positions, rollouts, noise)
        baseline = train.mean_of_others(values) if compared else torch.zeros_like(values)
        estimates.append(gradients(generator, train.policy_loss(generator(state, sentences), values, baseline)))
    each = torch.stack(estimates)
    error = (each.var(0).sum() / PARTS).sqrt()  # the standard error of the mean over parts
    assert error < 0.15 * exact.norm()
    assert (each.mean(0) - exact).norm() < 1.5 * error


def test_likelihood_leaves_out_unknown_words(generator: Generator) -> None:
    words = torch.tensor([[4, UNKNOWN_ID, 5, END_ID], [6, END_ID, 0, 0]])
    sentences = PaddedSentences(words, torch.tensor([4, 2]))
    log_probs = generator(first_state(generator, 2), sentences)
    known = sentences.mask & (words != UNKNOWN_ID)
    assert train.likelihood_loss(log_probs, sentences).item() == pytest.approx(-log_probs[known].mean().item())


def test_discriminator_loss_is_equation_4() -> None:
    real, generated, other = torch.tensor([0.3, -0.2]), torch.tensor([0.1, 0.9]), torch.tensor([-0.4])
    s = torch.sigmoid
    by_hand = -s(real).log().mean() - 0.5 * (1 - s(generated)).log().mean() - 0.25 * (1 - s(other)).log().mean()
    assert train.discriminator_loss(real, generated, other, 0.5, 0.25).item() == pytest.approx(by_hand.item(), rel=1e-6)


def test_the_discriminator_ignores_padding() -> None:
    torch.manual_seed(0)
    net = Discriminator(3, WORDS, word_dim=4, joint=6)
    short = PaddedSentences(torch.tensor([[4, 5, END_ID]]), torch.tensor([3]))
    padded = PaddedSentences(torch.tensor([[4, 5, END_ID, 0, 0], [6, 6, 6, 6, END_ID]]), torch.tensor([3, 5]))
    image = net.images(torch.tensor([[10.0, -3.0, 4.0]]))
    assert net(image, short).item() == pytest.approx(net(image.expand(2, -1), padded)[0].item(), abs=1e-6)


def features_and_noise(rows: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(5)
    return torch.randn(rows, 3), torch.randn(rows, 2)


def test_a_wide_beam_finds_the_likeliest_sentence_and_a_narrow_one_is_greedy(generator: Generator) -> None:
    features, noise = features_and_noise(5)
    widest = generate.beam_search(generator, features, noise, MAX_WORDS, 200)
    everything = every_sentence()
    rows = len(everything.words)
    for row in range(5):
        state = generator.first_state(features[row].expand(rows, -1), noise[row].expand(rows, -1))
        means = generator(state, everything).sum(1) / everything.lengths
        assert torch.equal(widest.words[row], everything.words[means.argmax()])
    state, last = generator.first_state(features, noise), torch.full((5,), START_ID)
    unfinished = torch.ones(5, dtype=torch.bool)
    for words in generate.beam_search(generator, features, noise, MAX_WORDS, 1).words.T:
        logits, state = generator.step(state, last)
        last = logits.argmax(1)
        assert torch.equal(words, last.where(unfinished, PAD_ID))
        unfinished &= last != END_ID


def test_a_sentence_does_not_depend_on_its_batch_and_prefixes_are_continued(generator: Generator) -> None:
    features, noise = features_and_noise(50)
    uniforms = torch.rand(50, MAX_WORDS, dtype=torch.double)
    whole = generate.sample_sentences(generator, features, noise, uniforms)
    alone = generate.sample_sentences(generator, features[7:9], noise[7:9], uniforms[7:9])
    assert torch.equal(whole.words[7:9], alone.words)
    empty, first = generate.empty_sentences(50, MAX_WORDS, torch.device("cpu")), generator.first_state(features, noise)
    (stop,) = generate.complete(generator, first, empty, uniforms, [2]).stops
    words = whole.words[stop.rows].clone()
    words[:, 2:] = 0
    prefixes = PaddedSentences(words, torch.full((len(words),), 2))
    again = generate.complete(generator, stop.state, prefixes, uniforms[stop.rows]).sentences
    assert torch.equal(again.words, whole.words[stop.rows]) and torch.equal(again.lengths, whole.lengths[stop.rows])


def test_noise_depends_only_on_name_seed_and_number() -> None:
    names, number = [f"image{n}" for n in range(2000)], np.zeros(2000, np.uint64)
    noise, uniforms = generate.caption_noise(generate.stream_keys(0, names), number, 4, 3)
    assert abs(noise.mean().item()) < 0.05 and noise.std().item() == pytest.approx(1, abs=0.03)
    assert uniforms.mean().item() == pytest.approx(0.5, abs=0.02) and 0 < uniforms.min() and uniforms.max() < 1
    of_two = generate.caption_noise(generate.stream_keys(0, names[40:42]), number[:2], 4, 3).normal
    assert torch.equal(of_two, noise[40:42])
    of_another_seed = generate.caption_noise(generate.stream_keys(1, names), number, 4, 3).normal
    of_next_number = generate.caption_noise(generate.stream_keys(0, names), number + np.uint64(1), 4, 3).normal
    columns = torch.cat([noise.double(), uniforms, of_another_seed, of_next_number], 1).T
    assert torch.corrcoef(columns).fill_diagonal_(0).abs().max() < 0.1


REASON_OF_TEXT = {
    "a dog runs .": "",  # four words, the fewest
    "a dog , a cat and a dog .": "",
    "a dog runs on the": "unfinished",
    "a <unk> runs on the grass .": "unknown_word",
    "a dog .": "too_short",
    "a dog runs runs on the grass": "repeated_word",
    "a dog in the water in the water": "repeated_phrase",
    "a dog on the grass and a dog on the grass": "repeated_phrase",
    "two dogs and dogs and dogs": "repeated_phrase",
}


def test_degenerate_sentences_have_a_reason() -> None:
    words = sorted({word for text in REASON_OF_TEXT for word in text.split()} - set(SPECIALS))
    vocabulary = WordVocabulary((*SPECIALS, *words))
    ids = [
        [vocabulary.ids[word] for word in text.split()] + ([] if reason == "unfinished" else [END_ID])
        for text, reason in REASON_OF_TEXT.items()
    ]
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in ids], batch_first=True)
    sentences = PaddedSentences(padded, torch.tensor([*map(len, ids)]))
    reasons = ["" if n == 0 else CAPTION_REASONS[n - 1] for n in generate.degeneracy(sentences).tolist()]
    assert dict(zip(generate.join_words(sentences, vocabulary).to_pylist(), reasons, strict=True)) == REASON_OF_TEXT


def test_captions_are_written_as_people_write_them_and_compared_by_their_letters() -> None:
    written = {
        "a dog runs .": "A dog runs.",
        "the boy 's dog does n't run , it sits": "The boy's dog doesn't run, it sits",
    }
    assert generate.detokenize(pa.array(list(written))).to_pylist() == list(written.values())
    compared = {"A dog's ball .": "a dog s ball", "Un café, à 2 !": "un café à 2"}
    assert generate.normalize(pa.array(list(compared))).to_pylist() == list(compared.values())


DOG, CAT = "a dog runs on the grass".split(), "a cat sleeps in the sun".split()


def test_measures_of_sentences() -> None:
    assert distinct([["a", "dog"], ["a", "cat"]], 1) == 3 / 4
    assert distinct([DOG, DOG], 2) == 0.5 and distinct([["a"]], 2) == 0
    assert bleu([DOG], [[CAT, DOG]]) == pytest.approx([100] * 4)
    half = bleu(["a dog runs on a hill".split()], [[DOG]])
    assert half[:2] == pytest.approx([100 * 4 / 6, 100 * math.sqrt(4 / 6 * 3 / 5)])
    assert bleu(["two boats".split()], [[DOG]])[0] == 0
    assert self_bleu([[DOG, CAT]]) < 30 and self_bleu([[DOG]]) == 0
    assert self_bleu([[DOG, CAT], [DOG, DOG]]) == pytest.approx((self_bleu([[DOG, CAT]]) + 100) / 2)


def test_cider_d_equals_a_computation_by_hand() -> None:
    references = [[["red", "ball"]], [["blue", "box"], ["blue", "ball"]]]
    rare = math.log(2)  # the idf of red, blue and box; that of ball is 0
    of_two_references = (rare**2 / (rare * math.hypot(rare, rare)) + 1 + 1) / 2
    # n-grams of one and of two words; there are no longer ones
    scores = cider_d([["red", "ball"], ["blue", "ball"]], references)
    assert scores == pytest.approx([10 / 4 * 2, 10 / 4 * of_two_references])
    longer = cider_d([["red", "ball", "ball"], ["box"]], references)[0]
    assert longer == pytest.approx(10 / 4 * math.exp(-1 / 72) * (1 + 1 / math.sqrt(1 + 1)))
    assert cider_d([["green"], ["green"]], references) == [0, 0]
