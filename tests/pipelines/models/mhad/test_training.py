"""MHA-D on captions of two languages: batches, losses, training, evaluation, and input that is refused."""

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Generator

from negcap.pipelines.cli import main
from negcap.pipelines.models.batches import Batch
from negcap.pipelines.models.checkpoint import read_vocabularies
from negcap.pipelines.models.config import EvaluateConfig, configure
from negcap.pipelines.models.data import encode_run, read_captions
from negcap.pipelines.models.losses import max_of_hinges
from negcap.pipelines.models.mhad import MHA_D, diversity_loss
from negcap.pipelines.models.trainer.evaluate import measure
from negcap.pipelines.models.trainer.objectives import load_model
from negcap.pipelines.models.trainer.pictures import attended_words, grid_side
from negcap.pipelines.models.trainer.report import to_markdown
from negcap.pipelines.models.trainer.train import TrainingData, read_training_data, train
from tests.pipelines.models.mhad.mhad_world import write_german_world

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {
    **{"joint": 16, "word_dim": 8, "attention_dim": 8, "heads": 2, "features": "grid", "batch_size": 32},
    **{"learning_rate": 0.01, "validation_split": "test", "min_count": 2, "threads": 1, "average": 0.9, "epochs": 6},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_german_world(tmp_path_factory.mktemp("world"), [("train", 120), ("test", 30)])


@pytest.fixture(scope="module")
def trained(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(configure(world, tmp_path_factory.mktemp("model") / "m", "mha-d", **SMALL))


@pytest.fixture(scope="module")
def data(world: Path) -> TrainingData:
    return read_training_data(configure(world, world / "m", "mha-d", **{**SMALL, "negative_families": ("noun",)}))


def test_it_learns_both_languages(trained: Path) -> None:
    history = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    last = history[-1]["validation"]
    assert last["i2t R@5"] > 50 and last["de i2t R@5"] > 50  # chance: 17
    assert set(history[-1]["terms"]) == {"en", "de", "en-de", "diversity"}
    ways = [f"{language}{way} R@{k}" for language in ("", "de ") for way in ("i2t", "t2i") for k in (1, 5, 10)]
    assert last["rsum"] == pytest.approx(sum(last[name] for name in ways))
    words = json.loads((trained / "vocabulary.de.json").read_text())
    assert "hund" in words and "dog" not in words and "dog" in json.loads((trained / "vocabulary.json").read_text())


def test_evaluation_has_tables_for_each_language(trained: Path, world: Path) -> None:
    found = measure(trained, world, EvaluateConfig(threads=1))
    assert found.metrics["language"] == "en" and found.metrics["languages"]["de"]["captions"] == 60
    ranks = found.ranks.to_dict("records")
    german = {row["query"] for row in ranks if row["candidates"] == "plain:de" and row["direction"] == "t2i"}
    assert len(german) == 60 and all(name.endswith((":2", ":3")) for name in german)
    captions = read_captions(world, languages=("en", "de"))
    assert german == {captions.ids[n] for n in captions.in_language(captions.of_split("test"), "de").tolist()}
    assert set(found.metrics["heads"]) == {"images", "en", "de"}
    assert all(-1 <= cosine < 1 for cosine in found.metrics["heads"].values())
    row = f"| images | {found.metrics['heads']['images']:.2f} |"
    assert row in to_markdown(found.metrics)
    assert found.metrics["vse-c"]["total"]["negatives"] == 60 * 10  # 2 numerals, 4 nouns, 4 prepositions of each


def test_text_vectors_are_those_of_the_texts_own_language(trained: Path, world: Path) -> None:
    model, vocabulary, config = load_model(trained, CPU)
    captions = read_captions(world, languages=config.languages)
    german = read_vocabularies(trained, ["de"])["de"]
    corpus = encode_run(world, captions, vocabulary, others={"de": german})
    texts = corpus.texts
    rows = torch.tensor([2, 0, 3, 600])  # German, English, German, a negative
    with torch.inference_mode():
        mixed = model.sentences(texts, rows)
        english = model.text["en"](texts.tokens, texts.offsets, rows[[1, 3]])
        others = model.text["de"](texts.tokens, texts.offsets, rows[[0, 2]])
    assert torch.allclose(mixed, torch.stack([others[0], english[0], others[1], english[1]]), atol=1e-6)
    text = captions.texts[2].as_py()
    assert texts.tokens[texts.offsets[2] : texts.offsets[3]].tolist() == german.encode([text]).tokens.tolist()


def test_each_epoch_pairs_every_english_caption_with_a_german_one_of_its_image(data: TrainingData) -> None:
    config, paired = configure(Path("r"), Path("o"), "mha-d"), []
    assert len(data.train) == 240 and set(data.captions.language[data.train].tolist()) == {0}
    for epoch in (1, 1, 2):
        generator = Generator().manual_seed(epoch)
        parts = [MHA_D.sample(data.sampler, rows, config, generator).captions["de"] for rows in data.train.split(50)]
        german = torch.cat(parts)
        assert torch.equal(data.captions.image[german], data.captions.image[data.train])
        assert len(german.unique()) == 240 and set(data.captions.language[german].tolist()) == {1}
        paired.append(german)
    assert torch.equal(paired[0], paired[1]) and not torch.equal(paired[0], paired[2])


def test_the_loss_is_the_sum_of_its_terms(data: TrainingData, world: Path) -> None:
    given = {"gamma": 0.5, "diversity_weight": 2.0, "warm_up": 0, "negative_families": ("noun",)}
    config = configure(world, world / "m", "mha-d", **{**SMALL, **given})
    model = MHA_D.build(config, 22, len(data.vocabulary), None, [(len(data.others["de"]), None)])
    rows = data.train[:20]
    sampled = MHA_D.sample(data.sampler, rows, config, Generator().manual_seed(1))
    same = data.captions.image[rows][:, None] == data.captions.image[rows][None]
    features = data.features.values[data.captions.image[rows]]
    terms = MHA_D.losses(model, Batch(rows, features, same, data.texts), sampled, config, 1)
    v, g = model.image(features), model.sentences(data.texts, rows)
    e = model.sentences(data.texts, sampled.captions["de"])
    assert terms["en"].item() == pytest.approx(max_of_hinges(v @ g.T, 0.2, same).item(), rel=1e-5)
    assert terms["de"].item() == pytest.approx(max_of_hinges(v @ e.T, 0.2, same).item(), rel=1e-5)
    assert terms["en-de"].item() == pytest.approx(0.5 * max_of_hinges(g @ e.T, 0.2, same).item(), rel=1e-5)
    heads = [part.view(20, 2, 16) for part in (v, g, e)]
    assert terms["diversity"].item() == pytest.approx(2 * diversity_loss(heads, 0.1, "distance").item(), rel=1e-5)
    false = model.sentences(data.texts, data.texts.captions + sampled.negatives.rows)
    owner = sampled.negatives.owner
    costs = (0.2 + (v[owner] * false).sum(1) - (v * g).sum(1)[owner]).clamp(min=0)
    hardest = sum(costs[owner == n].max().item() for n in range(20))
    assert terms["negatives"].item() == pytest.approx(hardest, rel=1e-5)


def refused(*arguments: str | Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([str(argument) for argument in arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--language en,fr", "languages must be of the captions in .*, de, en, were: fr"),
        ("--language EN", "languages must be different ISO 639 codes such as en, were: EN"),
        ("--model vse++ --language en,de", "languages must be one for vse\\+\\+, were: en, de"),
        ("--model vse-c --language de", "languages must have en, as negatives are English, were: de"),
        ("--language de --negative-family noun", "languages must have en, as negatives are English, were: de"),
        ("--set other_vectors=de=no.txt --language en", "must be of the further languages, none, were: de"),
        ("--set heads=0", "heads must be >= 1, was: 0"),
        ("--similarity order", "similarity is no setting of mha-d"),
        ("--model vse --set text_encoder=attention", "joint must be a multiple of 2 \\* heads, 6, was"),
    ],
)
def test_languages_that_are_refused(
    world: Path, tmp_path: Path, given: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "m"
    told = refused("train", world, "--model", "mha-d", "--output", output, *given.split(), capsys=capsys)
    assert told.count("\n") == 1 and re.search(message, told) and not output.exists()


def test_word_vectors_of_each_language(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, word in (("en", "dog"), ("de", "hund")):
        np.savez(tmp_path / f"{name}.npz", words=np.array([word]), vectors=np.full((1, 8), 0.5, np.float32))
    settings = [f"--set={name}={value}" for name, value in {**SMALL, "epochs": 1}.items()]
    files = ["--vectors", tmp_path / "en.npz", "--set", f"other_vectors=de={tmp_path / 'de.npz'}"]
    base = ["train", world, "--model", "mha-d", *settings, "--set=tune_vectors=false", "--quiet"]
    assert main([str(part) for part in (*base, "--output", tmp_path / "m", *files)]) == 0
    model, vocabulary, _ = load_model(tmp_path / "m", CPU)
    assert model.text["en"].embedding.weight[vocabulary.ids["dog"]].eq(0.5).all()
    german = json.loads((tmp_path / "m" / "vocabulary.de.json").read_text())
    assert model.text["de"].embedding.weight[german.index("hund")].eq(0.5).all()
    wide = refused(*base, "--set=word_dim=9", "--output", tmp_path / "n", *files, capsys=capsys)
    assert "numbers (n, 9), has" in wide and not (tmp_path / "n").exists()


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("with_photos", [False, True])
def test_pictures_of_heads_and_of_the_joint_space(
    trained: Path, world: Path, tmp_path: Path, with_photos: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    photos, given = tmp_path / "photos", []
    if with_photos:
        photos.mkdir()
        Image.new("RGB", (30, 20), "red").save(photos / "scene0121.png")
        given = ["--images", str(photos)]
    output = tmp_path / "out"
    assert (
        main(["probe", "pictures", str(world), "--model", str(trained), "--output", str(output), "--best", "2", *given])
        == 0
    )
    assert capsys.readouterr().out.splitlines() == [str(output / "heads.png"), str(output / "views.png")]
    heads, views = (Image.open(io.BytesIO((output / name).read_bytes())) for name in ("heads.png", "views.png"))
    assert heads.size[0] > 1000 and (heads.size[1] < 300) == with_photos and views.size == (900, 900)
    assert len(np.unique(np.asarray(heads.convert("L")))) > 50
    (photos / "scene0121.png").unlink(missing_ok=True)
    if with_photos:
        told = refused(
            "probe",
            "pictures",
            world,
            "--model",
            trained,
            "--images",
            photos,
            "--output",
            tmp_path / "none",
            capsys=capsys,
        )
        assert "must have photos of images with features in" in told and not (tmp_path / "none").exists()


def test_the_weights_of_a_picture_are_those_of_the_model(trained: Path, world: Path, data: TrainingData) -> None:
    model, vocabulary, _ = load_model(trained, CPU)
    words, weights = attended_words(model, "en", data.texts, int(data.train[0]), vocabulary)
    assert words[0] == "<start>" and words[-1] == "<end>" and weights.shape == (2, len(words))
    assert torch.allclose(weights.sum(1), torch.ones(2)) and grid_side(data.features.values[0]) == 2
    with pytest.raises(ValueError, match="features must be a square grid of regions, have the shape"):
        grid_side(data.features.values[0][:3])
