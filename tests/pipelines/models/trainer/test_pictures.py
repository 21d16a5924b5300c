"""Figures of a small model: the photos and regions that a query finds, and what is drawn."""

from math import exp
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from negcap.pipelines.models.config import PictureConfig, configure
from negcap.pipelines.models.data import QueryPhrase
from negcap.pipelines.models.trainer.pictures import Subject, common_phrases, draw_pictures, find_relevance
from negcap.pipelines.models.univse.model import UniVSE
from negcap.pipelines.models.vocabulary import SPECIALS, WordVocabulary


def test_the_best_photos_come_first_with_the_relevance_of_their_regions() -> None:
    vocabulary = WordVocabulary((*SPECIALS, "dog"))
    model = UniVSE(configure(Path(), Path(), "univse", joint=4, word_dim=3, modifier_dim=2), 5, 5)
    dog = model.queries(vocabulary, [QueryPhrase(("dog",), "dog")])[0]
    regions = torch.zeros(3, 4, 4)
    regions[2, 1], regions[0, 3] = dog, 0.5 * dog
    (relevance,) = find_relevance(model, vocabulary, [QueryPhrase(("dog",), "a dog")], regions, 2)
    assert relevance.photos == [2, 0] and relevance.scores == pytest.approx([1.0, 0.5])
    elsewhere, there = exp(-1 / 0.1), exp(-0.5 / 0.1)  # of a softmax at 0.1, divided by the greatest relevance
    maps = [[[elsewhere, 1], [elsewhere, elsewhere]], [[there, there], [there, 1]]]
    assert torch.allclose(relevance.maps, torch.tensor(maps), atol=1e-6)
    with pytest.raises(ValueError, match="words that the model knows, has: 'cat'"):
        find_relevance(model, vocabulary, [QueryPhrase(("cat",), "a cat")], regions, 2)
    with pytest.raises(ValueError, match="must be a square grid of regions, have the shape"):
        find_relevance(model, vocabulary, [], regions[:, :3], 2)


@pytest.mark.usefixtures("drawn")
def test_pictures_of_relevance_and_of_frequent_words(english: Path, univse: Path, vse: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for n in range(4):
        Image.new("RGB", (30, 20), (60 * n, 0, 0)).save(tmp_path / "photos" / f"scene{n:04d}.png")
    config = PictureConfig(queries=("a red dog", "a hill"), best=2)
    files = draw_pictures(univse, english, tmp_path / "photos", tmp_path / "p", config)
    assert [file.name for file in files] == ["relevance.png", "neighbours.png"]
    for file in files:
        with Image.open(file) as image:
            assert image.width > 300 and len(np.unique(np.asarray(image.convert("L")))) > 20
    for model, images, message in (
        (univse, "none", "images must be a folder"),
        (univse, "p", "must have photos of images with features"),
        (vse, "photos", "pictures need a univse or mha-d model, "),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            draw_pictures(model, english, tmp_path / images, tmp_path / "q", config)


def test_queries_are_those_that_the_captions_give(english: Path, univse: Path) -> None:
    subject = Subject(univse, english, None, torch.device("cpu"))
    phrases = common_phrases(english, subject.captions, range(20), subject.vocabularies["en"])
    assert {len(phrase.words) for phrase in phrases} == {1, 2, 3}
