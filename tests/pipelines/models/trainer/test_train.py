import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save as to_bytes

from negcap.pipelines.cli import main
from negcap.pipelines.models.batches import CaptionBatch
from negcap.pipelines.models.config import EvaluateConfig, configure
from negcap.pipelines.models.data import read_captions
from negcap.pipelines.models.dual import VSE_C
from negcap.pipelines.models.registry import MODELS
from negcap.pipelines.models.trainer import load_model
from negcap.pipelines.models.trainer import train as trainer_train
from negcap.pipelines.models.trainer.evaluate import left_out, measure
from negcap.pipelines.models.trainer.train import make_batch, plateau, read_training_data, train
from negcap.pipelines.models.vocabulary import UNKNOWN_ID
from negcap.schemas.captions import GENERATED
from tests.pipelines.models.conftest import SMALL_VSE
from tests.pipelines.models.trainer_world import write_features, write_world
from tests.tables import write_table

SMALL: dict[str, Any] = {
    **{"joint": 16, "word_dim": 8, "batch_size": 32, "learning_rate": 0.01, "validation_images": 30},
    **{"min_count": 2, "negatives": 4, "threads": 1, "average": 0.9, "dropout": 0.1},
}


def config(run: Path, output: Path, **given: Any) -> Any:
    return configure(run, output, **{**SMALL, **given})


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("larger"))


@pytest.mark.parametrize(("model", "rate"), [("vse-c", 0.01), ("ce-clip", 0.02)])
def test_a_model_learns(larger: Path, tmp_path: Path, model: str, rate: float) -> None:
    progress: list[str] = []
    settings = config(larger, tmp_path / "m", model=model, epochs=3, learning_rate=rate)
    folder = train(settings, say=progress.append)
    history = lines(folder)
    assert [line["epoch"] for line in history] == [1, 2, 3]
    assert history[-1]["losses"][-1] < 0.75 * history[0]["losses"][0]
    best = json.loads((folder / "best.json").read_text())
    assert best["value"] == max(line["validation"]["rsum"] for line in history) > 230  # chance: 107
    assert next(line for line in history if line["epoch"] == best["epoch"])["validation"]["i2t R@1"] > 10  # chance: 3
    assert progress[0].startswith(f"{model}: 540 captions to train on, 60 to validate") and len(progress) == 4
    trained, _, _ = load_model(folder, torch.device("cpu"))
    if model == "ce-clip":
        assert (trained.thresholds > 0).any().item()
        assert trained.log_scale.item() != pytest.approx(np.log(1 / 0.07), abs=1e-4)


def test_no_negative_that_is_trained_on_has_a_new_unknown_word(larger: Path, tmp_path: Path) -> None:
    settings = config(larger, tmp_path / "m", model="vse-c", epochs=1, min_count=45)  # nouns in the plural are rarer
    data = read_training_data(settings)
    unknown = data.texts.tokens == UNKNOWN_ID
    per_text = torch.zeros(len(data.texts.offsets)).index_add(
        0,
        torch.repeat_interleave(torch.arange(len(data.texts.offsets) - 1), data.texts.offsets.diff()),
        unknown.float(),
    )
    every = torch.arange(len(data.known))
    assert (per_text[data.texts.captions + every] <= per_text[data.negative_caption]).all()
    assert per_text[: data.texts.captions].any()  # captions with unknown words are trained on
    progress: list[str] = []
    train(settings, say=progress.append)
    shares = {name: counts.share for name, counts in data.inserting.items()}
    assert shares["noun"] > 1 and shares["preposition"] == 0
    assert (
        f"noun {shares['noun']:.1f}, numeral" in progress[0]
        and "they are not trained on; for more of known words, build with --set lexicon=own" in progress[0]
    )


def test_an_epoch_is_selected_under_attack(english: Path, tmp_path: Path) -> None:
    given = {"model": "vse-c", "epochs": 4, "select": "attacked", "validation_split": "test", "negatives_after": 1}
    folder = train(config(english, tmp_path / "m", **given))
    attacked = [line["validation"]["attacked"] for line in lines(folder)]
    best = json.loads((folder / "best.json").read_text())
    assert best["value"] == max(attacked) and best["epoch"] == 1 + attacked.index(max(attacked))
    total = measure(folder, english, EvaluateConfig(threads=1)).metrics["vse-c"]["total"]
    assert best["value"] == pytest.approx(sum(total[f"R@{k}"] for k in (1, 5, 10)))


