"""Words, relations, compositions and losses of UniVSE, each compared with a plain computation."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional

from negcap.pipelines.models.config import configure
from negcap.pipelines.models.data import ComponentLists, RunTexts, SceneGraphs
from negcap.pipelines.models.encoders import ImageEncoder
from negcap.pipelines.models.univse.model import Composition, UniVSE, WordEncoder
from negcap.pipelines.models.univse.objective import relevance_hinges, sum_over_kinds, triple_hinges
from negcap.pipelines.models.vocabulary import UNKNOWN_ID

DOG, CAT, RED, ON = 4, 5, 6, 7
CONFIG = configure(Path(), Path(), "univse", joint=6, word_dim=5, modifier_dim=3)


def model(**given: Any) -> UniVSE:
    return UniVSE(CONFIG.changed(**given), 7, 9).eval()


def texts() -> RunTexts:
    """Two texts: "red dog on cat" with all its components, and "dog" with none."""
    objects = ComponentLists(torch.tensor([[DOG], [CAT], [UNKNOWN_ID]]), torch.tensor([0, 3, 3]))
    pairs = ComponentLists(torch.tensor([[RED, DOG], [UNKNOWN_ID, CAT]]), torch.tensor([0, 2, 2]))
    triples = ComponentLists(torch.tensor([[DOG, ON, CAT]]), torch.tensor([0, 1, 1]))
    tokens = torch.tensor([1, RED, DOG, ON, CAT, 2, 1, DOG, 2], dtype=torch.int32)
    return RunTexts(tokens, torch.tensor([0, 6, 9]), 2, SceneGraphs(objects, pairs, triples))


def test_a_noun_has_its_own_modifier_or_that_of_an_attribute() -> None:
    encoder = WordEncoder(CONFIG.changed(joint=4), 9, Generator().manual_seed(0))

    def phi(noun: int, modifier: int) -> Tensor:
        word = torch.cat([encoder.basic.weight[noun], encoder.modifier.weight[modifier]])
        gate, value = (encoder.linear.weight @ word + encoder.linear.bias).chunk(2)
        return functional.normalize(torch.sigmoid(gate) * torch.tanh(value), dim=0)

    nouns, modifiers = torch.tensor([DOG, CAT, DOG, DOG]), torch.tensor([RED, RED, ON, RED])
    own = torch.stack([phi(noun, noun) for noun in nouns.tolist()])
    assert torch.allclose(encoder(nouns), own, atol=1e-6)
    said = torch.stack([phi(noun, of) for noun, of in zip(nouns.tolist(), modifiers.tolist(), strict=True)])
    assert torch.allclose(encoder(nouns, modifiers), said, atol=1e-6)
    assert not torch.allclose(own, said, atol=1e-2)


def test_basic_vectors_from_a_file_are_fixed_and_all_others_learned() -> None:
    """UniVSE, section 3.1: basic embeddings are GloVe's, modifier embeddings learned."""
    vectors = torch.full((9, 5), torch.nan)
    vectors[DOG] = torch.arange(5.0)
    for config, learned in ((CONFIG, [False, True]), (CONFIG.changed(tune_vectors=True), [True, True])):
        encoder = UniVSE(config, 7, 9, vectors).word_encoder
        encoder(torch.tensor([DOG, CAT]), torch.tensor([RED, RED])).sum().backward()
        assert encoder.basic.weight.grad is not None and encoder.modifier.weight.grad is not None
        assert encoder.basic.weight.grad[[DOG, CAT]].ne(0).any(1).tolist() == learned
        assert encoder.modifier.weight.grad[RED].ne(0).any()


