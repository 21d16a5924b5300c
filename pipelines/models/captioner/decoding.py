"""Sentences from a generator: sampled, greedy, or by beam search. Loops run over time steps, never over sentences."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..vocabulary import END_ID, PAD_ID, START_ID
from .generator import Generator, LSTMState, PaddedSentences

ChooseWord = Callable[[Tensor, Tensor, Tensor], Tensor]  # logits (b, V), rows (b,), positions (b,) -> words (b,)
OnStep = Callable[
    [int, Tensor, LSTMState], None
]  # step, unfinished rows (b,), their states before the last word was read


def sample_by(uniforms: Tensor) -> ChooseWord:
    """A function that samples words: word t of row b is where the cumulative probability passes uniforms[b, t].

    uniforms: (B, T), numbers in (0, 1).
    """

    def choose(logits: Tensor, rows: Tensor, positions: Tensor) -> Tensor:
        cumulative = logits.softmax(1).cumsum(1)
        at = uniforms[rows, positions].to(cumulative.dtype)[:, None] * cumulative[:, -1:]
        return torch.searchsorted(cumulative, at, right=True)[:, 0].clamp(max=logits.shape[1] - 1)

    return choose


def choose_likeliest(logits: Tensor, rows: Tensor, positions: Tensor) -> Tensor:
    """The words (b,) with the highest logits (b, V): greedy decoding; rows and positions are ignored."""
    return logits.argmax(1)


@torch.no_grad()
def complete(
    generator: Generator,
    state: LSTMState,
    prefixes: PaddedSentences,
    choose: ChooseWord,
    on_step: OnStep = lambda step, rows, state: None,
) -> PaddedSentences:
    """Complete prefixes, each until <end> or until it has T words, the width of `prefixes`.

    state: of the generator after all words of each prefix but the last one; for an empty prefix, before the first word.
    choose: picks the next words. on_step: called before each step, see OnStep. Completed rows take no further part.
    """
    words, lengths = prefixes.words.clone(), prefixes.lengths.clone()
    max_words = words.shape[1]
    rows = (lengths < max_words).nonzero()[:, 0]
    state = state.select(rows)
    for step in range(max_words):
        if not len(rows):
            break
        on_step(step, rows, state)
        positions = lengths[rows]
        last = words[rows, (positions - 1).clamp(min=0)].where(positions > 0, START_ID)
        logits, state = generator.step(state, last)
        chosen = choose(logits, rows, positions)
        words[rows, positions] = chosen
        lengths[rows] = positions + 1
        unfinished = ((chosen != END_ID) & (positions + 1 < max_words)).nonzero()[:, 0]
        rows, state = rows[unfinished], state.select(unfinished)
    return PaddedSentences(words, lengths)


def empty_sentences(rows: int, max_words: int, device: torch.device) -> PaddedSentences:
    """`rows` sentences of 0 words, with room for `max_words` words each."""
    words = torch.full((rows, max_words), PAD_ID, device=device)
    return PaddedSentences(words, torch.zeros(rows, dtype=torch.long, device=device))


def generate_sentences(
    generator: Generator, features: Tensor, noise: Tensor, max_words: int, choose: ChooseWord
) -> PaddedSentences:
    """One sentence per image of up to `max_words` words, <end> included; features: (B, D), noise: (B, z)."""
    with torch.no_grad():
        state = generator.first_state(features, noise)
    return complete(generator, state, empty_sentences(len(features), max_words, features.device), choose)


@torch.no_grad()
def beam_search(generator: Generator, features: Tensor, noise: Tensor, max_words: int, width: int) -> PaddedSentences:
    """Per image, the sentence of its beam with the highest mean log-probability per word.

    features: (B, D). noise: (B, z). max_words: <end> included. The beam holds the `width` likeliest prefixes; a
    finished sentence stays in it while it is among them.
    """
    rows, device = len(features), features.device
    state = generator.first_state(features, noise)
    empty = empty_sentences(rows * width, max_words, device)
    words, lengths = empty.words.view(rows, width, max_words), empty.lengths.view(rows, width)
    total = torch.full((rows, width), -torch.inf, device=device)
    total[:, 0] = 0  # at first all prefixes are equal, so only one may count
    state = LSTMState(*(part.repeat_interleave(width, 0) for part in state))
    last = torch.full((rows * width,), START_ID, device=device)
    ended = torch.zeros(rows, width, dtype=torch.bool, device=device)
    for step in range(max_words):
        logits, state = generator.step(state, last)
        scores = logits.log_softmax(1).view(rows, width, -1)
        stay = torch.full_like(scores[0, 0], -torch.inf)
        stay[PAD_ID] = 0
        sums = total[..., None] + torch.where(ended[..., None], stay, scores)
        total, at = sums.flatten(1).topk(width, 1)
        source, chosen = at // scores.shape[2], at % scores.shape[2]
        words, lengths, ended = (
            part.gather(1, source if part.dim() == 2 else source[..., None].expand_as(part))
            for part in (words, lengths, ended)
        )
        words[..., step] = chosen
        lengths = lengths + ~ended
        ended = ended | (chosen == END_ID)
        state = state.select((torch.arange(rows, device=device)[:, None] * width + source).flatten())
        last = chosen.flatten()
        if bool(ended.all()):
            break
    best = (total / lengths).argmax(1)
    row = torch.arange(rows, device=device)
    return PaddedSentences(words[row, best], lengths[row, best])
