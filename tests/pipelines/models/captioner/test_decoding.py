import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from negcap.pipelines.models.captioner.generate import (
    beam_search,
    caption_noise,
    complete,
    degeneracy,
    detokenize,
    empty_sentences,
    join_words,
    normalize,
    sample_sentences,
    stream_keys,
)
from negcap.pipelines.models.captioner.model import FORBIDDEN, Generator, PaddedSentences
from negcap.pipelines.models.vocabulary import END_ID, PAD_ID, SPECIALS, START_ID, WordVocabulary
from negcap.schemas.captions import CAPTION_REASONS
from tests.pipelines.models.captioner.test_losses import MAX_WORDS, WORDS, every_sentence, tiny

ROWS = 5


def given(rows: int = ROWS) -> tuple[Tensor, Tensor]:
    torch.manual_seed(5)
    return torch.randn(rows, 3), torch.randn(rows, 2)


def likelihood(generator: Generator, features: Tensor, noise: Tensor, sentences: PaddedSentences) -> Tensor:
    return generator(generator.first_state(features, noise), sentences).log_probs.sum(1)


def test_a_step_equals_torchs_lstm() -> None:
    generator, (features, noise) = tiny(), given()
    state, words = generator.first_state(features, noise), torch.tensor([4, 5, 6, 2, 4])
    scores, after = generator.step(state, words)
    output, (hidden, cell) = generator.lstm(generator.embedding(words)[None], (state.hidden[None], state.cell[None]))
    assert torch.allclose(after.hidden, hidden[0], atol=1e-6) and torch.allclose(after.cell, cell[0], atol=1e-6)
    allowed = [word for word in range(WORDS) if word not in FORBIDDEN]
    assert torch.allclose(scores[:, allowed], generator.out(output[0])[:, allowed], atol=1e-5)
    assert (scores[:, list(FORBIDDEN)] == -torch.inf).all()


def test_a_wide_beam_finds_the_likeliest_sentence_and_a_narrow_one_is_greedy() -> None:
    generator, (features, noise) = tiny(), given()
    found = beam_search(generator, features, noise, MAX_WORDS, 200)
    everything = every_sentence()
    for row in range(ROWS):
        rows = len(everything.words)
        means = likelihood(generator, features[row].expand(rows, -1), noise[row].expand(rows, -1), everything)
        assert torch.equal(found.words[row], everything.words[(means / everything.lengths).argmax()])
    greedy = beam_search(generator, features, noise, MAX_WORDS, 1)
    state, last = generator.first_state(features, noise), torch.full((ROWS,), START_ID)
    unfinished = torch.ones(ROWS, dtype=torch.bool)
    for words in greedy.words.T:
        logits, state = generator.step(state, last)
        last = logits.argmax(1)
        assert torch.equal(words, last.where(unfinished, PAD_ID))
        unfinished &= last != END_ID


