"""Embedding models trained on small worlds: what is learned, what is refused, and folders that are damaged."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save as to_bytes

from negcap.pipelines.models.batches import TrainingBatch
from negcap.pipelines.models.config import EvaluateConfig, LeftOutPart, configure, lacking_of_recipe
from negcap.pipelines.models.data import read_captions
from negcap.pipelines.models.dual import VSE_C
from negcap.pipelines.models.trainer import load_model
from negcap.pipelines.models.trainer.evaluate import in_left_out_part, measure
from negcap.pipelines.models.trainer.train import describe_epoch, make_batch, read_training_data, train
from negcap.schemas.captions import GENERATED
from tests.pipelines.models.conftest import SMALL_VSE, history
from tests.pipelines.models.worlds import write_features, write_world
from tests.tables import content, write_table

SMALL: dict[str, Any] = {
    **{"joint": 16, "word_dim": 8, "batch_size": 32, "learning_rate": 0.01, "validation_images": 30},
    **{"min_count": 2, "negatives": 4, "threads": 1, "average": 0.9, "dropout": 0.1},
}
CPU = torch.device("cpu")


def config(run: Path, output: Path, **given: Any) -> Any:
    return configure(run, output, **{**SMALL, **given})


def test_an_epoch_is_selected_under_attack(english: Path, tmp_path: Path) -> None:
    given = {"model": "vse-c", "epochs": 3, "select": "attacked", "validation_split": "test", "negatives_after": 1}
    progress: list[str] = []
    folder = train(config(english, tmp_path / "m", **given, min_count=15), say=progress.append)
    assert "insert a word that the model does not know" in progress[0] and "not trained on" in progress[0]
    attacked = [line["validation"]["attacked"] for line in history(folder)]
    best = json.loads((folder / "best.json").read_text())
    assert best["value"] == max(attacked) and best["epoch"] == 1 + attacked.index(max(attacked))
    total = measure(folder, english, EvaluateConfig(threads=1)).metrics["vse-c"]["total"]
    assert best["value"] == pytest.approx(sum(total[f"R@{k}"] for k in (1, 5, 10)))


def test_negatives_come_later(english: Path, tmp_path: Path) -> None:
    """The loss with negatives is that without them, and the hinge of the hardest negative of each caption."""
    settings = config(english, tmp_path, model="vse-c", negatives_after=2, warm_up=0)
    data: Any = read_training_data(settings)
    captions = data.train[:6]
    sampled = data.sampler.sample(captions, torch.Generator().manual_seed(0))
    model = VSE_C.build(settings, 22, len(data.vocabulary), None)
    image = data.captions.image[captions]
    batch = TrainingBatch(captions, data.features.values[image], image[:, None] == image[None, :], data.texts)
    with torch.no_grad():
        before, after = (VSE_C.losses(model, batch, sampled, settings, epoch)["sent"] for epoch in (2, 3))
        images, true = model.image(batch.features), model.sentences(data.texts, captions)
        false = model.sentences(data.texts, data.texts.captions + sampled.rows)
    rivals = 0.2 + images @ false.T - (images * true).sum(1)[:, None]
    added = sum(max(0.0, rivals[n][sampled.owner == n].max().item()) for n in range(6))
    assert after.item() == pytest.approx(before.item() + added, rel=1e-4)


def test_a_folder_of_another_model_is_rejected(english: Path, vse: Path, tmp_path: Path) -> None:
    given = configure(english, copytree(vse, tmp_path / "m"), **SMALL_VSE)
    with pytest.raises(ValueError, match=r"other settings: margin was 0.2, is now 0.3 \(--overwrite replaces it\)"):
        train(given.changed(margin=0.3))
    other = copytree(english, tmp_path / "other")
    write_features(other, [f"scene{n:04d}" for n in range(120)], np.ones((120, 22), np.float16))
    with pytest.raises(ValueError, match="its input features has changed"):
        train(given.changed(run=other))
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match="output must be a new folder, an empty one, or that of a model"):
        train(given.changed(output=tmp_path), overwrite=True)
    assert (tmp_path / "letter.txt").exists()


@pytest.mark.parametrize(("given", "message"), [
    ({"model": "vse-d"}, "was: vse-d; did you mean vse-c?"),
    ({"model": "infonce", "similarity": "order"}, "similarity is no setting of infonce"),
    ({"model": "infonce", "concreteness_margin": 0.1}, "concreteness_margin is for negclip and ce-clip"),
    ({"model": "ce-clip", "negative_families": ()}, "negative_families must not be empty"),
    ({"leave_out": "2/2"}, "a part, from 0, and how many there are, as in 0/2, was: 2/2"),
    ({"joint": 15}, "joint must be even for two directions, was: 15"),
    ({"text_encoder": "attention"}, "joint must be a multiple of 2 * heads, 6, was: 1024"),
    ({"model": "univse", "learn_alpha": True, "components": ()}, "learn_alpha is for univse with components"),
    ({"languages": ("EN",)}, "languages must be different ISO 639 codes such as en, were: EN"),
    ({"languages": ("en", "de")}, "languages must be one for vse++, were: en, de"),
    ({"model": "vse-c", "languages": ("de",)}, "languages must have en, as negatives are English, were: de"),
    ({"model": "mha-d", "languages": ("en",), "other_vectors": ("de=x",)}, "further languages, none, were: de"),
])  # fmt: skip
def test_settings_that_contradict_each_other(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        configure(Path(), Path(), **given)


@pytest.mark.parametrize(("given", "message"), [
    ({"model": "vse-c", "negative_families": ("adverb",)}, "negative_families must have negatives of train captions"),
    ({"select": "attacked", "negative_families": ("attribute",)}, "select attacked needs negatives of validation"),
    ({"learning_rate": 1e37}, "not finite|must be finite"),
    ({"grounded_dim": 4}, "grounded_dim needs vectors to be joined to"),
    ({"device": "cuda"}, "this torch sees no GPU"),
])  # fmt: skip
def test_trainings_that_cannot_run(english, tmp_path, monkeypatch, given, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=message):
        train(config(english, tmp_path / "m", epochs=8, **given))


def flipped(data: bytes) -> bytes:
    """The bytes with one bit near their end, among the numbers of weights, turned round."""
    place = len(data) - len(data) // 16
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def other_number(data: bytes) -> bytes:
    return data.replace(b'"steps": ', b'"steps": 1')


def gone(data: bytes) -> None:
    """The file is deleted."""


def reordered(data: bytes) -> bytes:
    """A vocabulary with its last two words exchanged."""
    *words, last_but_one, last = json.loads(data)
    return json.dumps([*words, last, last_but_one]).encode()


@pytest.mark.parametrize(("name", "damage"), [
    ("best.safetensors", flipped),
    ("best.safetensors", gone),
    ("last.safetensors", flipped),
    ("last.safetensors", b""),
    ("last.safetensors", to_bytes({"a": torch.ones(1)})),
    ("vocabulary.json", reordered),
    ("vocabulary.json", b'["<pad>", "<start>", "<end>", "<unk>", 5]'),
    ("config.json", b"null"),
    ("config.json", b"[" * 100_000),
    ("config.json", gone),
    ("metrics.jsonl", b'{"epoch": 1, "loss'),
    ("metrics.jsonl", other_number),
])  # fmt: skip
def test_a_damaged_model_is_neither_trained_on_nor_evaluated_and_overwrite_replaces_it(
    name: str, damage: Callable[[bytes], bytes | None] | bytes, english: Path, vse: Path, tmp_path: Path
) -> None:
    folder = copytree(vse, tmp_path / "m")
    data = damage if isinstance(damage, bytes) else damage((folder / name).read_bytes())
    (folder / name).unlink()
    if data is not None:
        (folder / name).write_bytes(data)
    before = content(folder)
    longer = configure(english, folder, **{**SMALL_VSE, "epochs": 4})
    with pytest.raises(ValueError, match=rf"{name} .*\(--overwrite replaces the whole model\)"):
        train(longer)
    assert content(folder) == before
    if name not in ("last.safetensors", "metrics.jsonl"):  # which only a training reads
        with pytest.raises((ValueError, FileNotFoundError), match=name):
            load_model(folder, CPU)
    said: list[str] = []
    train(longer.changed(epochs=1), overwrite=True, say=said.append)
    assert said[0].startswith(f"the model in {folder} is replaced: ") and name in said[0]
    load_model(folder, CPU)


def test_a_random_crop_of_each_image_is_trained_on_and_their_mean_is_evaluated(tmp_path: Path) -> None:
    run = write_world(tmp_path / "run", [("train", 100)])
    crops = np.arange(100 * 10 * 4).reshape(100, 10, 4).astype(np.float32)
    write_features(run, [f"scene{n:04d}" for n in range(100)], crops, table="features_crops")
    settings = config(run, tmp_path / "m", features="crops", image_pooling="crop", dropout=0.0, epochs=1)
    data = read_training_data(settings)
    captions, random = data.train[:32], torch.Generator().manual_seed(0)
    whole = data.features.values[data.captions.image[captions]]
    batches = [make_batch(data, captions, whole, settings, random).features for _ in range(20)]
    is_crop = torch.stack([(whole == features[:, None]).all(2) for features in batches])  # (20, 32, 10)
    assert (is_crop.sum(2) == 1).all() and is_crop.any(0).float().mean() > 0.7
    model = load_model(train(settings), CPU).model
    assert torch.allclose(model.image(whole), model.image(whole.mean(1)), atol=1e-6)


# generated captions


@pytest.fixture(scope="module")
def with_generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one generated caption for each image: for every second one a caption of the next image."""
    run = write_world(tmp_path_factory.mktemp("generated"), [("train", 200)])
    rows = [row for row in pq.read_table(run / "captions").to_pylist() if row["caption_id"].endswith(":0")]
    generated = []
    for n, row in enumerate(rows):
        text = rows[(n + n % 2) % len(rows)]["text"]
        caption_id = f"generated:{row['image_id']}:0"
        generated.append({**row, "caption_id": caption_id, "origin": "generated", "text": text})
    write_table(run, "generated", pa.Table.from_pylist(generated, GENERATED))
    return run