def test_relations_and_sentences_share_a_forward_gru_with_last_state_pooling() -> None:
    made = model()
    gru, read = made.text.net, made.word_encoder

    def psi(words: list[int]) -> Tensor:
        states, last = gru(read(torch.tensor(words))[:, None])
        assert torch.equal(states[-1], last[0])
        return functional.normalize(last[0, 0], dim=0)

    sentences, triples = made.sequences(texts(), torch.tensor([1, 0]), torch.tensor([[CAT, ON, DOG], [DOG, ON, CAT]]))
    assert torch.allclose(sentences, torch.stack([psi([1, DOG, 2]), psi([1, RED, DOG, ON, CAT, 2])]), atol=1e-6)
    assert torch.allclose(triples, torch.stack([psi([CAT, ON, DOG]), psi([DOG, ON, CAT])]), atol=1e-6)
    assert torch.allclose(made.triples(torch.tensor([[DOG, ON, CAT]]))[0], triples[1], atol=1e-6)


@pytest.mark.parametrize(
    ("components", "composition"), [(("obj", "attr", "rel"), "average"), (("obj",), "sum"), (("attr", "rel"), "max")]
)
def test_components_of_a_caption_are_composed(components: tuple[str, ...], composition: str) -> None:
    made = model(components=components, composition=composition)
    vectors = {
        "obj": made.word_encoder(torch.tensor([DOG, CAT])),
        "attr": made.word_encoder(torch.tensor([DOG]), torch.tensor([RED])),
        "rel": made.triples(torch.tensor([[DOG, ON, CAT]])),
    }
    every = torch.cat([vectors[kind] for kind in components])
    whole = {"average": every.mean(0), "sum": every.sum(0), "max": every.amax(0)}[composition]
    sentences, composed, there = made.sentences_and_components(texts(), torch.tensor([0, 1]))
    assert torch.allclose(composed[0], functional.normalize(whole, dim=0), atol=1e-6)
    assert there.tolist() == [True, False] and composed[1].abs().max() == 0
    blended = functional.normalize(0.75 * sentences[0] + 0.25 * composed[0], dim=0)
    captions = made.sentences(texts(), torch.tensor([0, 1]))
    assert torch.allclose(captions[0], blended, atol=1e-6) and torch.allclose(captions[1], sentences[1], atol=1e-6)


def component_vectors(n: int) -> tuple[Tensor, Tensor]:
    """Vectors (n, 6) of components, in turn of captions 0, 2, 0, 2 …, of 3 captions."""
    return torch.randn(n, 6, generator=Generator().manual_seed(5)), 2 * (torch.arange(n) % 2)


def test_self_attention_weights_the_components_of_each_caption() -> None:
    vectors, owner = component_vectors(7)
    made = Composition("self-attention", 6, Generator().manual_seed(0))
    composed = made(vectors, owner, 3)
    for caption in (0, 2):
        own = vectors[owner == caption]
        weights = made.weight(torch.tanh(made.hidden(own)))[:, 0].softmax(0)
        assert torch.allclose(composed[caption], functional.normalize(weights @ own, dim=0), atol=1e-6)
    assert composed[1].abs().max() == 0 and composed.isfinite().all()
    assert Composition("self-attention", 6, Generator().manual_seed(0)).weight.weight.equal(made.weight.weight)


def test_a_gru_reads_the_components_of_each_caption_in_the_given_order() -> None:
    vectors, owner = component_vectors(5)  # 0, 2 and 4 are of caption 0
    made = Composition("gru", 6, Generator().manual_seed(0))
    for order, read in ((None, [0, 2, 4]), (torch.tensor([0.9, 0.1, 0.2, 0.3, 0.4]), [2, 4, 0])):
        composed = made(vectors, owner, 3, order)
        state = made.gru(vectors[read][None])[1][0, 0]
        assert torch.allclose(composed[0], functional.normalize(state, dim=0), atol=1e-6)
        assert composed[1].abs().max() == 0


