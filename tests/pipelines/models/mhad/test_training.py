"""MHA-D on captions of two languages: batches, losses, training, evaluation, and input that is refused."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Generator

from negcap.pipelines.cli import main
from negcap.pipelines.models.batches import CaptionBatch
from negcap.pipelines.models.config import EvaluateConfig, configure
from negcap.pipelines.models.data import encode_run, read_captions
from negcap.pipelines.models.losses import max_of_hinges
from negcap.pipelines.models.mhad import MHA_D, diversity_loss
from negcap.pipelines.models.trainer import load_model
from negcap.pipelines.models.trainer.evaluate import measure, to_markdown
from negcap.pipelines.models.trainer.pictures import attended_words, grid_side
from negcap.pipelines.models.trainer.train import TrainingData, read_training_data, train
from tests.pipelines.models.conftest import SMALL_MHAD

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data(german: Path) -> TrainingData:
    return read_training_data(configure(german, german / "m", **{**SMALL_MHAD, "negative_families": ("noun",)}))


def test_it_learns_both_languages(mhad: Path) -> None:
    history = [json.loads(line) for line in (mhad / "metrics.jsonl").read_text().splitlines()]
    last = history[-1]["validation"]
    assert last["i2t R@5"] > 50 and last["de i2t R@5"] > 50  # chance: 25
    assert set(history[-1]["terms"]) == {"en", "de", "en-de", "diversity"}
    ways = [f"{language}{way} R@{k}" for language in ("", "de ") for way in ("i2t", "t2i") for k in (1, 5, 10)]
    assert last["rsum"] == pytest.approx(sum(last[name] for name in ways))
    words = json.loads((mhad / "vocabulary.de.json").read_text())
    assert "hund" in words and "dog" not in words and "dog" in json.loads((mhad / "vocabulary.json").read_text())


def test_evaluation_has_tables_for_each_language(mhad: Path, german: Path) -> None:
    found = measure(mhad, german, EvaluateConfig(threads=1))
    assert found.metrics["language"] == "en" and found.metrics["languages"]["de"]["captions"] == 40
    ranks = found.ranks.to_dict("records")
    names = {row["query"] for row in ranks if row["candidates"] == "plain:de" and row["direction"] == "t2i"}
    assert len(names) == 40 and all(name.endswith((":2", ":3")) for name in names)
    captions = read_captions(german, languages=("en", "de"))
    assert names == {captions.ids[n] for n in captions.in_language(captions.of_split("test"), "de").tolist()}
    assert set(found.metrics["heads"]) == {"images", "en", "de"}
    assert all(-1 <= cosine < 1 for cosine in found.metrics["heads"].values())
    row = f"| images | {found.metrics['heads']['images']:.2f} |"
    assert row in to_markdown(found.metrics)
    assert found.metrics["vse-c"]["total"]["negatives"] == 40 * 10  # 2 numerals, 4 nouns, 4 prepositions of each


def test_text_vectors_are_those_of_the_texts_own_language(mhad: Path, german: Path) -> None:
    model, vocabularies, config = load_model(mhad, CPU)
    captions = read_captions(german, languages=config.languages)
    corpus = encode_run(german, captions, vocabularies)
    texts = corpus.texts
    rows = torch.tensor([2, 0, 3, 500])  # German, English, German, a negative
    with torch.inference_mode():
        mixed = model.sentences(texts, rows)
        english = model.text["en"](texts.tokens, texts.offsets, rows[[1, 3]])
        others = model.text["de"](texts.tokens, texts.offsets, rows[[0, 2]])
    assert torch.allclose(mixed, torch.stack([others[0], english[0], others[1], english[1]]), atol=1e-6)
    text = captions.texts[2].as_py()
    assert (
        texts.tokens[texts.offsets[2] : texts.offsets[3]].tolist() == vocabularies["de"].encode([text]).tokens.tolist()
    )


def test_each_epoch_pairs_every_english_caption_with_a_german_one_of_its_image(data: TrainingData) -> None:
    paired = []
    assert len(data.train) == 200 and set(data.captions.language[data.train].tolist()) == {0}
    for epoch in (1, 1, 2):
        generator = Generator().manual_seed(epoch)
        parts = [data.sampler.sample(rows, generator).captions["de"] for rows in data.train.split(50)]
        german = torch.cat(parts)
        assert torch.equal(data.captions.image[german], data.captions.image[data.train])
        assert len(german.unique()) == 200 and set(data.captions.language[german].tolist()) == {1}
        paired.append(german)
    assert torch.equal(paired[0], paired[1]) and not torch.equal(paired[0], paired[2])


def test_the_loss_is_the_sum_of_its_terms(data: TrainingData, german: Path) -> None:
    given = {"gamma": 0.5, "diversity_weight": 2.0, "warm_up": 0, "negative_families": ("noun",)}
    config = configure(german, german / "m", **{**SMALL_MHAD, **given})
    model = MHA_D.build(config, 22, len(data.vocabulary), None, (len(data.vocabularies["de"]), None))
    rows = data.train[:20]
    sampled = data.sampler.sample(rows, Generator().manual_seed(1))
    same = data.captions.image[rows][:, None] == data.captions.image[rows][None]
    features = data.features.values[data.captions.image[rows]]
    terms = MHA_D.losses(model, CaptionBatch(rows, features, same, data.texts), sampled, config, 1)
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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--language en,fr", "languages must be of the captions in .*, de, en, were: fr"),
        ("--language EN", "languages must be different ISO 639 codes such as en, were: EN"),
        ("--model vse++ --language en,de", "languages must be one for vse\\+\\+, were: en, de"),
        ("--model vse-c --language de", "languages must have en, as negatives are English, were: de"),
        ("--set other_vectors=de=no.txt --language en", "must be of the further languages, none, were: de"),
        ("--set heads=0", "heads must be >= 1, was: 0"),
        ("--similarity order", "similarity is no setting of mha-d"),
        ("--model vse --set text_encoder=attention", "joint must be a multiple of 2 \\* heads, 6, was"),
    ],
)
def test_settings_that_are_refused(
    german: Path, tmp_path: Path, given: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "m"
    assert main(["train", str(german), "--model", "mha-d", "--output", str(output), *given.split()]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and re.search(message, told) and not output.exists()


def test_word_vectors_of_each_language(german: Path, tmp_path: Path) -> None:
    for name, word in (("en", "dog"), ("de", "hund")):
        np.savez(tmp_path / f"{name}.npz", words=np.array([word]), vectors=np.full((1, 8), 0.5, np.float32))
    files = {"vectors": tmp_path / "en.npz", "other_vectors": (("de", tmp_path / "de.npz"),), "tune_vectors": False}
    folder = train(configure(german, tmp_path / "m", **{**SMALL_MHAD, "epochs": 1, **files}))
    model, vocabularies, _ = load_model(folder, CPU)
    assert model.text["en"].embedding.weight[vocabularies["en"].ids["dog"]].eq(0.5).all()
    words = json.loads((folder / "vocabulary.de.json").read_text())
    assert model.text["de"].embedding.weight[words.index("hund")].eq(0.5).all()
    with pytest.raises(ValueError, match=r"numbers \(n, 9\), has"):
        train(configure(german, tmp_path / "n", **{**SMALL_MHAD, "word_dim": 9, **files}))
    assert not (tmp_path / "n").exists()


@pytest.mark.usefixtures("drawn")
def test_pictures_of_heads_and_of_the_joint_space(
    mhad: Path, german: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    photo = photos / "scene0101.png"
    Image.new("RGB", (30, 20), "red").save(photo)

    def pictures(output: Path, *given: object) -> int:
        arguments = ("probe", "pictures", german, "--model", mhad, "--output", output, *given)
        return main([str(argument) for argument in arguments])

    for output, given in ((tmp_path / "alone", ()), (tmp_path / "out", ("--images", photos))):
        assert pictures(output, "--best", 2, *given) == 0
        assert capsys.readouterr().out.splitlines() == [str(output / "heads.png"), str(output / "views.png")]
        heads, views = (Image.open(io.BytesIO((output / name).read_bytes())) for name in ("heads.png", "views.png"))
        assert heads.size[0] > 1000 and (heads.size[1] < 300) == bool(given) and views.size == (900, 900)
        assert len(np.unique(np.asarray(heads.convert("L")))) > 50
    photo.unlink()
    assert pictures(tmp_path / "none", "--images", photos) == 2
    assert "must have photos of images with features in" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_the_weights_of_a_picture_are_those_of_the_model(mhad: Path, german: Path, data: TrainingData) -> None:
    model, vocabularies, _ = load_model(mhad, CPU)
    words, weights = attended_words(model, "en", data.texts, int(data.train[0]), vocabularies["en"])
    assert words[0] == "<start>" and words[-1] == "<end>" and weights.shape == (2, len(words))
    assert torch.allclose(weights.sum(1), torch.ones(2)) and grid_side(data.features.values[0]) == 2
    with pytest.raises(ValueError, match="features must be a square grid of regions, have the shape"):
        grid_side(data.features.values[0][:3])


def test_lengths_are_measured_by_the_cosine(
    mhad: Path, german: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["probe", "lengths", str(german), "--model", str(mhad), "--output", str(tmp_path), "--threads", "1"]
    assert main(given) == 0 and "| cosine | 20 | 20 |" in capsys.readouterr().out