def test_the_first_captions_of_an_image_and_a_share_of_generated_ones(with_generated: Path, tmp_path: Path) -> None:
    settings = config(with_generated, tmp_path / "m", extra="generated", train_captions=1, extra_share=0.3, epochs=1)
    data = read_training_data(settings)
    # of 200 images, 30 of which are validated on
    assert len(data.train) == 340 and int(data.captions.are_extra(data.train).sum()) == 170
    assert set(data.captions.image[data.train].bincount().tolist()) == {0, 2}
    assert 170 / 32 < history(train(settings))[0]["steps"] < 300 / 32


def test_generated_captions_are_chosen_by_a_judge_that_has_not_seen_their_image(with_generated, vse, tmp_path):
    captions = read_captions(with_generated, "generated")
    part = LeftOutPart(0, 2)
    judge = train(config(with_generated, tmp_path / "judge", leave_out="0/2", epochs=4, validation_images=20))
    settings = config(with_generated, tmp_path / "m", extra="generated", judges=(judge,), judge_rank=10)
    data = read_training_data(settings)
    everything = read_training_data(settings.changed(judges=())).train
    seen = read_training_data(settings.changed(judges=(), extra="", leave_out="0/2")).train
    assert not in_left_out_part(captions, seen, part).any() and 100 < len(seen) < 240
    kept = data.train[data.captions.are_extra(data.train)]
    unseen = everything[in_left_out_part(captions, everything, part)]
    assert set(kept.tolist()) <= set(unseen.tolist())  # of images that the judge was trained on, none
    number = torch.tensor([int(captions.image_ids[n].removeprefix("scene")) for n in captions.image[kept].tolist()])
    assert (number % 2 == 0).float().mean() > 0.6 and len(kept) > 10  # mostly the true ones
    with pytest.raises(ValueError, match="judges must be trained with leave_out"):
        read_training_data(settings.changed(judges=(vse,)))