def test_samples_occur_as_often_as_the_policy_says() -> None:
    generator, rows = tiny(), 60_000
    features, noise = (part.expand(rows, -1) for part in given(1))
    uniforms = torch.rand(rows, MAX_WORDS, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    sentences = sample_sentences(generator, features, noise, uniforms)
    everything = every_sentence()
    count = len(everything.words)
    chance = likelihood(generator, features[:count], noise[:count], everything).exp()
    place = torch.tensor([WORDS**n for n in range(MAX_WORDS)])
    numbers = torch.bincount((sentences.words * place).sum(1), minlength=WORDS**MAX_WORDS)
    found = numbers[(everything.words * place).sum(1)]
    assert int(found.sum()) == rows  # no other sentence is written
    assert (found / rows - chance).abs().max() < 4 * (0.25 / rows) ** 0.5


def test_a_sentence_does_not_depend_on_its_batch_and_prefixes_are_continued() -> None:
    generator, (features, noise) = tiny(), given(50)
    uniforms = torch.rand(50, MAX_WORDS, dtype=torch.double)
    whole = sample_sentences(generator, features, noise, uniforms)
    alone = sample_sentences(generator, features[7:9], noise[7:9], uniforms[7:9])
    assert torch.equal(whole.words[7:9], alone.words)
    empty, first = empty_sentences(50, MAX_WORDS, torch.device("cpu")), generator.first_state(features, noise)
    ((position, rows, state),) = complete(generator, first, empty, uniforms, [2])[1]
    assert position == 2
    words = whole.words[rows].clone()
    words[:, 2:] = 0
    again, _ = complete(generator, state, PaddedSentences(words, torch.full((len(rows),), 2)), uniforms[rows])
    assert torch.equal(again.words, whole.words[rows]) and torch.equal(again.lengths, whole.lengths[rows])


def test_noise_depends_only_on_name_seed_and_number() -> None:
    names, number = [f"image{n}" for n in range(2000)], np.zeros(2000, np.uint64)
    noise, uniforms = caption_noise(stream_keys(0, names), number, 4, 3)
    assert noise.shape == (2000, 4) and uniforms.shape == (2000, 3)
    assert abs(noise.mean().item()) < 0.05 and noise.std().item() == pytest.approx(1, abs=0.03)
    assert uniforms.mean().item() == pytest.approx(0.5, abs=0.02) and 0 < uniforms.min() and uniforms.max() < 1
    assert torch.corrcoef(torch.cat([noise.double(), uniforms], 1).T).fill_diagonal_(0).abs().max() < 0.1
    some, _ = caption_noise(stream_keys(0, names[40:42]), number[:2], 4, 3)
    assert torch.equal(some, noise[40:42])
    for seed, numbers in ((1, number), (0, number + np.uint64(1))):
        other, _ = caption_noise(stream_keys(seed, names), numbers, 4, 3)
        assert abs(torch.corrcoef(torch.stack([other[:, 0], noise[:, 0]]))[0, 1]) < 0.1


TEXTS = {
    "a dog runs on the grass .": "",
    "a dog , a cat and a dog .": "",
    "a red ball and a red box .": "",
    "a dog runs on the": "unfinished",
    "a <unk> runs on the grass .": "unknown_word",
    "a dog .": "too_short",
    "a dog runs runs on the grass": "repeated_word",
    "a dog in the water in the water": "repeated_phrase",
    "a dog on the grass and a dog on the grass": "repeated_phrase",
    "two dogs and dogs and dogs": "repeated_phrase",
}


def test_degenerate_sentences_have_a_reason() -> None:
    words = sorted({word for text in TEXTS for word in text.split()} - set(SPECIALS))
    vocabulary = WordVocabulary((*SPECIALS, *words))
    ids = [[vocabulary.ids[word] for word in text.split()] for text in TEXTS]
    ids = [row if why == "unfinished" else [*row, END_ID] for row, why in zip(ids, TEXTS.values(), strict=True)]
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in ids], batch_first=True)
    sentences = PaddedSentences(padded, torch.tensor([*map(len, ids)]))
    reasons = ["" if n == 0 else CAPTION_REASONS[n - 1] for n in degeneracy(sentences).tolist()]
    assert dict(zip(TEXTS, reasons, strict=True)) == TEXTS
    assert join_words(sentences, vocabulary).to_pylist() == list(TEXTS)


def test_captions_are_written_as_people_write_them_and_compared_by_their_letters() -> None:
    written = {
        "a dog runs .": "A dog runs.",
        "the boy 's dog does n't run , it sits": "The boy's dog doesn't run, it sits",
        "two dogs ' toys": "Two dogs' toys",
    }
    assert detokenize(pa.array(list(written))).to_pylist() == list(written.values())
    compared = {"A dog's ball .": "a dog s ball", "a  dog's ball": "a dog s ball", "Un café, à 2 !": "un café à 2"}
    assert normalize(pa.array(list(compared))).to_pylist() == list(compared.values())
