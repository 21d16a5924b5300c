"""`negcap score` on a small run and on what is published of it, with every kind of model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.progress import Progress
from negcap.pipelines.engine.tables import verify
from negcap.pipelines.models.clip.pretrained import locate_open_clip, read_open_clip
from negcap.pipelines.score import encoders as vectors
from negcap.pipelines.score.encoders import ENCODERS, Encoder, hugging_face, open_clip, sentence_transformers
from negcap.pipelines.score.score import score
from negcap.pipelines.score.test_set import ScoreConfig, read_test_set
from tests.pipelines.publish.fixtures import published, rows, write_images, write_run
from tests.pipelines.score import models

IMAGES, TESTS = 12, 8


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("photos"), [f"p{i:03d}.jpg" for i in range(IMAGES)])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", *rows(IMAGES, TESTS))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run to publish from, and one of its test split alone."""
    folder, both = tmp_path_factory.mktemp("sources"), rows(IMAGES, TESTS)
    of_test = ([row for row in some if row["split"] == "test"] for some in both)
    return write_run(folder / "run", *both), write_run(folder / "test", *of_test)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.clip(tmp_path_factory.mktemp("model") / "clip")


def config(photos: Path, **given: Any) -> ScoreConfig:
    return ScoreConfig(**{"images": photos, "splits": ("test",), "resamples": 50, "device": "cpu", **given})


def values(source: Path, model: str, config: ScoreConfig) -> dict[tuple[str, str], float]:
    (found,) = score(source, [model], config, Progress())
    return {(one["protocol"], one["group"]): one["model"]["value"] for one in found["scores"]}


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_a_model_of_transformers_scores_as_its_own_forward_pass(
    kind: str, run: Path, photos: Path, tmp_path: Path
) -> None:
    import torch
    import transformers
    from PIL import Image

    folder = models.clip(tmp_path / kind, kind)
    found = values(run, f"hf:{folder}", config(photos))
    model = transformers.AutoModel.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = transformers.AutoImageProcessor.from_pretrained(folder, use_fast=False)
    first = [row for row in rows(IMAGES, TESTS)[1] if row["split"] == "test" and row["negative_id"].endswith(":0")]
    images = sorted({row["image_id"] for row in first})
    texts = sorted({row[name] for row in first for name in ("caption", "text")})
    padding = "max_length" if kind == "siglip" else True
    words = tokenizer(texts, padding=padding, truncation=True, return_tensors="pt")["input_ids"]
    opened = [Image.open(photos / f"{image}.jpg").convert("RGB") for image in images]
    with torch.no_grad():
        logits = model(input_ids=words, **processor(images=opened, return_tensors="pt")).logits_per_image
    right: dict[str, list[bool]] = {"noun": [], "numeral": []}
    for row in first:
        of_image = logits[images.index(row["image_id"])]
        true, false = (of_image[texts.index(row[name])] for name in ("caption", "text"))
        right[row["operator"]].append(bool(true > false + 1e-5))
    for operator, cases in right.items():
        assert found["pairs", operator] == pytest.approx(100 * np.mean(cases), abs=100 / len(cases) * 1.01)
    assert {found["pairs", operator] for operator in right} != {0.0}


def test_vectors_are_computed_once(run: Path, photos: Path, clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "ROWS", 10)
    asked: list[int] = []
    allowed = 30

    def counted(rest: str, config: ScoreConfig) -> Encoder:
        def texts(given: Any) -> np.ndarray:
            asked.append(len(given))
            if sum(asked) > allowed:
                raise OSError("the power is gone")
            return model.texts(given)

        model = hugging_face(rest, config)
        return model._replace(texts=texts)

    monkeypatch.setitem(ENCODERS, "hf", counted)
    with pytest.raises(OSError, match="the power is gone"):
        values(run, f"hf:{clip}", config(photos, batch=5))
    kept = sum(len(list((run / table.name).glob("*.parquet"))) for table in run.glob("embeddings_texts_*"))
    assert kept == 3
    allowed, asked[:] = 10**6, []
    first = values(run, f"hf:{clip}", config(photos, batch=5))
    texts = len(read_test_set(run, config(photos)).texts)
    assert sum(asked) == texts - 30
    allowed = -1  # the model is not needed again
    assert values(run, f"hf:{clip}", config(photos, batch=5)) == first
    assert not verify(run).problems