@pytest.mark.parametrize("share", [False, True])
def test_negatives_may_be_shared_and_come_later(english: Path, tmp_path: Path, share: bool) -> None:
    settings = config(english, tmp_path, model="vse-c", share_negatives=share, negatives_after=2, warm_up=0)
    data = read_training_data(settings)
    captions = data.train[:6]
    drawn = data.sampler.sample(captions, torch.Generator().manual_seed(0))
    model, sampled = VSE_C.build(settings, 22, len(data.vocabulary), None), drawn
    features, image = data.features.values[data.captions.image[captions]], data.captions.image[captions]
    batch = CaptionBatch(captions, features, image[:, None] == image[None, :], data.texts)
    before, after = (VSE_C.losses(model, batch, drawn, settings, epoch)["sent"].item() for epoch in (2, 3))
    assert VSE_C.losses(model, batch, None, settings, 3)["sent"].item() == pytest.approx(before)
    with torch.no_grad():
        images, true = model.image(features), model.sentences(data.texts, captions)
        false = model.sentences(data.texts, data.texts.captions + sampled.rows)
    added = 0.0
    for n in range(6):
        own = [k for k in range(len(false)) if share or sampled.owner[k] == n]
        added += max(0.0, *(0.2 + float(images[n] @ false[k] - images[n] @ true[n]) for k in own))
    assert after == pytest.approx(before + added, rel=1e-4)


def test_a_folder_of_another_model_is_rejected(english: Path, vse: Path, tmp_path: Path) -> None:
    given = configure(english, copytree(vse, tmp_path / "m"), **SMALL_VSE)
    with pytest.raises(
        ValueError, match=r"trained with other settings: margin was 0.2, is now 0.3 \(--overwrite replaces it\)"
    ):
        train(given.changed(margin=0.3))
    other = copytree(english, tmp_path / "other")
    write_features(other, [f"scene{n:04d}" for n in range(120)], np.ones((120, 22), np.float16))
    with pytest.raises(ValueError, match="its input table features has changed"):
        train(given.changed(run=other))
    train(given.changed(margin=0.3, epochs=1), overwrite=True)
    assert json.loads((tmp_path / "m" / "config.json").read_text())["config"]["margin"] == 0.3
    assert len(lines(tmp_path / "m")) == 1
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match="output must be a new folder, an empty one, or that of a model"):
        train(given.changed(output=tmp_path / "full"), overwrite=True)
    assert (tmp_path / "full" / "letter.txt").exists()


