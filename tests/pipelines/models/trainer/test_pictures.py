"""Figures of a small model: the photos and regions that a query finds, and what is drawn."""

from math import exp
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from negcap.pipelines.cli import main
from negcap.pipelines.models.config import configure
from negcap.pipelines.models.data import Phrase
from negcap.pipelines.models.trainer.pictures import PictureConfig, draw_pictures, find_relevance, read_query
from negcap.pipelines.models.trainer.train import train
from negcap.pipelines.models.univse.model import UniVSE
from negcap.pipelines.models.vocabulary import SPECIALS, WordVocabulary
from tests.pipelines.models.univse.test_training import SMALL
from tests.pipelines.models.univse.univse_world import write_univse_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_univse_world(tmp_path_factory.mktemp("world"), [("train", 60), ("test", 10)])


@pytest.fixture(scope="module")
def model(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(configure(world, tmp_path_factory.mktemp("model") / "m", "univse", **{**SMALL, "epochs": 1}))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for n in range(4):
        pixels = np.random.default_rng(n).integers(0, 255, (20, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"scene{n:04d}.png")
    return folder


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a dog", ("dog",)),
        ("a black dog", ("black", "dog")),
        ("a black dog on a couch", ("dog", "on", "couch")),
    ],
)
def test_a_query_is_parsed_as_a_caption(text: str, words: tuple[str, ...]) -> None:
    assert read_query(text) == Phrase(words, text)


def test_the_best_photos_come_first_with_the_relevance_of_their_regions() -> None:
    vocabulary = WordVocabulary((*SPECIALS, "dog"))
    made = UniVSE(configure(Path(), Path(), "univse", joint=4, word_dim=3, modifier_dim=2), 5, 5)
    dog = made.queries(vocabulary, [Phrase(("dog",), "dog")])[0]
    regions = torch.zeros(3, 4, 4)
    regions[2, 1], regions[0, 3] = dog, 0.5 * dog
    (row,) = find_relevance(made, vocabulary, [Phrase(("dog",), "a dog")], regions, 2)
    assert row.query == "a dog" and row.photos == [2, 0]
    assert row.scores == pytest.approx([1.0, 0.5])
    elsewhere, there = exp(-1 / 0.1), exp(-0.5 / 0.1)  # of a softmax at 0.1, divided by the greatest relevance
    maps = [[[elsewhere, 1], [elsewhere, elsewhere]], [[there, there], [there, 1]]]
    assert torch.allclose(row.maps, torch.tensor(maps), atol=1e-6)
    with pytest.raises(ValueError, match="words that the model knows, has: 'cat'"):
        find_relevance(made, vocabulary, [Phrase(("cat",), "a cat")], regions, 2)
    with pytest.raises(ValueError, match="must be a square grid of regions, have the shape"):
        find_relevance(made, vocabulary, [], regions[:, :3], 2)


@pytest.mark.usefixtures("drawn")
def test_picture_command(
    world: Path, model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--images", str(photos), "--query", "a red dog", "--query", "a hill", "--best", "2"]
    assert main(["probe", "pictures", str(world), "--model", str(model), "--output", str(tmp_path / "p"), *given]) == 0
    files = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [file.name for file in files] == ["relevance.png", "neighbours.png"]
    for file in files:
        with Image.open(file) as image:
            assert image.width > 300 and len(np.unique(np.asarray(image.convert("L")))) > 20
    assert main(["probe", "pictures", str(world), "--model", str(model), "--images", str(tmp_path / "none")]) == 2
    assert "images must be a folder" in capsys.readouterr().err


def test_pictures_that_cannot_be_drawn(world: Path, model: Path, photos: Path, tmp_path: Path) -> None:
    assert draw_pictures(model, world, photos, tmp_path / "p", PictureConfig(best=1))[0].name == "relevance.png"
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="must have photos of images with features"):
        draw_pictures(model, world, tmp_path / "empty", tmp_path / "q", PictureConfig())
    other = train(configure(world, tmp_path / "m", "vse++", joint=8, word_dim=4, epochs=1, validation_images=10))
    with pytest.raises(ValueError, match=r"pictures need a univse or mha-d model, .* is: vse\+\+"):
        draw_pictures(other, world, None, tmp_path / "r", PictureConfig())
    with pytest.raises(ValueError, match="best must be >= 1, was: 0"):
        PictureConfig(best=0)