def test_lists_say_what_arrays_hold(
    run: Path, photos: Path, clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--split", "test", "--images", str(photos), "--quiet"]
    assert main(["score", str(run), "--lists", str(tmp_path / "lists"), *flags]) == 0
    images, texts = ((tmp_path / "lists" / name).read_text().splitlines() for name in ("images.txt", "texts.txt"))
    model = hugging_face(str(clip), ScoreConfig(device="cpu"))
    np.save(tmp_path / "i.npy", model.images([Path(name) for name in images]))
    np.save(tmp_path / "t.npy", model.texts(texts))
    named = f"npy:{tmp_path / 'i.npy'},{tmp_path / 't.npy'}"
    mine, theirs = (values(run, name, config(photos)) for name in (named, f"hf:{clip}"))
    assert mine == pytest.approx(theirs, abs=3)  # another batch, another rounding: a pair in forty may turn
    capsys.readouterr()
    assert main(["score", str(run), "--model", named, "--split", "test", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert {one["protocol"] for one in found["scores"]} >= {"pairs", "two captions", "image to text, own negatives"}
    for one in found["scores"]:
        assert one["without_image"] and (one["protocol"] != "pairs" or one["baseline"])
    (numeral,) = (one for one in found["scores"] if (one["protocol"], one["group"]) == ("pairs", "numeral"))
    assert numeral["baseline"]["value"] == 100.0  # they all say "dozen"
    for which, shape, message in (
        ("i", (3, 4), "i.npy: must have 8 rows, one per line of images.txt (--lists), has 3"),
        ("t", (len(texts), 4), "vectors of images and texts must be equally wide"),
        ("t", (len(texts), 4, 2), "t.npy: must be an array (n, d) of floats"),
    ):
        kept = (tmp_path / f"{which}.npy").read_bytes()
        np.save(tmp_path / f"{which}.npy", np.ones(shape, np.float32))
        assert main(["score", str(run), "--model", named, "--split", "test"]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
        (tmp_path / f"{which}.npy").write_bytes(kept)


@pytest.mark.parametrize("format", ["sugarcrepe", "sugarcrepe++", "aro", "negclip", "coco", "huggingface"])
def test_published_sets_have_the_pairs_of_their_run(
    format: str, sources: tuple[Path, Path], photos: Path, tmp_path: Path
) -> None:
    published(sources[0], tmp_path / "out", format, images=photos, per_operator=1)
    wanted = read_test_set(sources[1], config(photos, per_operator=1, splits=()))
    found = read_test_set(tmp_path / "out", config(photos, splits=()))

    def pairs(tests: Any) -> list[Any]:
        named = (
            (i, t, f, tests.operators[o])
            for i, t, f, o in tests.pairs[["image", "true", "false", "operator"]].itertuples(index=False)
        )
        operator = (lambda name: "all") if format == "negclip" else (lambda name: name)
        return sorted((tests.files[i].name, tests.texts[t], tests.texts[f], operator(o)) for i, t, f, o in named)

    assert pairs(found) == pairs(wanted) and len(pairs(found)) == TESTS * 9
    assert ((found.pairs["second"] >= 0).all()) == (format == "sugarcrepe++")


def test_winograd_pairs_of_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"image_0": "a", "image_1": "b", "caption_0": "mug in grass", "caption_1": "grass in mug", "tag": "Relation"}
    (tmp_path / "examples.jsonl").write_text(json.dumps(row) + "\n")
    np.save(tmp_path / "i.npy", np.eye(2))
    np.save(tmp_path / "t.npy", np.array([[0.9, 0.5], [0.8, 0.6]]))
    model = f"npy:{tmp_path / 'i.npy'},{tmp_path / 't.npy'}"
    assert main(["score", str(tmp_path), "--model", model, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert {one["protocol"]: (one["model"]["value"], one["chance"]) for one in found["scores"]} == {
        "text": (100.0, 25.0), "image": (0.0, 25.0), "group": (0.0, 100 / 6)
    }  # fmt: skip


def test_a_model_of_negcap_scores_pairs_as_evaluate_does(tmp_path: Path) -> None:
    from negcap.pipelines.models.config import EvaluateConfig, configure
    from negcap.pipelines.models.trainer.evaluate import measure
    from negcap.pipelines.models.trainer.train import train
    from tests.pipelines.models.trainer_world import write_world

    world = write_world(tmp_path / "world", [("train", 40), ("test", 25)])
    small: dict[str, Any] = {"joint": 8, "word_dim": 6, "batch_size": 16, "threads": 1, "min_count": 2}
    model = train(configure(world, tmp_path / "m", epochs=1, validation_images=10, **small))
    mine = values(world, f"negcap:{model}", ScoreConfig(splits=("test",), threads=1, per_operator=1))
    theirs = measure(model, world, EvaluateConfig(threads=1)).metrics["pairwise"]
    for operator in ("noun", "numeral", "preposition"):
        assert mine["pairs", operator] == pytest.approx(theirs[operator]["accuracy"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.consumer("open_clip")
def test_a_model_of_open_clip(run: Path, photos: Path, tmp_path: Path) -> None:
    import open_clip as library
    import torch

    model = models.open_clip(tmp_path)
    about = json.loads((tmp_path / "architectures" / "tiny.json").read_text())
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "open_clip_config.json").write_text(json.dumps({"model_cfg": about, "preprocess_cfg": {}}))
    torch.save(model.state_dict(), saved / "open_clip_pytorch_model.bin")
    one, two = (values(run, f"open_clip:{name}", config(photos)) for name in (f"tiny:{tmp_path / 'tiny.pt'}", saved))
    assert one == two
    tests = read_test_set(run, config(photos))
    mine = open_clip(f"tiny:{tmp_path / 'tiny.pt'}", ScoreConfig(device="cpu"))
    with torch.no_grad():
        theirs = model.encode_text(library.get_tokenizer("tiny")(list(tests.texts[:4]))).numpy()
    assert np.allclose(mine.texts(tests.texts[:4]), theirs, atol=1e-5)
    with pytest.raises(ValueError, match="open_clip has no architecture tinny; did you mean tiny?"):
        open_clip(f"tinny:{tmp_path / 'tiny.pt'}", ScoreConfig())


def in_hub(monkeypatch: pytest.MonkeyPatch, cache: Path, repository: str) -> Path:
    """The folder of a repository in an otherwise empty cache of the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    folder = cache / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0123abc")
    (folder / "snapshots" / "0123abc").mkdir(parents=True)
    return folder / "snapshots" / "0123abc"


def test_names_on_the_hub_are_read_from_its_cache(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from safetensors.torch import load_file

    kept = in_hub(monkeypatch, tmp_path, "tiny/clip-patch8")
    with pytest.raises(
        FileNotFoundError, match="neither a folder nor in the cache of the hub: hf download tiny/clip-patch8"
    ):
        hugging_face("tiny/clip-patch8", ScoreConfig())
    for file in clip.iterdir():
        if file.suffix != ".safetensors":
            (kept / file.name).symlink_to(file)
    torch.save(load_file(clip / "model.safetensors"), kept / "pytorch_model.bin")  # as OpenAI's are on the hub
    texts = ["a red kite", "a boat by the river"]
    named, own = (hugging_face(name, ScoreConfig(device="cpu")) for name in ("tiny/clip-patch8", str(clip)))
    assert named.name == "clip-patch8"
    assert np.array_equal(named.texts(texts), own.texts(texts))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.consumer("open_clip")
def test_open_clips_names_of_weights_are_read_from_the_hubs_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import open_clip as library
    import torch
    from safetensors.torch import save_file

    model = models.open_clip(tmp_path)
    about = library.get_pretrained_cfg("ViT-B-32", "openai")
    monkeypatch.setitem(library.pretrained._PRETRAINED, "tiny", {"openai": {**about, "mean": (0.0, 0.0, 0.0)}})
    kept = in_hub(monkeypatch, tmp_path / "hub", "timm/vit_base_patch32_clip_224.openai")
    with pytest.raises(
        FileNotFoundError, match="hf download timm/vit_base_patch32_clip_224.openai open_clip_model.saf"
    ):
        open_clip("tiny:openai", ScoreConfig())
    save_file(model.state_dict(), kept / "open_clip_model.safetensors")
    found = locate_open_clip("tiny:openai")
    loaded, transform, tokenizer = read_open_clip(found)
    assert found.weights.parent == kept and "QuickGELU" in repr(loaded)  # as these weights were trained with
    assert transform.transforms[-1].mean == (0.0, 0.0, 0.0)
    quick = library.create_model("tiny", pretrained=str(tmp_path / "tiny.pt"), force_quick_gelu=True).eval()
    with torch.no_grad():
        theirs = quick.encode_text(tokenizer(["a red kite"])).numpy()
    assert np.allclose(open_clip("tiny:openai", ScoreConfig(device="cpu")).texts(["a red kite"]), theirs, atol=1e-5)
    with pytest.raises(FileNotFoundError, match="no such file of weights, nor weights of tiny on the hub"):
        open_clip("tiny:laion9b", ScoreConfig())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.consumer("sentence_transformers")
def test_a_model_of_sentence_transformers(run: Path, photos: Path, clip: Path) -> None:
    tests = read_test_set(run, config(photos))
    model = sentence_transformers(str(clip), ScoreConfig(device="cpu"))
    plain = hugging_face(str(clip), ScoreConfig(device="cpu"))
    assert np.allclose(model.texts(tests.texts[:3]), plain.texts(tests.texts[:3]), atol=1e-4)
    files = [file for file in tests.files[:3] if file is not None]
    assert np.allclose(model.images(files), plain.images(files), atol=1e-4)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "hf:{empty}"], "hf must be a folder with config.json, {empty} has none"),
        (["--model", "hf:{clip}"], "clip needs the image files: --images FOLDER"),
        (["--model", "hf:{clip}", "--images", "{empty}"], "8 images missing from {empty}: p004.jpg, p005.jpg,"),
        (["--model", "vit:{clip}"], "model must be one of npy:IMAGES,TEXTS, negcap:FOLDER, hf:FOLDER,"),
        (["--model", "npy:a.npy"], "npy must be two files, npy:IMAGES.npy,TEXTS.npy, was: a.npy"),
        (["--model", "npy:a.npy,b.npy"], "a.npy: no such file"),
        (["--model", "negcap:{empty}"], "must be the folder of a trained model"),
        (["--model", "sentence-transformers:{empty}"], "must be a folder with modules.json or config.json"),
        (["--model", "endpoint:http://localhost:1"], "endpoint must be endpoint:URL#MODEL"),
        (["--model", "endpoint:ftp://x#m", "--images", "{photos}"], "url must be http(s)://host[:port]/path"),
        (["--model", "endpoint:http://localhost:1#m"], "needs the image files: --images FOLDER"),
        (
            ["--model", "endpoint:http://localhost:1/v1#m", "--images", "{photos}", "--set", "attempts=1"],
            "no connection",
        ),
        ([], "score needs a model: --model KIND:PATH"),
        (["--model", "hf:{clip}", "--operator", "verb"], "operator must be one of "),
    ],
)
def test_bad_input_is_one_line(
    flags: list[str], message: str, run: Path, photos: Path, clip: Path, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "empty").mkdir()
    names = {"clip": clip, "empty": tmp_path / "empty", "photos": photos}
    assert main(["score", str(run), "--split", "test", "--quiet", *(flag.format(**names) for flag in flags)]) == 2
    error = capsys.readouterr().err
    assert message.format(**names) in error and error.count("\n") == 1


def test_weights_must_be_whole(run: Path, photos: Path, clip: Path, tmp_path: Path) -> None:
    import shutil

    from safetensors.numpy import load_file, save_file

    shutil.copytree(clip, tmp_path / "cut")
    weights = load_file(clip / "model.safetensors")
    weights.pop("text_projection.weight")
    save_file(weights, tmp_path / "cut" / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match="must be those of the whole model, lack: text_projection.weight"):
        values(run, f"hf:{tmp_path / 'cut'}", config(photos))


def test_missing_images_are_left_out_and_counted(run: Path, photos: Path, clip: Path, tmp_path: Path) -> None:
    some = tmp_path / "some"
    some.mkdir()
    for file in sorted(photos.iterdir())[:-3]:
        (some / file.name).write_bytes(file.read_bytes())
    (found,) = score(run, [f"hf:{clip}"], config(some, skip_missing=True), Progress())
    assert found["about"]["images"] == TESTS - 3 and found["about"]["images left out, missing"] == 3
