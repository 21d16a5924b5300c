"""Sentences out of a generator: sampled, greedy, or the best of a beam. Loops run over time steps, never over rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from negcap.pipelines.models.captioner.generator import END_ID, PAD_ID, START_ID, Generator, Sentences, State

Choose = Callable[[Tensor, Tensor, Tensor], Tensor]  # scores (b, V), rows (b,), places (b,) -> words (b,)
Watch = Callable[[int, Tensor, State], None]  # step, rows (b,) not yet ended, their states before the last word


def sampled(uniforms: Tensor) -> Choose:
    """Words drawn from the policy: word t of row b is where the distribution function passes uniforms[b, t]."""

    def choose(scores: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        below = scores.softmax(1).cumsum(1)
        at = uniforms[rows, places].to(below.dtype)[:, None] * below[:, -1:]
        return torch.searchsorted(below, at, right=True)[:, 0].clamp(max=scores.shape[1] - 1)

    return choose


def likeliest(scores: Tensor, rows: Tensor, places: Tensor) -> Tensor:
    """The word that scores highest."""
    return scores.argmax(1)


@torch.no_grad()
def complete(
    generator: Generator, state: State, begun: Sentences, choose: Choose, watch: Watch = lambda step, rows, state: None
) -> Sentences:
    """Write sentences on from where they are until they end or have T words.

    state: after all words of `begun` but the last (before the first, where there is none). Rows that have ended take no
    more part.
    """
    words, lengths = begun.words.clone(), begun.lengths.clone()
    most = words.shape[1]
    rows = (lengths < most).nonzero()[:, 0]
    state = state.of(rows)
    for step in range(most):
        if not len(rows):
            break
        watch(step, rows, state)
        places = lengths[rows]
        last = words[rows, (places - 1).clamp(min=0)].where(places > 0, START_ID)
        scores, state = generator.step(state, last)
        chosen = choose(scores, rows, places)
        words[rows, places] = chosen
        lengths[rows] = places + 1
        going = ((chosen != END_ID) & (places + 1 < most)).nonzero()[:, 0]
        rows, state = rows[going], state.of(going)
    return Sentences(words, lengths)


def nothing(rows: int, most: int, device: torch.device) -> Sentences:
    """Sentences without a word, with room for `most`."""
    return Sentences(
        torch.full((rows, most), PAD_ID, device=device), torch.zeros(rows, dtype=torch.long, device=device)
    )


def write(generator: Generator, features: Tensor, noise: Tensor, most: int, choose: Choose) -> Sentences:
    """Whole sentences of up to `most` words, <end> counted: features (B, D), noise (B, z)."""
    with torch.no_grad():
        state = generator.begin(features, noise)
    return complete(generator, state, nothing(len(features), most, features.device), choose)


@torch.no_grad()
def beam(generator: Generator, features: Tensor, noise: Tensor, most: int, width: int) -> Sentences:
    """The likeliest sentence of a beam a row, by the mean log-probability of its words.

    A beam holds the `width` likeliest prefixes; one that has ended stays as it is while it is among them.
    """
    rows, device = len(features), features.device
    state = generator.begin(features, noise)
    begun = nothing(rows * width, most, device)
    words, lengths = begun.words.view(rows, width, most), begun.lengths.view(rows, width)
    total = torch.full((rows, width), -torch.inf, device=device)
    total[:, 0] = 0  # all prefixes are the same at first
    state = State(*(part.repeat_interleave(width, 0) for part in state))
    last = torch.full((rows * width,), START_ID, device=device)
    ended = torch.zeros(rows, width, dtype=torch.bool, device=device)
    for step in range(most):
        scores, state = generator.step(state, last)
        scores = scores.log_softmax(1).view(rows, width, -1)
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
        state = state.of((torch.arange(rows, device=device)[:, None] * width + source).flatten())
        last = chosen.flatten()
        if bool(ended.all()):
            break
    best = (total / lengths).argmax(1)
    pick = torch.arange(rows, device=device)
    return Sentences(words[pick, best], lengths[pick, best])