def test_components_with_unknown_words_are_left_out_and_a_share_is_dropped() -> None:
    graphs = texts().graphs
    assert graphs is not None
    first = torch.tensor([0])
    assert [part.tolist() for part in graphs.objects.known_components(torch.tensor([1, 0]))] == [[0, 1], [1, 1]]
    for share, left in ((1.0, []), (0.0, [0])):
        thinned = graphs.thinned(first, share, 0)
        assert thinned.pairs.known_components(first)[0].tolist() == left
        assert thinned.triples.known_components(first)[0].tolist() == left
        assert thinned.pairs.words.shape == graphs.pairs.words.shape and thinned.objects is graphs.objects
    assert torch.equal(graphs.thinned(torch.tensor([1]), 1.0, 0).triples.words, graphs.triples.words)
    many = ComponentLists(torch.full((4000, 2), RED), torch.tensor([0, 4000]))
    drawn = [SceneGraphs(many, many, many).thinned(first, 0.3, seed).pairs.words for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    assert (drawn[0][:, 0] == UNKNOWN_ID).float().mean().item() == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize(("pooling", "highest"), [("max", 1), ("max-k", 10)])
def test_regions_are_mapped_before_pooling(pooling: str, highest: int) -> None:
    encoder = ImageEncoder(6, 4, "none", Generator().manual_seed(0), pooling)
    grid = torch.randn(3, 12, 6, generator=Generator().manual_seed(1))
    regions = grid @ encoder.linear.weight.T + encoder.linear.bias
    pooled = regions.sort(dim=1, descending=True).values[:, :highest].mean(1)
    image, found = encoder.with_regions(grid)
    assert torch.allclose(image, functional.normalize(pooled, dim=-1), atol=1e-6)
    assert torch.allclose(encoder(grid), image) and torch.allclose(found, functional.normalize(regions, dim=-1))
    assert encoder(grid[:, :2]).shape == (3, 4)  # fewer regions than k


def scores(*shape: int) -> Tensor:
    return torch.rand(shape, generator=Generator().manual_seed(sum(shape))) * 2 - 1


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_hinges_of_regions_and_of_triples(temperature: float) -> None:
    true, false = scores(3, 4), scores(3, 5, 4)
    expected = []
    for i in range(3):
        weight = (true[i] / temperature).exp() / (true[i] / temperature).exp().sum()
        for n in range(5):
            expected.append(sum(float(weight[r] * max(0.0, 0.2 + false[i, n, r] - true[i, r])) for r in range(4)))
    assert relevance_hinges(true, false, 0.2, temperature).flatten().tolist() == pytest.approx(expected)
    made = triple_hinges(torch.tensor([0.5, 0.0]), torch.tensor([[0.5, 0.25, 0.75], [0.0, -0.5, 0.5]]), 0.25)
    assert made.tolist() == [[0.25, 0.0, 0.5], [0.25, 0.0, 0.75]]


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        ("hardest", [4 + 9, 2 + 0, 0]),
        ("mean", [(1 + 4) / 2 + (5 + 7 + 9) / 3, 2 + 0, 0]),
        ("sum", [1 + 4 + 5 + 7 + 9, 2, 0]),
    ],
)
def test_each_kind_of_negatives_is_reduced_on_its_own(reduce: str, expected: list[float]) -> None:
    costs = torch.tensor([[1.0, 4, 5, 7, 9], [2, 8, 8, 8, 8], [1, 1, 1, 1, 1]])
    there = torch.tensor([[True] * 5, [True] + [False] * 4, [False] * 5])
    assert sum_over_kinds(costs, there, (2, 3), reduce).tolist() == pytest.approx(expected)
    assert sum_over_kinds(costs[:, :2], there[:, :2], (2, 0), reduce).tolist()[1:] == [2, 0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"contrast": ("all",)}, "contrast must be one of obj, attr, rel, was: all"),
        ({"composition": "mean"}, "composition must be one of average, sum, max, self-attention, gru, was: mean"),
        ({"image_pooling": "last"}, "image_pooling must be one of average, max, max-k, crop, was: last"),
        ({"weights": (1.0, 1.0)}, "weights must have 4 values"),
        ({"weights": (1.0, 1.0, -1.0, 1.0)}, "weights must be >= 0, was: -1.0"),
        ({"learn_alpha": True, "components": ()}, "learn_alpha is for univse with components"),
    ],
)
def test_bad_config(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        configure(Path(), Path(), "univse", **given)
