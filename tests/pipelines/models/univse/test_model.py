"""Words, relations, compositions and losses of UniVSE, each compared with a plain computation."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional

from negcap.pipelines.models.config import configure
from negcap.pipelines.models.data import ComponentLists, RunTexts, SceneGraphs
from negcap.pipelines.models.univse.model import Composition, UniVSE, WordEncoder
from negcap.pipelines.models.univse.objective import relevance_hinges, sum_over_kinds, triple_hinges
from negcap.pipelines.models.vocabulary import UNKNOWN_ID

DOG, CAT, RED, ON = 4, 5, 6, 7
CONFIG: Any = configure(Path(), Path(), "univse", joint=6, word_dim=5, modifier_dim=3)
GRAPHS = SceneGraphs(
    objects=ComponentLists(torch.tensor([[DOG], [CAT], [UNKNOWN_ID]]), torch.tensor([0, 3, 3])),
    pairs=ComponentLists(torch.tensor([[RED, DOG], [UNKNOWN_ID, CAT]]), torch.tensor([0, 2, 2])),
    triples=ComponentLists(torch.tensor([[DOG, ON, CAT]]), torch.tensor([0, 1, 1])),
)
# two texts: "red dog on cat" with all its components, and "dog" with none
TOKENS = torch.tensor([1, RED, DOG, ON, CAT, 2, 1, DOG, 2], dtype=torch.int32)
TEXTS = RunTexts(TOKENS, torch.tensor([0, 6, 9]), 2, GRAPHS)


def model(**given: Any) -> UniVSE:
    return UniVSE(CONFIG.changed(**given), 7, 9).eval()


def test_a_noun_has_its_own_modifier_or_that_of_an_attribute() -> None:
    encoder = WordEncoder(CONFIG.changed(joint=4), 9, Generator().manual_seed(0))

    def phi(noun: int, modifier: int) -> Tensor:
        word = torch.cat([encoder.basic.weight[noun], encoder.modifier.weight[modifier]])
        gate, value = (encoder.linear.weight @ word + encoder.linear.bias).chunk(2)
        return functional.normalize(torch.sigmoid(gate) * torch.tanh(value), dim=0)

    nouns, modifiers = [DOG, CAT, DOG, DOG], [RED, RED, ON, RED]
    assert torch.allclose(encoder(torch.tensor(nouns)), torch.stack([phi(noun, noun) for noun in nouns]), atol=1e-6)
    modified = torch.stack([phi(*pair) for pair in zip(nouns, modifiers, strict=True)])
    assert torch.allclose(encoder(torch.tensor(nouns), torch.tensor(modifiers)), modified, atol=1e-6)


def test_relations_and_sentences_share_a_forward_gru_with_last_state_pooling() -> None:
    univse: Any = model()

    def psi(*words: int) -> Tensor:
        _, last = univse.text.net(univse.word_encoder(torch.tensor(words))[:, None])
        return functional.normalize(last[0, 0], dim=0)

    pair = univse.sequences(TEXTS, torch.tensor([1, 0]), torch.tensor([[CAT, ON, DOG], [DOG, ON, CAT]]))
    assert torch.allclose(pair.sentences, torch.stack([psi(1, DOG, 2), psi(1, RED, DOG, ON, CAT, 2)]), atol=1e-6)
    assert torch.allclose(pair.triples, torch.stack([psi(CAT, ON, DOG), psi(DOG, ON, CAT)]), atol=1e-6)
    assert torch.allclose(univse.triples(torch.tensor([[DOG, ON, CAT]]))[0], pair.triples[1], atol=1e-6)


@pytest.mark.parametrize(
    ("components", "composition"), [(("obj", "attr", "rel"), "average"), (("obj",), "sum"), (("attr", "rel"), "max")]
)
def test_components_of_a_caption_are_composed(components: tuple[str, ...], composition: str) -> None:
    univse = model(components=components, composition=composition)
    vectors = {
        "obj": univse.word_encoder(torch.tensor([DOG, CAT])),
        "attr": univse.word_encoder(torch.tensor([DOG]), torch.tensor([RED])),
        "rel": univse.triples(torch.tensor([[DOG, ON, CAT]])),
    }
    every = torch.cat([vectors[kind] for kind in components])
    whole = {"average": every.mean(0), "sum": every.sum(0), "max": every.amax(0)}[composition]
    parts = univse.sentences_and_components(TEXTS, torch.tensor([0, 1]))
    assert torch.allclose(parts.components[0], functional.normalize(whole, dim=0), atol=1e-6)
    assert parts.present.tolist() == [True, False] and parts.components[1].abs().max() == 0
    blended = functional.normalize(0.75 * parts.sentences[0] + 0.25 * parts.components[0], dim=0)
    captions = univse.sentences(TEXTS, torch.tensor([0, 1]))
    assert torch.allclose(captions, torch.stack([blended, parts.sentences[1]]), atol=1e-6)


def test_components_are_read_by_attention_or_in_the_given_order_by_a_gru() -> None:
    vectors, owner = torch.randn(5, 6, generator=Generator().manual_seed(5)), 2 * (torch.arange(5) % 2)
    attention, gru = (Composition(kind, 6, Generator().manual_seed(0)) for kind in ("self-attention", "gru"))
    composed = attention(vectors, owner, 3)  # of captions 0, 2, 0, 2, 0; none is of caption 1
    for caption in (0, 2):
        own = vectors[owner == caption]
        weights = attention.weight(torch.tanh(attention.hidden(own)))[:, 0].softmax(0)
        assert torch.allclose(composed[caption], functional.normalize(weights @ own, dim=0), atol=1e-6)
    assert composed[1].abs().max() == 0 and composed.isfinite().all()
    for order, read in ((None, [0, 2, 4]), (torch.tensor([0.9, 0.1, 0.2, 0.3, 0.4]), [2, 4, 0])):
        composed = gru(vectors, owner, 3, order)
        state = gru.gru(vectors[read][None])[1][0, 0]
        assert torch.allclose(composed[0], functional.normalize(state, dim=0), atol=1e-6)
        assert composed[1].abs().max() == 0


def test_components_with_unknown_words_are_left_out_and_a_share_is_dropped() -> None:
    first = torch.tensor([0])
    known = GRAPHS.objects.known_components(torch.tensor([1, 0]))
    assert known.rows.tolist() == [0, 1] and known.owner.tolist() == [1, 1]
    for share, left in ((1.0, []), (0.0, [0])):
        thinned = GRAPHS.thinned(first, share, 0)
        assert thinned.pairs.known_components(first).rows.tolist() == left
        assert thinned.triples.known_components(first).rows.tolist() == left
        assert thinned.objects is GRAPHS.objects
    assert torch.equal(GRAPHS.thinned(torch.tensor([1]), 1.0, 0).triples.words, GRAPHS.triples.words)
    many = ComponentLists(torch.full((4000, 2), RED), torch.tensor([0, 4000]))
    first_draw, again, other = (SceneGraphs(many, many, many).thinned(first, 0.3, seed).pairs for seed in (0, 0, 1))
    assert torch.equal(first_draw.words, again.words) and not torch.equal(first_draw.words, other.words)
    assert (first_draw.words[:, 0] == UNKNOWN_ID).float().mean().item() == pytest.approx(0.3, abs=0.03)


def test_hinges_of_regions_and_of_triples() -> None:
    noise, temperature = Generator().manual_seed(0), 0.1
    true, false = torch.rand(3, 4, generator=noise) * 2 - 1, torch.rand(3, 5, 4, generator=noise) * 2 - 1
    expected = []
    for i in range(3):
        weight = (true[i] / temperature).exp() / (true[i] / temperature).exp().sum()
        for n in range(5):
            expected.append(sum(float(weight[r] * max(0.0, 0.2 + false[i, n, r] - true[i, r])) for r in range(4)))
    assert relevance_hinges(true, false, 0.2, temperature).flatten().tolist() == pytest.approx(expected)
    hinges = triple_hinges(torch.tensor([0.5, 0.0]), torch.tensor([[0.5, 0.25, 0.75], [0.0, -0.5, 0.5]]), 0.25)
    assert hinges.tolist() == [[0.25, 0.0, 0.5], [0.25, 0.0, 0.75]]


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [("hardest", [4 + 9, 2, 0]), ("mean", [(1 + 4) / 2 + (5 + 7 + 9) / 3, 2, 0]), ("sum", [1 + 4 + 5 + 7 + 9, 2, 0])],
)
def test_each_kind_of_negatives_is_reduced_on_its_own(reduce: str, expected: list[float]) -> None:
    costs = torch.tensor([[1.0, 4, 5, 7, 9], [2, 8, 8, 8, 8], [1, 1, 1, 1, 1]])
    there = torch.tensor([[True] * 5, [True] + [False] * 4, [False] * 5])
    assert sum_over_kinds(costs, there, (2, 3), reduce).tolist() == pytest.approx(expected)
    assert sum_over_kinds(costs[:, :2], there[:, :2], (2, 0), reduce).tolist()[1:] == [2, 0]
