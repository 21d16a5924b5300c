"""The cloze network in NumPy says what the one in PyTorch says that was trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from negcap.augment.cloze.fixed_point import LARGEST, VECTOR, Quantised
from negcap.augment.cloze.network import Network, places_of_units
from negcap.augment.cloze.states import Place
from negcap.pipelines.resources.cloze.config import Sizes
from negcap.pipelines.resources.cloze.network import FARTHEST, Cloze

LENGTHS = (1, 2, 5, 11, 23, 90)  # of captions, without START and END
UNIT = 2.0**-VECTOR


def random_network(seed: int = 1) -> Cloze:
    """Random weights, those included that are zero before training, rounded as in a file."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Cloze(50, Sizes(words=12, states=16, hidden=20, heads=4)).eval()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.normal_(std=0.25)
                if parameter.ndim == 2:
                    parameter.copy_(torch.from_numpy(Quantised.from_weights(parameter.numpy(), LARGEST).values))
    net.fixed_point = True
    return net


def in_numpy(net: Cloze) -> Network:
    return Network({name: value.numpy() for name, value in net.state_dict().items()})


def contexts(network: Network, captions: Sequence[list[int]], places: Sequence[Any]) -> list[np.ndarray]:
    """The vectors of the places of each caption."""
    return network.read(captions, places)[0]


def random_captions() -> list[list[int]]:
    numbers = np.random.default_rng(2)
    return [[0, *numbers.integers(2, 50, length).tolist(), 1] for length in LENGTHS]


@torch.no_grad()
def context(net: Cloze, caption: list[int], place: Place) -> Tensor:
    """The context of one place, computed from the units before it and those after it alone: (words,)."""
    before, after = place
    sizes, vectors = net.sizes, net.embedding(torch.tensor(caption))
    forward = net.forward_gru(vectors[None, : before + 1])[0][0]
    backward = net.backward_gru(vectors[None, after:].flip(1))[0][0].flip(0)
    both = torch.cat([forward[-1], backward[0]])
    memory = torch.cat([net.memory[0](forward), net.memory[1](backward)]).view(-1, sizes.heads, 2, sizes.states // 4)
    distance = torch.cat([before - torch.arange(before + 1), torch.arange(len(caption) - after)]).clamp(max=FARTHEST)
    side = torch.tensor([0] * len(forward) + [1] * len(backward))
    query = net.query(both).view(sizes.heads, -1)
    weights = torch.einsum("hw,nhw->hn", query, memory[:, :, 0]) / query.shape[1] ** 0.5
    weights = (weights + net.distance[:, side, distance]).softmax(-1)
    found = torch.einsum("hn,nhw->hw", weights, memory[:, :, 1]).flatten()
    return net.output(nn.functional.gelu(net.hidden(torch.cat([both, found])), approximate="tanh"))


@torch.no_grad()
def test_captions_of_any_length_have_the_contexts_that_were_trained():
    net, captions = random_network(), random_captions()
    network = in_numpy(net)
    trained = [net.contexts(torch.tensor([caption]))[0].numpy() for caption in captions]
    net.fixed_point = False
    unrounded = [net.contexts(torch.tensor([caption]))[0].numpy() for caption in captions]
    together = contexts(network, captions, [places_of_units(len(caption)) for caption in captions])
    for caption, vectors, expected, near in zip(captions, together, trained, unrounded, strict=True):
        assert np.array_equal(contexts(network, [caption], [places_of_units(len(caption))])[0], vectors)
        assert vectors.shape == (len(caption) - 2, 12)
        assert (vectors == expected).mean() > 0.99  # all but what is added in another order there
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=2 * UNIT)
        np.testing.assert_allclose(vectors, near, rtol=0, atol=3 * UNIT)
    assert contexts(network, [], []) == []
    assert [len(vectors) for vectors in contexts(network, [[0, 5, 1], [0, 1]], [[], []])] == [0, 0]


def test_a_place_may_hold_several_units_or_none():
    net, short = random_network(), random_captions()[:4]
    places = [
        [(before, after) for before in range(len(caption) - 1) for after in range(before + 1, len(caption))]
        for caption in short
    ]
    for caption, own, vectors in zip(short, places, contexts(in_numpy(net), short, places), strict=True):
        expected = torch.stack([context(net, caption, place) for place in own]).numpy()
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=3 * UNIT)


def test_what_is_known_of_other_captions_changes_nothing():
    network, captions = in_numpy(random_network()), random_captions()
    _, known = network.read(captions, [places_of_units(len(caption)) for caption in captions])
    edited = [
        [*caption[:start], *new, *caption[-end:]]
        for caption in captions[:4]
        for start in range(1, len(caption))
        for end in range(1, len(caption) - start + 1)
        for new in ([], [45], [46, 47])
    ]
    places = [places_of_units(len(caption)) for caption in edited]
    found, read = network.read(edited, places, known)
    for caption, own, vectors in zip(edited, places, found, strict=True):
        assert np.array_equal(contexts(network, [caption], [own])[0], vectors)
    beginnings = {(1, *one[:end]) for one in [*captions, *edited] for end in range(1, len(one) - 1)}
    ends = {(-1, *one[: -1 - end : -1]) for one in [*captions, *edited] for end in range(1, len(one) - 1)}
    assert read.used == len(beginnings | ends | {(1, 0), (-1, 1)})  # each is computed once
