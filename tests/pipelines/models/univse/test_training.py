"""UniVSE trained and evaluated on an artificial world with components and a grid."""

import json
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import Generator

from negcap.pipelines.cli import main
from negcap.pipelines.models.batches import CaptionBatch
from negcap.pipelines.models.config import EvaluateConfig, configure
from negcap.pipelines.models.data import encode_run, read_captions, read_graphs
from negcap.pipelines.models.evaluation.protocols import with_negatives
from negcap.pipelines.models.trainer.evaluate import measure
from negcap.pipelines.models.trainer.train import read_training_data
from negcap.pipelines.models.univse.objective import REPLACED_WORD, UNIVSE, _replace_words
from tests.pipelines.models.conftest import SMALL_UNIVSE

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def evaluated(english: Path, univse: Path) -> dict[str, Any]:
    """The metrics of the trained model."""
    return measure(univse, english, EvaluateConfig(threads=1)).metrics


def config(run: Path, output: Path, **given: Any) -> Any:
    return configure(run, output, **{**SMALL_UNIVSE, **given})


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_training_learns_sentences_and_components(univse: Path) -> None:
    first, *_, last = lines(univse)
    assert last["validation"]["rsum"] > 400  # chance: 150
    assert last["terms"].keys() == {"sent", "comp", "obj", "attr", "rel"}
    for name in ("obj", "attr"):
        assert last["terms"][name] < 0.75 * first["terms"][name]
    related = [line["terms"]["rel"] for line in lines(univse)]
    assert related[:2] == [0, 0] and min(related[2:]) > 0 and related[-1] < 0.9 * related[2]
    assert last["loss"] == pytest.approx(sum(last["terms"].values()))


def test_sampled_components_are_false_and_belong_to_their_captions(english: Path, tmp_path: Path) -> None:
    settings = config(english, tmp_path)
    material = read_training_data(settings)
    captions, graphs, word = material.train[:20], material.texts.graphs, material.vocabulary.words
    assert graphs is not None
    drawn = material.sampler.sample(captions, Generator().manual_seed(3))
    rows = {row["caption_id"]: row for row in pq.read_table(english / "components").to_pylist()}
    all_captions = read_captions(english)
    components = [rows[all_captions.ids[n]] for n in captions.tolist()]

    def words_of(table: torch.Tensor, sampled: Any) -> list[tuple[str, ...]]:
        """The owner of each sampled component and its words."""
        return [(n, *(word[k] for k in table[at])) for at, n in zip(sampled.rows, sampled.owner.tolist(), strict=True)]

    objects, pairs, triples = (
        [(n, *(item[role] for role in roles)) for n, row in enumerate(components) for item in row[kind]]
        for kind, roles in (
            ("objects", ("object",)),
            ("attributes", ("attribute", "object")),
            ("relations", ("subject", "relation", "object")),
        )
    )
    assert words_of(graphs.objects.words, drawn.objects) == objects
    assert words_of(graphs.pairs.words, drawn.pairs) == pairs
    assert words_of(graphs.triples.words, drawn.triples) == triples
    assert drawn.absent.shape == (20, 16) and (drawn.objects.false >= 0).all()
    for row, absent in zip(components, drawn.absent, strict=True):
        assert not {item["object"] for item in row["objects"]} & {word[n] for n in absent}
    for (_, attribute, _), owner, false in zip(pairs, drawn.pairs.owner, drawn.pairs.false, strict=True):
        assert attribute not in {word[n] for n in false[:8] if n >= 0}
        assert (false[8:] == drawn.absent[owner]).all()
    assert drawn.triples.owner[drawn.one_each].tolist() == sorted(set(drawn.triples.owner.tolist()))
    made = _replace_words(graphs.triples.words, drawn.triples, CPU).view(-1, len(REPLACED_WORD), 3)
    changed = made != graphs.triples.words[drawn.triples.rows][:, None]
    for place in range(3):  # no word but the one to be replaced has changed
        assert not changed[:, [n for n, replaced in enumerate(REPLACED_WORD) if replaced != place], place].any()
    again, other = (material.sampler.sample(captions, Generator().manual_seed(seed)).absent for seed in (3, 4))
    assert torch.equal(again, drawn.absent) and not torch.equal(other, drawn.absent)


