"""MHA-D: attention heads and losses against plain computations; two languages in training, evaluation and pictures."""

import json
from itertools import combinations_with_replacement, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Generator

from negcap.pipelines.cli import main
from negcap.pipelines.models.batches import TrainingBatch
from negcap.pipelines.models.config import EvaluateConfig, PictureConfig, configure
from negcap.pipelines.models.data import read_captions
from negcap.pipelines.models.encoders import AttentionHeads
from negcap.pipelines.models.losses import intra_pair_hinges, max_of_hinges
from negcap.pipelines.models.mhad import HINGES, MHA_D, RegionEncoder, diversity_loss, head_cosines
from negcap.pipelines.models.trainer import load_model
from negcap.pipelines.models.trainer.evaluate import measure, to_markdown
from negcap.pipelines.models.trainer.pictures import draw_pictures
from negcap.pipelines.models.trainer.train import read_training_data, train
from tests.pipelines.models.conftest import SMALL_MHAD, history

CONFIG = configure(Path(), Path(), "mha-d", joint=4, attention_dim=4, heads=2, transform="root", region_tanh=True)


def random_numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.double, generator=Generator().manual_seed(seed))


def test_weights_are_those_of_the_equation() -> None:
    heads = AttentionHeads(4, 6, 2, Generator().manual_seed(0)).double()
    states = random_numbers(1, 3, 4)
    attended = heads(states, torch.ones(1, 3, dtype=torch.bool))
    for k in range(2):
        query = torch.tanh(heads.of_context[k] @ heads.context[k])
        scores = torch.stack([query @ torch.tanh(heads.of_state[k] @ state) for state in states[0]])
        weights = torch.exp(scores) / torch.exp(scores).sum()
        assert torch.allclose(attended.weights[0, k], weights, atol=1e-6)
        assert torch.allclose(attended.vectors[0, k], weights @ states[0], atol=1e-6)


def test_padding_changes_no_image() -> None:
    encoder = RegionEncoder(CONFIG, 5, Generator().manual_seed(0))
    features = random_numbers(2, 3, 5).float()
    features[0, 0, 0] = 0
    assert encoder.attend(features).weights[0, :, 0].gt(0).all()  # one zero makes no padding
    padded = torch.cat([features, torch.zeros(2, 4, 5)], 1)
    assert torch.allclose(encoder(features), encoder(padded), atol=1e-6)
    assert encoder(torch.zeros(1, 3, 5)).isfinite().all()  # an image without features
    assert torch.allclose(encoder(features[:, 0]), encoder(features[:, :1]))


def test_the_readings_of_the_diversity_loss() -> None:
    equal, orthogonal = torch.ones(1, 2, 3), torch.eye(3)[None, :2]
    for reading, same, apart in (("distance", 0.1, 0.0), ("similarity", 0.9, 0.0), ("printed", 0.0, 0.1)):
        assert diversity_loss([equal], 0.1, reading).item() == pytest.approx(2 * same)  # (1, 2) and (2, 1)
        assert diversity_loss([orthogonal], 0.1, reading).item() == pytest.approx(2 * apart)
    heads = torch.tensor([[[2.0, 0], [1, 0]], [[0, 3], [1, 0]], [[1, 1], [-1, -1]]])
    assert torch.allclose(head_cosines(heads), torch.tensor([[1.0, 1], [0, 0], [-1, -1]]))


@pytest.mark.parametrize("reading", HINGES)
def test_all_pairs_of_views_and_of_different_heads_of_an_instance_count(reading: str) -> None:
    views = [random_numbers(3, 4, 5, seed=seed) for seed in range(3)]
    total = 0.0
    for first, second in combinations_with_replacement(views, 2):
        for p in range(3):
            for k, r in permutations(range(4), 2):
                total += HINGES[reading](torch.cosine_similarity(first[p, k], second[p, r], dim=0), 0.1).item()
    assert diversity_loss(views, 0.1, reading).item() == pytest.approx(total)


CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data(german: Path) -> Any:
    return read_training_data(configure(german, german / "m", **{**SMALL_MHAD, "negative_families": ("noun",)}))


def test_it_learns_both_languages(mhad: Path) -> None:
    last = history(mhad)[-1]
    validation = last["validation"]
    assert validation["i2t R@5"] > 50 and validation["de i2t R@5"] > 50  # chance: 25
    assert set(last["terms"]) == {"en", "de", "en-de", "diversity"}
    words = json.loads((mhad / "vocabulary.de.json").read_text())
    assert "hund" in words and "dog" not in words and "dog" in json.loads((mhad / "vocabulary.json").read_text())


