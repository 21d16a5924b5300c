"""A tiny CLIP learns from drawn pictures, is read back by transformers, and is fine-tuned from its folder."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from negcap.pipelines.cli import main
from negcap.pipelines.models.clip.towers import towers
from negcap.pipelines.models.clip.train import (
    Pairs,
    batches,
    draw_counterparts,
    frequent_words,
    sampler_of,
    train_clip,
)
from negcap.pipelines.models.settings import ClipConfig
from tests.pipelines.models.golden_losses import losses_as_before
from tests.pipelines.score.models import open_clip as random_open_clip

pytest.importorskip("transformers")
TINY: dict[str, Any] = {"width": 16, "layers": 1, "heads": 2, "size": 32, "patch": 8}
TINY |= {"epochs": 2, "batch_size": 16, "threads": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 drawn scenes with negatives of nouns."""
    run = tmp_path_factory.mktemp("clip") / "run"
    for arguments in (
        ["scenes", "--output", str(run), "--images", "40"],
        ["build", "--output", str(run), "--operator", "noun", "--scheduler", "synchronous"],
    ):
        assert main([*arguments, "--quiet"]) == 0
    return run


def config(run: Path, output: Path, **given: Any) -> ClipConfig:
    return ClipConfig(run=run, images=run / "images", output=output, **{**TINY, **given})