@pytest.mark.parametrize("grid", [True, False])
def test_the_component_losses_of_a_batch(english: Path, tmp_path: Path, grid: bool) -> None:
    """ℓ_obj, ℓ_attr and ℓ_rel (supplement A.1), every similarity and hinge on its own."""
    settings = config(english, tmp_path, reduce_obj="mean", reduce_rel="sum", weights=(0.5, 0.5, 1.0, 2.0))
    material = read_training_data(settings)
    captions, graphs = material.train[:7], material.texts.graphs  # both captions of some images
    assert graphs is not None
    drawn = material.sampler.sample(captions, Generator().manual_seed(5))
    drawn.pairs.false[0, :8], drawn.pairs.false[1, 3], drawn.triples.false[0, 2:6] = -1, -1, -1
    model = UNIVSE.build(settings, 22, len(material.vocabulary), None).eval()
    features, image = material.features.values[material.captions.image[captions]], material.captions.image[captions]
    features = features if grid else features.float().mean(1)
    graphs = material.texts.graphs
    assert graphs is not None
    batch = CaptionBatch(captions, features, image[:, None] == image[None, :], material.texts)

    def in_regions(noun: int, attribute: int, of: int) -> torch.Tensor:
        return regions[of] @ model.word_encoder(torch.tensor([noun]), torch.tensor([attribute]))[0]

    def triple_score(words: list[int], of: int) -> float:
        return float(images[of] @ model.triples(torch.tensor([words]))[0])

    def mean_hinge(true: torch.Tensor, false: list[torch.Tensor]) -> float:
        hinges = [float((true.softmax(0) * (0.2 + scores - true).clamp(min=0)).sum()) for scores in false]
        return float(np.mean(hinges)) if hinges else 0.0

    costs: dict[str, list[list[float]]] = {name: [[] for _ in captions] for name in ("obj", "attr", "rel")}
    with torch.no_grad():
        terms = UNIVSE.losses(model, batch, drawn, settings, 5)
        images, regions = model.image.with_regions(features)
        objects, pairs, triples = (
            zip(known.words[sampled.rows].tolist(), sampled.owner.tolist(), sampled.false.tolist(), strict=True)
            for known, sampled in zip(graphs, (drawn.objects, drawn.pairs, drawn.triples), strict=True)
        )
        for (noun,), of, _ in objects:
            false = [in_regions(word, word, of) for word in drawn.absent[of].tolist()]
            costs["obj"][of].append(mean_hinge(in_regions(noun, noun, of), false))
        for (attribute, noun), of, words in pairs:
            others = [in_regions(noun, word, of) for word in words[:8] if word >= 0]
            elsewhere = [in_regions(word, attribute, of) for word in words[8:] if word >= 0]
            true = in_regions(noun, attribute, of)
            costs["attr"][of].append(mean_hinge(true, others) + mean_hinge(true, elsewhere))
        one_each = graphs.triples.words[drawn.triples.rows[drawn.one_each]].tolist()
        one_each_of = drawn.triples.owner[drawn.one_each].tolist()
        for words, of, replacements in triples:
            false = [
                [*words[:place], word, *words[place + 1 :]]
                for place, word in zip(REPLACED_WORD, replacements, strict=True)
                if word >= 0
            ]
            false += [other for other, its in zip(one_each, one_each_of, strict=True) if image[its] != image[of]]
            true = triple_score(words, of)
            costs["rel"][of].append(sum(max(0.0, 0.2 + triple_score(other, of) - true) for other in false))
    for name, weight in (("obj", 0.5), ("attr", 1.0), ("rel", 2.0)):
        expected = weight * sum(float(np.mean(values)) for values in costs[name] if values)
        assert terms[name].item() == pytest.approx(expected, rel=1e-4) and expected > 0


