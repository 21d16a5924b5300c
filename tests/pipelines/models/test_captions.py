from pathlib import Path

import pyarrow as pa
import pytest
import torch

from negcap.pipelines.models.captions import read_captions, split_captions
from negcap.schemas.captions import CAPTIONS
from tests.pipelines.models.trainer_world import write_table, write_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"), [("train", 30), ("test", 10)])


def test_split_captions(world: Path) -> None:
    captions = read_captions(world)
    there = torch.ones(40, dtype=torch.bool)
    train, held = split_captions(captions, ["train"], "val", 5, there)
    assert (len(train), len(held)) == (50, 10)
    assert not set(captions.image[train].tolist()) & set(captions.image[held].tolist())
    assert held.tolist() != train.tolist()[-10:] and held.tolist() != list(range(10))  # not the first or last ones
    train, held = split_captions(captions, ["train", "none"], "test", 5, there)
    assert (len(train), len(held)) == (60, 20)
    there[captions.image[0]] = False
    assert len(split_captions(captions, ["train"], "test", 5, there)[0]) == 58
    with pytest.raises(ValueError, match="have none: the splits are 'train', 'test'"):
        split_captions(captions, ["trian"], "test", 5, there)
    with pytest.raises(ValueError, match="no split 'val' and validation_images is 0"):
        split_captions(captions, ["train"], "val", 0, there)


def test_captions_beyond_an_images_fifth_are_left_out(tmp_path: Path) -> None:
    row = {"image": "b.png", "split": "test", "origin": "human", "text": "A hen.", "language": "en"}
    images = ["a", "b", "a", "b", "b", "a", "a", "a", "a", "b", "a", "c"]  # 7, 4 and 1 captions
    rows = [{**row, "caption_id": f"x:{n}", "image_id": image} for n, image in enumerate(images)]
    write_table(tmp_path, "captions", pa.Table.from_pylist(rows, CAPTIONS))
    captions, there = read_captions(tmp_path), torch.ones(3, dtype=torch.bool)
    assert captions.to_evaluate("test", there, None, 5).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 9, 11]
    assert captions.to_evaluate("test", there, 2, 1).tolist() == [0, 1]
    assert captions.to_evaluate("test", there, None).tolist() == list(range(12))


def test_captions_of_several_languages(tmp_path: Path) -> None:
    row = {"image": "b.png", "split": "train", "origin": "human", "text": "x"}
    said = [("a", "de"), ("a", "en"), ("b", "en"), ("b", "fr"), ("c", "de"), ("c", "en")]
    rows = [
        {**row, "caption_id": f"x:{n}", "image_id": image, "language": code} for n, (image, code) in enumerate(said)
    ]
    write_table(tmp_path, "captions", pa.Table.from_pylist(rows, CAPTIONS))
    captions = read_captions(tmp_path, languages=("en", "de"))
    assert captions.ids == ["x:0", "x:1", "x:2", "x:4", "x:5"] and captions.language.tolist() == [1, 0, 0, 1, 0]
    assert captions.in_language(torch.arange(5), "de").tolist() == [0, 3]
    assert captions.to_evaluate("train", torch.ones(3, dtype=torch.bool), None, 1, "de").tolist() == [0, 3]
    captions.require_every_language(torch.tensor([0, 1, 3, 4]), "to train on")
    message = r"every image to train on must have captions in en and de, b has none in: de \(1 of 3 images lack"
    with pytest.raises(ValueError, match=message):
        captions.require_every_language(torch.arange(5), "to train on")
    with pytest.raises(ValueError, match="languages must be of the captions in .*, de, en, fr, were: it"):
        read_captions(tmp_path, languages=("en", "it"))
