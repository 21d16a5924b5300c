"""UniVSE: words, relations, compositions and losses against plain computations; training and evaluation."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional

from negcap.pipelines.cli import main
from negcap.pipelines.models.batches import TrainingBatch
from negcap.pipelines.models.config import EvaluateConfig, configure
from negcap.pipelines.models.data import (
    PARTS,
    ComponentLists,
    RunTexts,
    SceneGraphs,
    encode_run,
    read_captions,
    read_graphs,
)
from negcap.pipelines.models.evaluation.protocols import graphs_with_negatives
from negcap.pipelines.models.trainer.evaluate import measure, to_markdown
from negcap.pipelines.models.trainer.train import read_training_data
from negcap.pipelines.models.univse.model import Composition, UniVSE, WordEncoder
from negcap.pipelines.models.univse.objective import REPLACED_WORD, UNIVSE, sum_over_kinds
from negcap.pipelines.models.vocabulary import UNKNOWN_ID
from tests.pipelines.models.conftest import SMALL_UNIVSE, history

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
    assert composed[1].abs().max() == 0
    for order, read in ((None, [0, 2, 4]), (torch.tensor([0.9, 0.1, 0.2, 0.3, 0.4]), [2, 4, 0])):
        composed = gru(vectors, owner, 3, order)
        state = gru.gru(vectors[read][None])[1][0, 0]
        assert torch.allclose(composed[0], functional.normalize(state, dim=0), atol=1e-6)
        assert composed[1].abs().max() == 0


def test_components_with_unknown_words_are_left_out_and_a_share_is_dropped() -> None:
    first = torch.tensor([0])
    known = GRAPHS.objects.known_components(torch.tensor([1, 0]))
    assert known.rows.tolist() == [0, 1] and known.owner.tolist() == [1, 1]
    thinned = GRAPHS.thinned(first, 1.0, 0)
    assert not len(thinned.pairs.known_components(first).rows) and thinned.objects is GRAPHS.objects
    assert torch.equal(GRAPHS.thinned(torch.tensor([1]), 1.0, 0).triples.words, GRAPHS.triples.words)
    many = ComponentLists(torch.full((4000, 2), RED), torch.tensor([0, 4000]))
    words, again, other = (SceneGraphs(many, many, many).thinned(first, 0.3, seed).pairs.words for seed in (0, 0, 1))
    assert torch.equal(words, again) and not torch.equal(words, other)
    assert (words[:, 0] == UNKNOWN_ID).float().mean().item() == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [("hardest", [4 + 9, 2, 0]), ("mean", [(1 + 4) / 2 + (5 + 7 + 9) / 3, 2, 0]), ("sum", [1 + 4 + 5 + 7 + 9, 2, 0])],
)
def test_each_kind_of_negatives_is_reduced_on_its_own(reduce: str, expected: list[float]) -> None:
    costs = torch.tensor([[1.0, 4, 5, 7, 9], [2, 8, 8, 8, 8], [1, 1, 1, 1, 1]])
    there = torch.tensor([[True] * 5, [True] + [False] * 4, [False] * 5])
    assert sum_over_kinds(costs, there, (2, 3), reduce).tolist() == pytest.approx(expected)
    assert sum_over_kinds(costs[:, :2], there[:, :2], (2, 0), reduce).tolist()[1:] == [2, 0]


CPU = torch.device("cpu")


def training(run: Path, **given: Any) -> tuple[Any, Any]:
    """The config of a training, and its data."""
    config = configure(run, run / "m", **{**SMALL_UNIVSE, **given})
    return config, read_training_data(config)


def test_training_learns_sentences_and_components(univse: Path) -> None:
    first, *_, last = lines = history(univse)
    assert last["validation"]["rsum"] > 400  # chance: 150
    assert last["terms"].keys() == {"sent", "comp", "obj", "attr", "rel"}
    for name in ("obj", "attr"):
        assert last["terms"][name] < 0.75 * first["terms"][name]
    related = [line["terms"]["rel"] for line in lines]
    assert related[:2] == [0, 0] and min(related[2:]) > 0 and related[-1] < 0.9 * related[2]


def test_sampled_components_are_false_and_belong_to_their_captions(english: Path) -> None:
    _, data = training(english)
    captions, word = data.train[:20], data.vocabulary.words
    sampled = data.sampler.sample(captions, Generator().manual_seed(3))
    rows = {row["caption_id"]: row for row in pq.read_table(english / "components").to_pylist()}
    components = [rows[data.captions.ids[n]] for n in captions.tolist()]
    of_kinds = (sampled.objects, sampled.pairs, sampled.triples)
    for (column, parts), lists, kind in zip(PARTS.items(), data.texts.graphs, of_kinds, strict=True):
        right = [(n, *(item[part] for part in parts)) for n, row in enumerate(components) for item in row[column]]
        words = [[word[k] for k in lists.words[row]] for row in kind.rows]
        assert [(n, *names) for n, names in zip(kind.owner.tolist(), words, strict=True)] == right
    assert sampled.absent.shape == (20, 16) and (sampled.objects.false >= 0).all()
    for row, absent in zip(components, sampled.absent, strict=True):
        assert not {item["object"] for item in row["objects"]} & {word[n] for n in absent}
    pairs = data.texts.graphs.pairs.words[sampled.pairs.rows]
    for (attribute, _), owner, false in zip(pairs, sampled.pairs.owner, sampled.pairs.false, strict=True):
        assert attribute not in false[:8] and (false[8:] == sampled.absent[owner]).all()
    one_each = sampled.triples.owner[sampled.one_each].tolist()
    assert one_each == sorted(set(sampled.triples.owner.tolist()))


@pytest.mark.parametrize("grid", [True, False])
def test_the_component_losses_of_a_batch(english: Path, grid: bool) -> None:
    """ℓ_obj, ℓ_attr and ℓ_rel (supplement A.1), every similarity and hinge on its own."""
    config, data = training(english, reduce_obj="mean", reduce_rel="sum", weights=(0.5, 0.5, 1.0, 2.0))
    captions, graphs = data.train[:7], data.texts.graphs  # both captions of some images
    sampled = data.sampler.sample(captions, Generator().manual_seed(5))
    sampled.pairs.false[0, :8] = sampled.pairs.false[1, 3] = sampled.triples.false[0, 2:6] = -1  # fewer words
    model: Any = UNIVSE.build(config, 22, len(data.vocabulary), None).eval()
    image = data.captions.image[captions]
    features = data.features.values[image] if grid else data.features.values[image].float().mean(1)
    batch = TrainingBatch(captions, features, image[:, None] == image[None, :], data.texts)

    def in_regions(noun: int, attribute: int, caption: int) -> Tensor:
        return regions[caption] @ model.word_encoder(torch.tensor([noun]), torch.tensor([attribute]))[0]

    def triple_score(words: list[int], caption: int) -> float:
        return float(images[caption] @ model.triples(torch.tensor([words]))[0])

    def mean_hinge(true: Tensor, false: list[Tensor]) -> float:
        hinges = [float((true.softmax(0) * (0.2 + scores - true).clamp(min=0)).sum()) for scores in false]
        return float(np.mean(hinges)) if hinges else 0.0

    costs: dict[str, list[list[float]]] = {name: [[] for _ in captions] for name in ("obj", "attr", "rel")}
    with torch.no_grad():
        terms = UNIVSE.losses(model, batch, sampled, config, 5)
        images, regions = model.image.with_regions(features)
        objects, pairs, triples = (
            zip(lists.words[kind.rows].tolist(), kind.owner.tolist(), kind.false.tolist(), strict=True)
            for lists, kind in zip(graphs, (sampled.objects, sampled.pairs, sampled.triples), strict=True)
        )
        for (noun,), n, _ in objects:
            absent = [in_regions(word, word, n) for word in sampled.absent[n].tolist()]
            costs["obj"][n].append(mean_hinge(in_regions(noun, noun, n), absent))
        for (attribute, noun), n, words in pairs:
            true = in_regions(noun, attribute, n)
            attributes = [in_regions(noun, word, n) for word in words[:8] if word >= 0]
            nouns = [in_regions(word, attribute, n) for word in words[8:] if word >= 0]
            costs["attr"][n].append(mean_hinge(true, attributes) + mean_hinge(true, nouns))
        one_each = graphs.triples.words[sampled.triples.rows[sampled.one_each]].tolist()
        owners = sampled.triples.owner[sampled.one_each].tolist()
        for words, n, replacements in triples:
            false = [triple for triple, owner in zip(one_each, owners, strict=True) if image[owner] != image[n]]
            for place, word in zip(REPLACED_WORD, replacements, strict=True):
                false += [[*words[:place], word, *words[place + 1 :]]] if word >= 0 else []
            score = triple_score(words, n)
            costs["rel"][n].append(sum(max(0.0, 0.2 + triple_score(triple, n) - score) for triple in false))
    for name, weight in (("obj", 0.5), ("attr", 1.0), ("rel", 2.0)):
        expected = weight * sum(float(np.mean(values)) for values in costs[name] if values)
        assert terms[name].item() == pytest.approx(expected, rel=1e-4) and expected > 0


def test_negatives_are_parsed(english: Path) -> None:
    vocabulary = training(english)[1].vocabulary
    corpus = encode_run(english, read_captions(english), {"en": vocabulary})
    graphs = read_graphs(english, corpus.captions, vocabulary, CPU)
    rows, captions = torch.tensor([3, 10, 600]), corpus.texts.captions
    parsed = graphs_with_negatives(english, graphs, rows, corpus)
    assert torch.equal(parsed.pairs.offsets[: captions + 1], graphs.pairs.offsets)
    texts = pq.read_table(english / "negatives")["text"].to_pylist()
    for row in rows.tolist():
        known = parsed.objects.known_components(torch.tensor([captions + row])).rows
        names = {vocabulary.words[n] for n in parsed.objects.words[known, 0]}
        assert names and all(name in texts[row] for name in names)
    others = captions + torch.tensor([4, 11])  # negatives that were not requested
    assert len(parsed.objects.known_components(others).rows) == 0


def test_evaluation(english: Path, univse: Path) -> None:
    plain = EvaluateConfig(threads=1)
    metrics = measure(univse, english, plain).metrics
    assert metrics["unified"]["object"]["mAP"] > 2 * metrics["unified"]["object"]["images"]
    assert metrics["alpha"].keys() == {f"{n / 10:.1f}" for n in range(11)}
    other = measure(univse, english, plain.changed(alpha=0.3)).metrics
    assert other["retrieval"]["rsum"] == pytest.approx(metrics["alpha"]["0.3"]["rsum"])
    assert other["univse"]["object"]["R@1"] == pytest.approx(metrics["alpha"]["0.3"]["object R@1"])
    alone = measure(univse, english, plain.changed(components=())).metrics
    assert alone["retrieval"]["rsum"] == pytest.approx(metrics["alpha"]["1.0"]["rsum"])
    shown = to_markdown(metrics)
    for title in ("text to image by", "| α | rsum |", "chosen by the image", "**univse (α 0.75, obj+attr+rel)** on te"):
        assert title in shown


def test_saliency_of_a_model_of_components(english, univse, tmp_path, capsys):
    given = ["probe", "saliency", str(english), "--model", str(univse), "--output", str(tmp_path), "--threads", "1"]
    assert main(given) == 0 and "| noun | " in capsys.readouterr().out