def quiet(line: str) -> None:
    pass


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def counterparts(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run with pictures of negatives, and negatives that refine kept."""
    copy = shutil.copytree(run, tmp_path_factory.mktemp("counterparts") / "run")
    assert main(["counterparts", str(copy), "--share", "0.2", "--quiet"]) == 0
    assert main(["refine", str(copy), "--scheduler", "synchronous", "--quiet"]) == 0
    return copy


def test_losses_are_as_before(counterparts: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with losses_as_before("clip", request):
        for objective in ("negclip", "ce-clip", "triplet-clip"):
            train_clip(config(counterparts, tmp_path / objective, objective=objective), say=quiet)


def test_what_is_trained_on(run: Path, counterparts: Path, tmp_path: Path) -> None:
    settings = config(run, tmp_path)
    pairs = Pairs(settings, ["train"])
    drawn = [torch.cat(list(batches(pairs, settings, torch.Generator().manual_seed(seed)))) for seed in (0, 0, 1)]
    for captions in drawn:  # of every image one caption
        assert sorted(pairs.image[captions].tolist()) == list(range(len(pairs.files)))
    assert drawn[0].tolist() == drawn[1].tolist() != drawn[2].tolist()
    kept = Pairs(config(counterparts, tmp_path / "m", refined=True), ["train"])
    assert 0 < len(kept.negatives) < len(pairs.negatives) and set(kept.negatives) < set(pairs.negatives)
    clip = towers(settings, frequent_words(pairs.texts))
    only = set(frequent_words(pairs.negatives)) - set(frequent_words(pairs.texts))
    assert only and set(clip.tokens(sorted(only))[:, 1].tolist()) == {clip.unknown}
    known = pairs.known_to(clip)
    new = [
        set(frequent_words([false] * 2)) - {*frequent_words([pairs.texts[owner]] * 2)}
        for false, owner in zip(pairs.negatives, pairs.owner.tolist(), strict=True)
    ]
    assert known.tolist() == [words <= set(frequent_words(pairs.texts)) for words in new]
    sampler = sampler_of(pairs, known, settings)
    drawn = sampler.sample(torch.arange(len(pairs.texts)), torch.Generator().manual_seed(0))
    assert known[drawn.rows].all() and torch.equal(pairs.owner[drawn.rows], drawn.owner)
    assert pairs.inserting(known)["noun"] == (len(known), int((~known).sum())) and not known.all()
    owner, captions = torch.tensor([1, 1, 4]), torch.tensor([4, 0, 1])
    found, places = draw_counterparts(owner, captions, torch.Generator().manual_seed(0))
    assert places.tolist() == [0, 2] and owner[found].tolist() == [4, 1]


@pytest.mark.parametrize("objective", ["infonce", "siglip", "triplet-clip"])
def test_a_clip_trains_and_is_read_by_transformers(
    run: Path, counterparts: Path, tmp_path: Path, objective: str
) -> None:
    import transformers

    if objective == "triplet-clip":
        with pytest.raises(ValueError, match="triplet-clip needs pictures of negatives, .* run negcap counterparts"):
            train_clip(config(run, tmp_path / "m", objective=objective), say=quiet)
    settings = config(counterparts, tmp_path / "m", objective=objective, epochs=12, learning_rate=3e-3)
    folder = train_clip(settings, say=quiet)
    assert len(losses(folder)) == 12 and min(losses(folder)) < 0.96 * losses(folder)[0]
    line = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])
    assert set(line["validation"]["pairs"]) == {"noun", "mean"}
    clip = transformers.AutoModel.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(["A red cat sits."])["input_ids"][0]
    assert (ids[0], ids[-1]) == (clip.config.text_config.bos_token_id, clip.config.text_config.eos_token_id)
    with pytest.raises(FileExistsError, match="--overwrite to replace it"):
        train_clip(config(run, tmp_path / "m"), say=quiet)


def test_the_same_config_gives_the_same_weights_and_weights_are_fine_tuned(run: Path, tmp_path: Path) -> None:
    import transformers

    folders = [train_clip(config(run, tmp_path / name), say=quiet) for name in "ab"]
    one, other = (folder.joinpath("model.safetensors").read_bytes() for folder in folders)
    assert one == other
    given = {"model": f"hf:{folders[0]}", "weight_decay": 900.0, "learning_rate": 1e-3}
    tuned = train_clip(config(run, tmp_path / "c", **given), say=quiet)
    clip = transformers.AutoModel.from_pretrained(tuned)
    assert float(clip.logit_scale.detach()) == pytest.approx(math.log(1 / 0.07), abs=0.1)  # only matrices decay
    assert float(clip.text_projection.weight.detach().abs().max()) < 0.05


@pytest.mark.filterwarnings("ignore")
@pytest.mark.consumer("open_clip")
def test_a_model_of_open_clip_is_fine_tuned(run: Path, tmp_path: Path) -> None:
    import open_clip

    made = random_open_clip(tmp_path)
    found: list[float] = []
    for number, name in enumerate((f"tiny:{tmp_path / 'tiny.pt'}", tmp_path / "tuned0")):
        settings = config(run, tmp_path / f"tuned{number}", model=f"open_clip:{name}", epochs=5, learning_rate=2e-3)
        folder = train_clip(settings, say=quiet)
        found += losses(folder)
    assert min(found[5:]) < 0.95 * found[0]  # the second goes on where the first was saved
    read = open_clip.create_model(f"local-dir:{folder}").state_dict()
    moved = [name for name, value in made.state_dict().items() if not torch.equal(value, read[name])]
    assert read.keys() == made.state_dict().keys() and len(moved) > 20


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--images", "{empty}"], "images must have every image of the captions, "),
        (["--images", "{images}", "--model", "hf:{empty}"], "hf must be a folder with config.json, "),
        (["--images", "{images}", "--model", "vit"], "model must be hf:FOLDER or open_clip:FOLDER, was: vit"),
        (["--images", "{images}", "--model", "open_clip:{empty}"], "open_clip must be a folder with open_clip_config"),
        (["--images", "{images}", "--refined"], "has no refined negatives yet: run negcap refine"),
        (["--images", "{images}", "--negative-family", "numeral"], "negclip needs negatives of the families numeral"),
        (["--images", "{images}", "--set", "size=30"], "size must be a multiple of patch, 24, was: 30"),
        (
            ["--images", "{images}", "--set", "validation_split=dev"],
            "has no captions of split dev, only of train, val, test",
        ),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    run: Path, tmp_path: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    given = [flag.format(empty=tmp_path / "empty", images=run / "images") for flag in flags]
    assert main(["finetune", str(run), "--output", str(tmp_path / "m"), "--quiet", *given]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "m").exists()