def test_a_trained_model_keeps_both_parts_of_its_words(english: Path, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("red 1 2 3\nboat 3 2 1\n")
    train(config(english, tmp_path / "m", epochs=1, word_dim=3, vectors=tmp_path / "v.txt", grounded_dim=4))
    model, vocabularies, _ = load_model(tmp_path / "m", torch.device("cpu"))
    vocabulary = vocabularies["en"]
    assert model.text.embedding.fixed[vocabulary.ids["red"]].tolist() == [1, 2, 3]
    assert model.text.embedding.fixed[vocabulary.ids["dog"]].tolist() == [0, 0, 0]
    assert model.text.net.input_size == 7


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "vse-d"}, f"model must be one of {', '.join(MODELS)}, was: vse-d; did you mean vse-c?"),
        ({"model": "infonce", "similarity": "order"}, "similarity is no setting of infonce"),
        ({"model": "infonce", "concreteness_margin": 0.1}, "concreteness_margin is for negclip and ce-clip"),
        ({"model": "ce-clip", "negative_families": ()}, "negative_families must not be empty"),
        ({"marign": 1}, "marign is no setting of vse++; did you mean margin?"),
        ({"tune_vectors": "perhaps"}, "tune_vectors must be true or false, was: perhaps"),
        ({"leave_out": "2/2"}, "leave_out must be a part, from 0, and how many there are, as in 0/2, was: 2/2"),
        ({"extra_share": 0.0}, "extra_share must be > 0, was: 0.0"),
        ({"margin": float("nan")}, "margin must be > 0, was: nan"),
        ({"joint": 15}, "joint must be even for two directions, was: 15"),
        ({"pooling": "mean"}, "pooling must be one of max, last, was: mean"),
    ],
)
def test_bad_config(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        configure(Path(), Path(), **given)
    assert message in str(error.value)


NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"train_splits": ("trian",)}, "train_splits must have captions of images with features"),
        ({"model": "vse-c", "negative_families": ("adverb",)}, "negative_families must have negatives of train captio"),
        ({"select": "attacked", "negative_families": ("attribute",)}, "select attacked needs negatives of validation"),
        ({"validation_images": 0}, "validation needs captions"),
        ({"validation_images": 100}, "validation_images must be fewer than the "),
        ({"learning_rate": 1e37}, "not finite|must be finite"),
        ({"grounded_dim": 4}, "grounded_dim needs vectors to be joined to"),
        pytest.param({"device": "cuda"}, "this torch sees no GPU", marks=NO_GPU),
    ],
)
def test_trainings_that_cannot_run(english: Path, tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(config(english, tmp_path / "m", epochs=8, **given))


ODD_FILES = [
    *((name, stored) for name in ("config.json", "vocabulary.json") for stored in ("{", "null", "[" * 100_000)),
    ("config.json", "[]"),
    ("config.json", '{"config": [], "inputs": {}}'),
    ("vocabulary.json", "{}"),
    ("vocabulary.json", '["<pad>", "<start>", "<end>", "<unk>", 5]'),
]


def test_a_damaged_model_is_not_loaded(vse: Path, tmp_path: Path) -> None:
    folder = copytree(vse, tmp_path / "m")
    for name, stored in ODD_FILES:
        before = (folder / name).read_bytes()
        (folder / name).write_text(stored)
        with pytest.raises(ValueError, match=f"{name} (must be .* )?is damaged"):
            load_model(folder, torch.device("cpu"))
        (folder / name).write_bytes(before)
    (folder / "best.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="is missing: train the model first"):
        load_model(folder, torch.device("cpu"))
    with pytest.raises(FileNotFoundError, match="must be the folder of a trained model"):
        load_model(tmp_path, torch.device("cpu"))


def flipped(data: bytes) -> bytes:
    """The bytes with one bit near their end, among the numbers of weights, turned round."""
    place = len(data) - len(data) // 16
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def reordered(data: bytes) -> bytes:
    """A vocabulary with its last two words exchanged."""
    *words, one, other = json.loads(data)
    return json.dumps([*words, other, one]).encode()


BROKEN_FILES: dict[str, tuple[str, Callable[[bytes], bytes | None]]] = {  # by what happened to which file
    "best, a bit": ("best.safetensors", flipped),
    "best, cut": ("best.safetensors", lambda data: data[: len(data) // 2]),
    "best, gone": ("best.safetensors", lambda data: None),
    "last, a bit": ("last.safetensors", flipped),
    "last, cut": ("last.safetensors", lambda data: data[:100]),
    "last, empty": ("last.safetensors", lambda data: b""),
    "last, of tensors alone": ("last.safetensors", lambda data: to_bytes({"a": torch.ones(1)})),
    "words reordered": ("vocabulary.json", reordered),
    "words cut": ("vocabulary.json", lambda data: data[: len(data) // 2]),
    "words gone": ("vocabulary.json", lambda data: None),
    "config cut": ("config.json", lambda data: data[: len(data) // 2]),
    "config gone": ("config.json", lambda data: None),
    "history cut": ("metrics.jsonl", lambda data: data[: len(data) // 2]),
    "history, other numbers": ("metrics.jsonl", lambda data: data.replace(b'"steps": ', b'"steps": 1')),
    "history gone": ("metrics.jsonl", lambda data: None),
    "history, no objects": ("metrics.jsonl", lambda data: b"[1]\n"),
}


@pytest.mark.parametrize("what", BROKEN_FILES)
def test_a_damaged_model_is_neither_trained_on_nor_evaluated_and_overwrite_replaces_it(
    what: str, english: Path, vse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, (name, broken) = copytree(vse, tmp_path / "m"), BROKEN_FILES[what]
    data = broken((folder / name).read_bytes())
    if data is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(data)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    longer = configure(english, folder, **{**SMALL_VSE, "epochs": 4})
    with pytest.raises(ValueError, match=rf"{name} .*\(--overwrite replaces the whole model\)"):
        train(longer)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    if name not in ("last.safetensors", "metrics.jsonl"):  # which only a training reads
        assert main(["evaluate", str(folder), str(english), "--split", "test"]) == 2
        assert name in capsys.readouterr().err
    said: list[str] = []
    short = configure(english, folder, **{**SMALL_VSE, "epochs": 1})
    train(short, overwrite=True, say=said.append)
    assert said[0].startswith(f"the model in {folder} is replaced: ") and name in said[0]
    assert len(lines(folder)) == 1
    load_model(folder, torch.device("cpu"))
    whole = train(short.changed(output=tmp_path / "whole"))
    for weights in ("best.safetensors", "last.safetensors"):
        assert (folder / weights).read_bytes() == (whole / weights).read_bytes()


@pytest.mark.parametrize("joint", ["1000000000000000", "1000000000000000000", "1" + 30 * "0"])
def test_a_model_that_no_memory_holds_is_one_line(
    joint: str, english: Path, vse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", str(english), "--output", str(tmp_path / "new"), "--joint", joint, "--quiet"]
    assert main(command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "memory" in line or "joint" in line
    assert not (tmp_path / "new").exists()
    folder = copytree(vse, tmp_path / "m")
    settings = json.loads((folder / "config.json").read_text())
    settings["config"]["joint"] = int(joint)
    (folder / "config.json").write_text(json.dumps(settings))
    assert main(["evaluate", str(folder), str(english), "--split", "test"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "config.json is damaged: it is not the file that best.safetensors was trained with" in line


def test_a_random_crop_of_each_image_is_trained_on_and_their_mean_is_evaluated(tmp_path: Path) -> None:
    run = write_world(tmp_path / "run", [("train", 100)])
    names = sorted({row["image_id"] for row in pq.read_table(run / "captions").to_pylist()})
    crops = np.arange(100 * 10 * 4).reshape(100, 10, 4).astype(np.float32)
    write_features(run, names, crops, table="features_crops")
    settings = config(run, tmp_path / "m", features="crops", image_pooling="crop", dropout=0.0, epochs=1)
    data = read_training_data(settings)
    captions, random = data.train[:32], torch.Generator().manual_seed(0)
    whole = data.features.values[data.captions.image[captions]]
    drawn = [make_batch(data, captions, whole, settings, random).features for _ in range(20)]
    is_crop = torch.stack([(whole == features[:, None]).all(2) for features in drawn])  # (20, 32, 10)
    assert (is_crop.sum(2) == 1).all() and is_crop.any(0).float().mean() > 0.7
    model, _, _ = load_model(train(settings), torch.device("cpu"))
    assert torch.allclose(model.image(whole), model.image(whole.mean(1)), atol=1e-6)


# generated captions


@pytest.fixture(scope="module")
def with_generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one generated caption for each image: for every second one a caption of the next image."""
    run = write_world(tmp_path_factory.mktemp("generated"), [("train", 200)])
    rows = [row for row in pq.read_table(run / "captions").to_pylist() if row["caption_id"].endswith(":0")]
    texts = [rows[(n + n % 2) % len(rows)]["text"] for n in range(len(rows))]
    made = [
        {**row, "caption_id": f"generated:{row['image_id']}:0", "origin": "generated", "text": text}
        for row, text in zip(rows, texts, strict=True)
    ]
    write_table(run, "generated", pa.Table.from_pylist(made, GENERATED))
    return run


def test_the_first_captions_of_an_image_and_a_share_of_generated_ones(with_generated: Path, tmp_path: Path) -> None:
    settings = config(with_generated, tmp_path / "m", extra="generated", train_captions=1, extra_share=0.3, epochs=1)
    data = read_training_data(settings)
    assert (
        len(data.train) == 340 and int(data.captions.are_extra(data.train).sum()) == 170
    )  # of 200 images, 30 of which are validated on
    assert set(data.captions.image[data.train].bincount().tolist()) == {0, 2}
    steps = lines(train(settings))[0]["steps"]
    assert 170 / 32 < steps < 300 / 32


def test_generated_captions_are_chosen_by_a_judge_that_has_not_seen_their_image(
    with_generated: Path, vse: Path, tmp_path: Path
) -> None:
    captions = read_captions(with_generated, "generated")
    judge = train(config(with_generated, tmp_path / "judge", leave_out="0/2", epochs=6, validation_images=20))
    settings = config(with_generated, tmp_path / "m", extra="generated", judges=(judge,), judge_rank=10)
    data = read_training_data(settings)
    everything = read_training_data(settings.changed(judges=())).train
    its = left_out(captions, everything, 0, 2)
    seen = read_training_data(settings.changed(judges=(), extra="", leave_out="0/2")).train
    assert not left_out(captions, seen, 0, 2).any() and 100 < len(seen) < 240
    kept = data.train[data.captions.are_extra(data.train)]
    assert set(kept.tolist()) <= set(everything[its].tolist())  # of images that the judge was trained on, none
    assert int((~data.captions.are_extra(data.train)).sum()) == 340
    number = torch.tensor([int(captions.image_ids[n].removeprefix("scene")) for n in captions.image[kept].tolist()])
    assert (number % 2 == 0).float().mean() > 0.6 and len(kept) > 10  # mostly the true ones
    with pytest.raises(ValueError, match="judges must be trained with leave_out"):
        read_training_data(settings.changed(judges=(vse,)))


def test_a_model_that_is_registered_is_trained_by_its_name(english: Path, tmp_path: Path) -> None:
    """In a new process: a name of the registry alone makes `negcap train --model` train it, not compare it."""
    program = (
        "import sys\n"
        "from negcap.pipelines.models import registry\n"
        "registry.MODELS['vse-new'] = registry.MODELS['vse++']\n"
        "from negcap.pipelines.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    arguments = ["train", str(english), "--model", "vse-new", "--output", str(tmp_path / "m"), "--epochs", "1"]
    small = [f"--set={name}={SMALL[name]}" for name in ("word_dim", "validation_images", "min_count")]
    command = [sys.executable, "-c", program, *arguments, *small, "--joint", "16", "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "vse-new: " in done.stderr and (tmp_path / "m" / "best.safetensors").is_file()
    assert not done.stdout and not (tmp_path / "m" / "comparison.md").exists()


@pytest.mark.parametrize(
    ("model", "epoch", "margins", "expected"),
    [
        ("vse++", 2, 2.0, 2),
        ("vse++", 2, 2.07, 2),
        ("vse++", 2, 1.93, 2),
        ("vse++", 2, 1.5, None),
        ("vse++", 2, 3.0, None),
        ("vse++", 1, 2.0, None),  # the sum of hinges has no plateau
        ("vse", 9, 2.0, None),
        ("vse-c", 2, 3.0, 3),
        ("vse-c", 2, 2.0, None),
        ("univse", 2, 2.0, 2),
        ("infonce", 2, 2.0, None),
    ],
)
def test_the_plateau_of_the_hardest_negative_is_named(
    model: str, epoch: int, margins: float, expected: int | None
) -> None:
    settings = configure(Path(), Path(), model, warm_up=1, margin=0.3)
    term = "itc" if model == "infonce" else "sent"
    said = plateau(settings, {"epoch": epoch, "terms": {term: 0.3 * margins}})
    assert said.startswith(f"loss = {expected} margins: on the plateau") if expected else not said


def test_a_line_of_progress_names_the_plateau(english: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a margin of half the loss, the last epoch of the same training is on it."""
    settings = config(english, tmp_path / "m", epochs=2, warm_up=1)
    progress: list[str] = []
    train(settings, say=progress.append)
    assert "margins" not in " ".join(progress)
    loss = lines(tmp_path / "m")[-1]["terms"]["sent"]
    monkeypatch.setattr(trainer_train, "plateau", partial(with_margin, loss / 2))
    train(settings.changed(output=tmp_path / "n"), say=progress.append)
    assert "; loss = 2 margins: on the plateau" in progress[-1] and "margins" not in progress[-2]


def with_margin(margin: float, settings: Any, line: dict[str, Any]) -> str:
    return plateau(settings.changed(margin=margin), line)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--model", "vse-c", "--recipe", "paper"], ["vse-c"]),
        (["--model", "univse", "--recipe", "paper", "--features", "grid"], ["univse"]),
        (["--model", "vse++", "--recipe", "paper"], []),  # whose paper begins with random vectors
        (["--model", "vse-c"], []),
        (["--model", "vse-c", "--recipe", "paper", "--vectors", "{tmp}/v.txt"], []),
        (["--model", "vse-c@paper,vse++,vse-c", "--split", "test"], ["vse-c"]),
    ],
)
def test_a_recipe_without_its_word_vectors_is_told(
    english: Path, tmp_path: Path, flags: list[str], said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "v.txt").write_text("red 1 2 3\nboat 3 2 1\n")
    given = [flag.format(tmp=tmp_path) for flag in flags]
    small = ["--joint", "16", "--set", "word_dim=3", "--set", "min_count=2", "--set", "validation_images=20"]
    assert main(["train", str(english), "--output", str(tmp_path / "m"), "--epochs", "1", *small, *given]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "begins with GloVe" in line]
    assert [line.split()[3] for line in told] == said
    assert all("without --vectors FILE words begin with random ones" in line for line in told)
