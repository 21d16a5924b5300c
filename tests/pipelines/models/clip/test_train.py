"""A tiny CLIP learns from drawn pictures, is read back by transformers, and is fine-tuned from its folder."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from negcap.pipelines.cli import main
from negcap.pipelines.models.clip import train
from negcap.pipelines.models.clip.towers import towers
from negcap.pipelines.models.fit import silent
from negcap.pipelines.models.settings import ClipConfig
from tests.pipelines.models.conftest import LossesAsBefore, history
from tests.pipelines.score.models import open_clip as random_open_clip

pytest.importorskip("transformers")
TINY: dict[str, Any] = {"width": 16, "layers": 1, "heads": 2, "size": 32, "patch": 8}
TINY |= {"epochs": 2, "batch_size": 16, "threads": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 drawn scenes with negatives of nouns, those that refine kept, and pictures of some negatives."""
    run = str(tmp_path_factory.mktemp("clip") / "run")
    one_process = ["--scheduler", "synchronous"]
    for arguments in (
        ["scenes", "--output", run, "--images", "40"],
        ["build", "--output", run, "--operator", "noun", *one_process],
        ["counterparts", run, "--share", "0.2"],
        ["refine", run, *one_process],
    ):
        assert main([*arguments, "--quiet"]) == 0
    return Path(run)


def config(run: Path, output: Path, **given: Any) -> ClipConfig:
    return ClipConfig(run=run, images=run / "images", output=output, **{**TINY, **given})


def test_losses_are_as_before(run: Path, tmp_path: Path, losses_as_before: LossesAsBefore) -> None:
    with losses_as_before("clip"):
        for objective in ("negclip", "ce-clip", "triplet-clip"):
            train.train_clip(config(run, tmp_path / objective, objective=objective), say=silent)


def test_what_is_trained_on(run: Path, tmp_path: Path) -> None:
    settings = config(run, tmp_path)
    pairs = train.CaptionedPictures(settings, ["train"])

    def epoch(seed: int) -> torch.Tensor:
        return torch.cat(list(train.batches_of_one_caption_per_image(pairs, 16, torch.Generator().manual_seed(seed))))

    assert sorted(pairs.image[epoch(0)].tolist()) == list(range(len(pairs.files)))
    assert epoch(0).tolist() == epoch(0).tolist() != epoch(1).tolist()
    refined = train.CaptionedPictures(config(run, tmp_path / "m", refined=True), ["train"])
    assert 0 < len(refined.negatives) < len(pairs.negatives) and set(refined.negatives) < set(pairs.negatives)


def test_negatives_with_words_that_the_model_does_not_know_are_not_trained_on(run: Path, tmp_path: Path) -> None:
    settings = config(run, tmp_path)
    pairs = train.CaptionedPictures(settings, ["train"])
    known = pairs.known_to(towers(settings, train.frequent_words(pairs.texts)))
    inserted = [
        set(train.frequent_words([false] * 2)) - {*train.frequent_words([pairs.texts[owner]] * 2)}
        for false, owner in zip(pairs.negatives, pairs.owner.tolist(), strict=True)
    ]
    assert known.tolist() == [words <= set(train.frequent_words(pairs.texts)) for words in inserted] and not known.all()
    assert pairs.count_unknown(known)["noun"] == (len(known), int((~known).sum()))
    sampler = train.sampler_of(pairs, known, settings)
    sampled = sampler.sample(torch.arange(len(pairs.texts)), torch.Generator().manual_seed(0))
    assert known[sampled.rows].all() and torch.equal(pairs.owner[sampled.rows], sampled.owner)


def test_a_counterpart_of_each_caption_that_has_any_is_sampled() -> None:
    owner = torch.tensor([1, 1, 4])
    rows, positions = train.sample_counterparts(owner, torch.tensor([4, 0, 1]), torch.Generator().manual_seed(0))
    assert positions.tolist() == [0, 2] and owner[rows].tolist() == [4, 1]


def test_a_clip_trains_and_is_read_by_transformers(run: Path, tmp_path: Path) -> None:
    import transformers

    folder = train.train_clip(config(run, tmp_path / "m", objective="siglip", epochs=6, learning_rate=3e-3), say=silent)
    first, *_, last = history(folder)
    assert last["loss"] < 0.97 * first["loss"] and set(last["validation"]["pairs"]) == {"noun", "mean"}
    clip = transformers.AutoModel.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(["A red cat sits."])["input_ids"][0]
    assert (ids[0], ids[-1]) == (clip.config.text_config.bos_token_id, clip.config.text_config.eos_token_id)
    with pytest.raises(FileExistsError, match="--overwrite"):
        train.train_clip(config(run, tmp_path / "m"), say=silent)


def test_the_same_config_gives_the_same_weights_and_weights_are_fine_tuned(run: Path, tmp_path: Path) -> None:
    import transformers

    first, again = (train.train_clip(config(run, tmp_path / name, epochs=1), say=silent) for name in "ab")
    assert (first / "model.safetensors").read_bytes() == (again / "model.safetensors").read_bytes()
    decay = {"weight_decay": 900.0, "learning_rate": 1e-3}
    tuned = train.train_clip(config(run, tmp_path / "c", model=f"hf:{first}", **decay), say=silent)
    clip = transformers.AutoModel.from_pretrained(tuned)
    assert float(clip.logit_scale.detach()) == pytest.approx(math.log(1 / 0.07), abs=0.1)  # only matrices decay
    assert float(clip.text_projection.weight.detach().abs().max()) < 0.05


@pytest.mark.filterwarnings("ignore")
@pytest.mark.consumer("open_clip")
def test_a_model_of_open_clip_is_fine_tuned(run: Path, tmp_path: Path) -> None:
    import open_clip

    before = random_open_clip(tmp_path).state_dict()
    settings: dict[str, Any] = {"epochs": 5, "learning_rate": 2e-3}
    first = train.train_clip(config(run, tmp_path / "1", model=f"open_clip:tiny:{tmp_path / 'tiny.pt'}", **settings))
    second = train.train_clip(config(run, tmp_path / "2", model=f"open_clip:{first}", **settings))
    losses = [line["loss"] for folder in (first, second) for line in history(folder)]
    assert min(losses[5:]) < 0.95 * losses[0]  # the second goes on where the first was saved
    after = open_clip.create_model(f"local-dir:{second}").state_dict()
    assert after.keys() == before.keys()
    assert sum(not torch.equal(value, after[name]) for name, value in before.items()) > 20


@pytest.mark.parametrize(("flags", "fact"), [
    ("--images {empty}", "images must have every image of the captions"),
    ("--images {images} --refined", "run negcap refine"),
    ("--images {images} --set objective=triplet-clip", "run negcap counterparts"),
    ("--images {images} --negative-family numeral", "needs negatives of the families numeral"),
    ("--images {images} --set validation_split=dev", "has no captions of split dev, only of train, val, test"),
])  # fmt: skip
def test_bad_input_is_one_line_and_writes_nothing(run, tmp_path, flags, fact, capsys):
    bare = tmp_path / "bare"  # a run without refined negatives and counterparts
    shutil.copytree(run, bare, ignore=shutil.ignore_patterns("refined*", "counterparts*"))
    given = flags.format(empty=tmp_path / "bare", images=bare / "images").split()
    assert main(["finetune", str(bare), "--output", str(tmp_path / "m"), "--quiet", *given]) == 2
    assert fact in capsys.readouterr().err and not (tmp_path / "m").exists()