# what is said


@pytest.mark.parametrize(("model", "epoch", "margins", "hinges"), [
    *(("vse++", 2, margins, 2) for margins in (1.93, 2.07)),
    *(("vse++", 2, margins, None) for margins in (1.5, 3.0)),
    *(("vse++", 1, 2.0, None), ("vse", 9, 2.0, None)),  # the sum of hinges has no plateau
    *(("vse-c", 2, 3.0, 3), ("vse-c", 2, 2.0, None)),
])  # fmt: skip
def test_the_plateau_of_the_hardest_negative_is_named_in_a_line_of_progress(model, epoch, margins, hinges):
    settings = configure(Path(), Path(), model, warm_up=1, margin=0.3)
    line = {"epoch": epoch, "terms": {"sent": 0.3 * margins}, "loss": 1.0, "seconds": 2, "validation": {"rsum": 7}}
    assert (f"loss = {hinges} margins: on the plateau" in describe_epoch(settings, [line])) == (hinges is not None)


def test_a_recipe_without_its_word_vectors_is_told() -> None:
    for given in (("vse++", "paper", None), ("vse-c", "house", None), ("vse-c", "paper", Path("v.txt"))):
        assert not lacking_of_recipe(*given)
    assert "without --vectors FILE words begin with random ones" in lacking_of_recipe("vse-c", "paper", None)