def test_negatives_are_parsed_and_cached(english: Path, tmp_path: Path) -> None:
    run = copytree(english, tmp_path / "run", ignore=ignore_patterns("encoded"))
    captions = read_captions(run)
    settings = config(run, tmp_path)
    vocabulary = read_training_data(settings).vocabulary
    corpus = encode_run(run, captions, {"en": vocabulary})
    graphs = read_graphs(run, captions, vocabulary, CPU)
    rows = torch.tensor([3, 10, 600])
    made = with_negatives(run, graphs, rows, corpus)
    total = corpus.texts.captions + len(corpus.operator)
    for lists, before in zip(made, graphs, strict=True):
        assert len(lists.offsets) == total + 1
        assert torch.equal(lists.offsets[: corpus.texts.captions + 1], before.offsets)
    texts = pq.read_table(run / "negatives")["text"].to_pylist()
    for row in rows.tolist():
        at, _ = made.objects.known_components(torch.tensor([corpus.texts.captions + row]))
        names = {vocabulary.words[n] for n in made.objects.words[at, 0]}
        assert names and all(name in texts[row] for name in names)
    others = corpus.texts.captions + torch.tensor([4, 11])  # negatives that were not requested
    assert len(made.objects.known_components(others)[0]) == 0
    (kept,) = (run / "encoded").glob("components-*.safetensors")
    again = with_negatives(run, graphs, rows, corpus)
    assert all(
        torch.equal(a, b) for one, other in zip(made, again, strict=True) for a, b in zip(one, other, strict=True)
    )
    kept.write_bytes(b"broken")
    with pytest.raises(ValueError, match="is damaged"):
        with_negatives(run, graphs, rows, corpus)


def test_evaluation(english: Path, univse: Path, evaluated: dict[str, Any]) -> None:
    plain, metrics = EvaluateConfig(threads=1), evaluated
    sentences = {f"{kind}, as a sentence" for kind in ("object", "attribute")}
    assert metrics["unified"].keys() <= {"object", "attribute", "relation", *sentences}
    assert metrics["unified"]["object, as a sentence"]["queries"] == metrics["unified"]["object"]["queries"]
    assert metrics["unified"]["object"]["mAP"] > 2 * metrics["unified"]["object"]["images"]
    assert metrics["alpha"].keys() == {f"{n / 10:.1f}" for n in range(11)}
    for alpha in (0.3, 1.0):
        other = measure(univse, english, plain.changed(alpha=alpha)).metrics
        assert other["retrieval"]["rsum"] == pytest.approx(metrics["alpha"][str(alpha)]["rsum"])
        assert other["univse"]["object"]["R@1"] == pytest.approx(metrics["alpha"][str(alpha)]["object R@1"])
    alone = measure(univse, english, plain.changed(components=())).metrics
    assert alone["retrieval"] == other["retrieval"]
    accuracy = metrics["parsing"]["relation"]
    assert accuracy["both"] > accuracy["both, random"] and accuracy["subject"] >= accuracy["both"] <= accuracy["object"]


def test_train_and_evaluate_commands(
    english: Path, univse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("word_dim=4", "validation_images=10", "contrast=obj,rel", "components=none", "alpha=0.5")
    given = [word for each in (*settings, "weights=1,0.1,0.2,2") for word in ("--set", each)]
    given += ["--features", "grid", "--joint", "8", "--epochs", "1", "--threads", "1"]
    assert main(["train", str(english), "--model", "univse", "--output", str(tmp_path / "m"), *given]) == 0
    (line,) = lines(tmp_path / "m")
    assert line["terms"].keys() == {"sent", "obj", "rel"}
    made = json.loads((tmp_path / "m" / "config.json").read_text())
    assert made["config"]["weights"] == [1.0, 0.1, 0.2, 2.0] and made["config"]["components"] == []
    assert {"components", "component_vocabulary", "component_exclusions", "features_grid"} <= made["inputs"].keys()
    capsys.readouterr()
    evaluated = ["evaluate", str(univse), str(english), "--output", str(tmp_path / "e"), "--threads", "1"]
    assert main([*evaluated, "--alpha", "0.4"]) == 0
    shown = capsys.readouterr().out
    for title in (
        "text to image by",
        "| α | rsum |",
        "chosen by the image",
        "**univse (α 0.4, obj+attr+rel)** on test",
    ):
        assert title in shown
    assert main([*evaluated, "--alpha", "4"]) == 2
    assert "alpha must be <= 1, was: 4.0" in capsys.readouterr().err
    assert main(["train", str(english), "--model", "univse", "--output", str(tmp_path / "n"), "--features", "map"]) == 2
    assert "has no features_map yet: run negcap features" in capsys.readouterr().err


@pytest.mark.usefixtures("drawn")
def test_saliency_of_a_model_of_components(
    english: Path, univse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["probe", "saliency", str(english), "--model", str(univse), "--output", str(tmp_path), "--threads", "1"]
    assert main(given) == 0 and "| noun | " in capsys.readouterr().out
