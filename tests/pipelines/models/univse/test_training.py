"""UniVSE trained and evaluated on an artificial world with components and a grid."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import Generator

from negcap.pipelines.cli import main
from negcap.pipelines.models.batches import Batch
from negcap.pipelines.models.config import EvaluateConfig, configure
from negcap.pipelines.models.data import encode_run, read_captions, read_graphs
from negcap.pipelines.models.evaluation.protocols import with_negatives
from negcap.pipelines.models.features import read_features
from negcap.pipelines.models.trainer.evaluate import measure
from negcap.pipelines.models.trainer.objectives import load_model
from negcap.pipelines.models.trainer.train import read_training_data, train
from negcap.pipelines.models.univse.objective import REPLACED_WORD, UNIVSE, _replace_words
from tests.pipelines.models.univse.univse_world import region_of, write_univse_world

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {
    **{"features": "grid", "joint": 16, "word_dim": 8, "modifier_dim": 4, "batch_size": 32, "learning_rate": 0.01},
    **{"validation_images": 20, "min_count": 2, "threads": 1, "average": 0.9, "dropout": 0.1},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_univse_world(tmp_path_factory.mktemp("world"), [("train", 150), ("test", 40)])


@pytest.fixture(scope="module")
def trained(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(config(world, tmp_path_factory.mktemp("trained") / "m", epochs=8))


@pytest.fixture(scope="module")
def evaluated(world: Path, trained: Path) -> dict[str, Any]:
    """The metrics of the trained model."""
    return measure(trained, world, EvaluateConfig(threads=1)).metrics


def config(world: Path, output: Path, **given: Any) -> Any:
    return configure(world, output, "univse", **{**SMALL, **given})


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_training_learns_sentences_and_components(trained: Path) -> None:
    first, *_, last = lines(trained)
    assert last["validation"]["rsum"] > 400  # chance: 150
    assert last["terms"].keys() == {"sent", "comp", "obj", "attr", "rel"}
    for name in ("obj", "attr"):
        assert last["terms"][name] < 0.75 * first["terms"][name]
    related = [line["terms"]["rel"] for line in lines(trained)]
    assert related[:2] == [0, 0] and min(related[2:]) > 0 and related[-1] < 0.9 * related[2]
    assert last["loss"] == pytest.approx(sum(last["terms"].values()))


def test_sampled_components_are_false_and_belong_to_their_captions(world: Path, tmp_path: Path) -> None:
    settings = config(world, tmp_path)
    material = read_training_data(settings)
    captions = material.train[:20]
    source, graphs = material.sampler, material.texts.graphs
    assert graphs is not None
    drawn = UNIVSE.sample(source, captions, settings, Generator().manual_seed(3))
    rows = {row["caption_id"]: row for row in pq.read_table(world / "components").to_pylist()}
    all_captions = read_captions(world)
    components = [rows[all_captions.ids[n]] for n in captions.tolist()]
    word = material.vocabulary.words
    objects = [
        (int(n), word[graphs.objects.words[at, 0]])
        for at, n in zip(drawn.objects.rows, drawn.objects.owner, strict=True)
    ]
    assert objects == [(n, item["object"]) for n, row in enumerate(components) for item in row["objects"]]
    assert drawn.absent.shape == (20, 16) and (drawn.objects.false >= 0).all()
    for row, absent in zip(components, drawn.absent, strict=True):
        assert not {item["object"] for item in row["objects"]} & {word[n] for n in absent}
    for at, owner, false in zip(*drawn.pairs, strict=True):
        attribute, noun = (word[n] for n in graphs.pairs.words[at])
        assert {"attribute": attribute, "object": noun}.items() <= components[owner]["attributes"][0].items() or len(
            components[owner]["attributes"]
        ) > 1
        assert attribute not in {word[n] for n in false[:8] if n >= 0}
        assert (false[8:] == drawn.absent[owner]).all()
    triples = [
        (int(n), tuple(word[k] for k in graphs.triples.words[at]))
        for at, n in zip(drawn.triples.rows, drawn.triples.owner, strict=True)
    ]
    assert triples == [
        (n, (item["subject"], item["relation"], item["object"]))
        for n, row in enumerate(components)
        for item in row["relations"]
    ]
    assert drawn.triples.owner[drawn.one_each].tolist() == sorted(set(drawn.triples.owner.tolist()))
    made = _replace_words(graphs.triples.words, drawn.triples, CPU).view(-1, len(REPLACED_WORD), 3)
    for at, false in zip(drawn.triples.rows, made, strict=True):
        changed = false != graphs.triples.words[at]
        assert all(
            set(row.nonzero()[:, 0].tolist()) <= {place} for row, place in zip(changed, REPLACED_WORD, strict=True)
        )
    again = UNIVSE.sample(source, captions, settings, Generator().manual_seed(3))
    other = UNIVSE.sample(source, captions, settings, Generator().manual_seed(4))
    assert torch.equal(again.absent, drawn.absent) and not torch.equal(other.absent, drawn.absent)


@pytest.mark.parametrize("grid", [True, False])
def test_the_component_losses_of_a_batch(world: Path, tmp_path: Path, grid: bool) -> None:
    """ℓ_obj, ℓ_attr and ℓ_rel (supplement A.1), every similarity and hinge on its own."""
    settings = config(world, tmp_path, reduce_obj="mean", reduce_rel="sum", weights=(0.5, 0.5, 1.0, 2.0))
    material = read_training_data(settings)
    captions = material.train[:7]  # both captions of some images
    drawn = UNIVSE.sample(material.sampler, captions, settings, Generator().manual_seed(5))
    drawn.pairs.false[0, :8], drawn.pairs.false[1, 3], drawn.triples.false[0, 2:6] = -1, -1, -1
    model = UNIVSE.build(settings, 22, len(material.vocabulary), None).eval()
    features, image = material.features.values[material.captions.image[captions]], material.captions.image[captions]
    features = features if grid else features.float().mean(1)
    graphs = material.texts.graphs
    assert graphs is not None
    batch = Batch(captions, features, image[:, None] == image[None, :], material.texts)
    with torch.no_grad():
        terms = UNIVSE.losses(model, batch, drawn, settings, 5)
        images, regions = model.image.with_regions(features)

        def region_scores(noun: int, attribute: int, of: int) -> torch.Tensor:
            return regions[of] @ model.word_encoder(torch.tensor([noun]), torch.tensor([attribute]))[0]

        def triple_score(words: list[int], of: int) -> float:
            return float(images[of] @ model.triples(torch.tensor([words]))[0])

        means = {name: torch.zeros(7, 2) for name in ("obj", "attr", "rel")}  # sums and numbers of components' values
        for at, of in zip(drawn.objects.rows, drawn.objects.owner, strict=True):
            noun = int(graphs.objects.words[at, 0])
            true = region_scores(noun, noun, int(of))
            scores = [region_scores(int(word), int(word), int(of)) for word in drawn.absent[of]]
            hinges = [(true.softmax(0) * (0.2 + score - true).clamp(min=0)).sum().item() for score in scores]
            means["obj"][of] += torch.tensor([float(np.mean(hinges)), 1.0])
        for at, of, false in zip(*drawn.pairs, strict=True):
            attribute, noun = graphs.pairs.words[at].tolist()
            true = region_scores(noun, attribute, int(of))
            costs: tuple[list[float], list[float]] = ([], [])
            for n in (false >= 0).nonzero()[:, 0].tolist():
                word = int(false[n])
                score = region_scores(noun, word, int(of)) if n < 8 else region_scores(word, attribute, int(of))
                costs[n >= 8].append(float((true.softmax(0) * (0.2 + score - true).clamp(min=0)).sum()))
            means["attr"][of] += torch.tensor([sum(np.mean(kind) for kind in costs if kind), 1.0])
        words = graphs.triples.words[drawn.triples.rows].tolist()
        for (subject, relation, object), (_, of, false) in zip(words, zip(*drawn.triples, strict=True), strict=True):
            true_score, cost = triple_score([subject, relation, object], int(of)), 0.0
            for n in (false >= 0).nonzero()[:, 0].tolist():
                made = [subject, relation, object]
                made[REPLACED_WORD[n]] = int(false[n])
                cost += max(0.0, 0.2 + triple_score(made, int(of)) - true_score)
            for n in drawn.one_each.tolist():
                if image[drawn.triples.owner[n]] != image[of]:
                    cost += max(0.0, 0.2 + triple_score(words[n], int(of)) - true_score)
            means["rel"][of] += torch.tensor([cost, 1.0])
    assert int(means["rel"][:, 1].max()) >= 1
    for name, weight in (("obj", 0.5), ("attr", 1.0), ("rel", 2.0)):
        total, count = means[name].T
        assert terms[name].item() == pytest.approx(weight * float((total / count.clamp(min=1)).sum()), rel=1e-4)


def test_an_object_scores_highest_in_the_region_that_shows_it(world: Path, trained: Path) -> None:
    model, vocabulary, _ = load_model(trained, CPU)
    captions = read_captions(world)
    test = captions.of_splits(["test"])
    features = read_features(world, captions.image_ids, "features_grid").values[captions.image[test]]
    _, regions = model.image.with_regions(features)
    rows = {row["caption_id"]: row for row in pq.read_table(world / "components").to_pylist()}
    right = []
    for number, grid in zip(test.tolist(), regions, strict=True):
        thing = rows[captions.ids[number]]["attributes"]
        if thing:
            scores = grid @ model.word_encoder(torch.tensor([vocabulary.ids[thing[0]["object"]]]))[0]
            right.append(int(scores.argmax()) == region_of(captions.image_ids[captions.image[number]]))
    assert len(right) > 40 and np.mean(right) > 0.5  # chance: 0.25


def test_negatives_are_parsed_and_cached(world: Path, tmp_path: Path) -> None:
    run = copytree(world, tmp_path / "run")
    captions = read_captions(run)
    settings = config(run, tmp_path)
    vocabulary = read_training_data(settings).vocabulary
    corpus = encode_run(run, captions, vocabulary)
    graphs = read_graphs(run, captions, vocabulary, CPU)
    rows = torch.tensor([3, 10, 700])
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
    assert (
        len(made.objects.known_components(corpus.texts.captions + torch.tensor([4, 11]))[0]) == 0
    )  # of negatives that were not requested
    (kept,) = (run / "encoded").glob("components-*.safetensors")
    again = with_negatives(run, graphs, rows, corpus)
    assert all(
        torch.equal(a, b) for one, other in zip(made, again, strict=True) for a, b in zip(one, other, strict=True)
    )
    kept.write_bytes(b"broken")
    with pytest.raises(ValueError, match="is damaged"):
        with_negatives(run, graphs, rows, corpus)


def test_evaluation(world: Path, trained: Path, evaluated: dict[str, Any]) -> None:
    plain, metrics = EvaluateConfig(threads=1), evaluated
    sentences = {f"{kind}, as a sentence" for kind in ("object", "attribute")}
    assert metrics["unified"].keys() <= {"object", "attribute", "relation", *sentences}
    assert metrics["unified"]["object, as a sentence"]["queries"] == metrics["unified"]["object"]["queries"]
    assert metrics["unified"]["object"]["mAP"] > 2 * metrics["unified"]["object"]["images"]
    assert metrics["alpha"].keys() == {f"{n / 10:.1f}" for n in range(11)}
    for alpha in (0.3, 1.0):
        other = measure(trained, world, plain.changed(alpha=alpha)).metrics
        assert other["retrieval"]["rsum"] == pytest.approx(metrics["alpha"][str(alpha)]["rsum"])
        assert other["univse"]["object"]["R@1"] == pytest.approx(metrics["alpha"][str(alpha)]["object R@1"])
    alone = measure(trained, world, plain.changed(components=())).metrics
    assert alone["retrieval"] == other["retrieval"]
    accuracy = metrics["parsing"]["relation"]
    assert accuracy["both"] > accuracy["both, random"] and accuracy["subject"] >= accuracy["both"] <= accuracy["object"]


def test_train_and_evaluate_commands(
    world: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("word_dim=4", "validation_images=10", "contrast=obj,rel", "components=none", "alpha=0.5")
    given = [word for each in (*settings, "weights=1,0.1,0.2,2") for word in ("--set", each)]
    given += ["--features", "grid", "--joint", "8", "--epochs", "1", "--threads", "1"]
    assert main(["train", str(world), "--model", "univse", "--output", str(tmp_path / "m"), *given]) == 0
    (line,) = lines(tmp_path / "m")
    assert line["terms"].keys() == {"sent", "obj", "rel"}
    made = json.loads((tmp_path / "m" / "config.json").read_text())
    assert made["config"]["weights"] == [1.0, 0.1, 0.2, 2.0] and made["config"]["components"] == []
    assert {"components", "component_vocabulary", "component_exclusions", "features_grid"} <= made["inputs"].keys()
    capsys.readouterr()
    evaluated = ["evaluate", str(trained), str(world), "--output", str(tmp_path / "e"), "--threads", "1"]
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
    assert main(["train", str(world), "--model", "univse", "--output", str(tmp_path / "n"), "--features", "map"]) == 2
    assert "has no features_map: run negcap features first" in capsys.readouterr().err
