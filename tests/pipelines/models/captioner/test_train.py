"""The three phases of a captioner's training: what they learn from, what they write, and how they resume and stop."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from negcap.pipelines.models.captioner import train as training
from negcap.pipelines.models.captioner.model import Captioner, weights_file
from negcap.pipelines.models.captioner.train import Training, train
from negcap.pipelines.models.checkpoint import TIMES
from negcap.pipelines.models.settings import CaptionerConfig
from negcap.pipelines.models.vocabulary import UNKNOWN_ID
from tests.pipelines.models.conftest import history
from tests.pipelines.models.worlds import write_world

SMALL: dict[str, Any] = {
    **{"mle_epochs": 2, "discriminator_epochs": 1, "gan_epochs": 2, "stages": 2, "generator_steps": 2},
    **{"words": 12, "word_dim": 16, "hidden": 32, "joint": 16, "noise": 4, "dropout": 0.1, "min_count": 2},
    **{"batch_size": 32, "learning_rate": 1e-3, "supervised_rate": 1e-2, "alpha": 0.5, "beta": 0.5},
    **{"validation_images": 20, "threads": 1},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"), (("train", 120), ("test", 20)))


def config(world: Path, output: Path, **given: Any) -> CaptionerConfig:
    return CaptionerConfig(run=world, output=output, **{**SMALL, **given})


def lines(folder: Path) -> list[dict[str, Any]]:
    """Those of metrics.jsonl, without what differs between equal trainings."""
    return [{name: value for name, value in line.items() if name not in TIMES} for line in history(folder)]


def same_weights(first: Path, second: Path) -> bool:
    """Whether two files hold the same tensors."""
    tensors, others = load_file(first), load_file(second)
    return tensors.keys() == others.keys() and all(torch.equal(value, others[key]) for key, value in tensors.items())


def test_three_phases_learn_and_are_logged(world: Path, tmp_path: Path) -> None:
    folder = train(config(world, tmp_path / "m", mle_epochs=10, discriminator_epochs=4, gan_epochs=1))
    epochs = lines(folder)
    assert [line["phase"] for line in epochs] == ["mle"] * 10 + ["discriminator"] * 4 + ["gan"]
    assert epochs[9]["validation_loss"] < 1.1 < 2 < epochs[0]["loss"]
    accuracy = epochs[13]["accuracy"]
    assert accuracy["mismatched"] > 0.6 and accuracy["real"] > 0.7  # only the image tells them apart
    assert 0.27 < epochs[14]["reward"] < 0.74 and epochs[14]["entropy"] > 0
    assert all(len(line["samples"]) == 4 and line["distinct_2"] > 0 for line in epochs)
    best = min(epochs[:10], key=lambda line: line["validation_loss"])["epoch"]
    assert [json.loads((folder / f"{phase}.json").read_text())["epoch"] for phase in ("mle", "gan")] == [best, 15]


def test_losses_are_as_before_and_an_interrupted_training_ends_with_the_same_weights(world, tmp_path, losses_as_before):
    with losses_as_before("captioner"):
        whole = train(config(world, tmp_path / "whole"))
    part = tmp_path / "part"
    for stop in (1, 3, 4):  # after an epoch of each phase

        def stopped(line: str, stop: int = stop) -> None:
            if (part / "metrics.jsonl").exists() and len(lines(part)) == stop and "resumed" not in line:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(config(world, part), say=stopped)
    train(config(world, part))
    assert lines(part) == lines(whole)
    assert all(same_weights(whole / f"{name}.safetensors", part / f"{name}.safetensors") for name in ("gan", "last"))
    with pytest.raises(ValueError, match="trained with other settings: seed was 0, is now 1"):
        train(config(world, part, seed=1))
    assert len(lines(train(config(world, part, gan_epochs=3)))) == 6  # more epochs continue from there


def test_collapse_stops_with_the_last_good_generator(world, tmp_path, monkeypatch):
    """That of the first phase, or of the epochs of the third before the collapse."""
    short = {"mle_epochs": 1, "discriminator_epochs": 0}
    folder = train(config(world, tmp_path / "m", **short, gan_epochs=0))
    good = train(config(world, copytree(folder, tmp_path / "good"), **short, gan_epochs=1))
    before = (good / "gan.safetensors").read_bytes()
    monkeypatch.setattr(training, "distinct", lambda sentences, n: 0.0001)
    for _ in range(2):
        train(config(world, folder, **short, gan_epochs=5))
        assert [line.get("collapsed") for line in lines(folder)] == [None, True]
    assert same_weights(folder / "gan.safetensors", folder / "mle.safetensors")
    train(config(world, good, **short, gan_epochs=5))
    assert len(lines(good)) == 3 and (good / "gan.safetensors").read_bytes() == before


def test_the_discriminator_sees_no_captions_with_unknown_words_and_long_ones_are_cut(world: Path) -> None:
    material = Training(config(world, Path("m"), min_count=16, words=6))
    rows = material.train.tolist()
    full = Training(config(world, Path("m"), min_count=16))
    known = [row for row in rows if not (full.sentences(torch.tensor([row])).words == UNKNOWN_ID).any()]
    assert material.known.tolist() == known and 0 < len(known) < len(rows)
    sentences = material.sentences(material.train[:7])
    assert sentences.words.shape[1] <= 6 and int(sentences.lengths.max()) == 6
    assert (sentences.words[~sentences.mask] == 0).all()


def test_training_on_the_first_captions_of_each_image_validates_on_all(world: Path) -> None:
    full, first = (Training(config(world, Path("m"), train_captions=n)) for n in (None, 1))
    images = full.image[full.train].tolist()
    expected = [row for n, row in enumerate(full.train.tolist()) if images[n] not in images[:n]]
    assert first.train.tolist() == expected and len(expected) < len(images)
    assert torch.equal(first.validation, full.validation)


def test_a_folder_without_a_captioner_is_an_error(world: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no config.json: negcap captioner creates one"):
        weights_file(tmp_path, "gan")
    folder = train(config(world, tmp_path / "m", mle_epochs=1, discriminator_epochs=0, gan_epochs=0))
    with pytest.raises(FileNotFoundError, match="gan.safetensors is missing"):
        weights_file(folder, "gan")
    (folder / "vocabulary.json").write_text(json.dumps(["<pad>", "<start>", "<end>", "<unk>"]))
    with pytest.raises(ValueError, match="vocabulary.json is damaged"):
        Captioner(weights_file(folder, "mle"), torch.device("cpu"))