def test_evaluation_has_tables_for_each_language(mhad: Path, german: Path) -> None:
    evaluation = measure(mhad, german, EvaluateConfig(threads=1))
    names = set(evaluation.ranks.query("candidates == 'plain:de' and direction == 't2i'")["query"])
    captions = read_captions(german, languages=("en", "de"))
    assert names == {captions.ids[n] for n in captions.in_language(captions.of_split("test"), "de").tolist()}
    heads = evaluation.metrics["heads"]
    text = to_markdown(evaluation.metrics)
    assert f"| images | {heads['images']:.2f} |" in text and "retrieval, de: 20 images, 40 captions" in text


def test_each_epoch_pairs_every_english_caption_with_a_german_one_of_its_image(data: Any) -> None:
    paired = []
    assert len(data.train) == 200 and set(data.captions.language[data.train].tolist()) == {0}
    for epoch in (1, 1, 2):
        generator = Generator().manual_seed(epoch)
        german = torch.cat([data.sampler.sample(rows, generator).captions["de"] for rows in data.train.split(50)])
        assert torch.equal(data.captions.image[german], data.captions.image[data.train])
        assert len(german.unique()) == 200 and set(data.captions.language[german].tolist()) == {1}
        paired.append(german)
    assert torch.equal(paired[0], paired[1]) and not torch.equal(paired[0], paired[2])


def test_the_loss_is_the_sum_of_its_terms(data: Any, german: Path) -> None:
    given = {"gamma": 0.5, "diversity_weight": 2.0, "warm_up": 0, "negative_families": ("noun",)}
    config = configure(german, german / "m", **{**SMALL_MHAD, **given})
    model = MHA_D.build(config, 22, len(data.vocabulary), None, (len(data.vocabularies["de"]), None))
    rows = data.train[:20]
    sampled = data.sampler.sample(rows, Generator().manual_seed(1))
    image = data.captions.image[rows]
    batch = TrainingBatch(rows, data.features.values[image], image[:, None] == image[None], data.texts)
    with torch.no_grad():
        terms = MHA_D.losses(model, batch, sampled, config, 1)
        v, e = model.image(batch.features), model.sentences(data.texts, rows)
        g = model.sentences(data.texts, sampled.captions["de"])
        false = model.sentences(data.texts, data.texts.captions + sampled.negatives.rows)
    owner = sampled.negatives.owner
    expected = {
        "en": max_of_hinges(v @ e.T, 0.2, batch.same_image),
        "de": max_of_hinges(v @ g.T, 0.2, batch.same_image),
        "en-de": 0.5 * max_of_hinges(e @ g.T, 0.2, batch.same_image),
        "diversity": 2 * diversity_loss([part.view(20, 2, 16) for part in (v, e, g)], 0.1, "distance"),
        "negatives": intra_pair_hinges((v * e).sum(1), (v[owner] * false).sum(1), owner, 0.2),
    }
    assert terms.keys() == expected.keys()
    for name, term in expected.items():
        assert terms[name].item() == pytest.approx(term.item(), rel=1e-5)


def test_word_vectors_of_each_language(german: Path, tmp_path: Path) -> None:
    words = {"en": "dog", "de": "hund"}
    for name, word in words.items():
        np.savez(tmp_path / f"{name}.npz", words=np.array([word]), vectors=np.full((1, 8), 0.5, np.float32))
    files = {"vectors": tmp_path / "en.npz", "other_vectors": (("de", tmp_path / "de.npz"),), "tune_vectors": False}
    loaded: Any = load_model(train(configure(german, tmp_path / "m", **{**SMALL_MHAD, "epochs": 1, **files})), CPU)
    for language, word in words.items():
        number = loaded.vocabularies[language].ids[word]
        assert loaded.model.text[language].embedding.weight[number].eq(0.5).all()
    with pytest.raises(ValueError, match=r"numbers \(n, 9\), has"):
        train(configure(german, tmp_path / "n", **{**SMALL_MHAD, "word_dim": 9, **files}))


@pytest.mark.usefixtures("drawn")
def test_pictures_of_heads_and_of_the_joint_space(mhad: Path, german: Path, tmp_path: Path) -> None:
    photo = tmp_path / "photos" / "scene0101.png"
    photo.parent.mkdir()
    Image.new("RGB", (30, 20), "red").save(photo)
    files = draw_pictures(mhad, german, photo.parent, tmp_path / "out", PictureConfig(best=2))
    assert [file.name for file in files] == ["heads.png", "views.png"]
    with Image.open(files[0]) as heads, Image.open(files[1]) as views:
        assert heads.width > 1000 and heads.height < 300 and views.size == (900, 900)
        assert len(np.unique(np.asarray(heads.convert("L")))) > 50
    photo.unlink()
    with pytest.raises(FileNotFoundError, match="must have photos of images with features in"):
        draw_pictures(mhad, german, photo.parent, tmp_path / "none", PictureConfig())


def test_lengths_are_measured_by_the_cosine(mhad, german, tmp_path, capsys):
    given = ["probe", "lengths", str(german), "--model", str(mhad), "--output", str(tmp_path), "--threads", "1"]
    assert main(given) == 0 and "| cosine | 20 | 20 |" in capsys.readouterr().out
