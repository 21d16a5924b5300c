"""`negcap score` on a small run and on what is published of it, with every kind of model."""

import json
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from negcap.pipelines.cli import main
from negcap.pipelines.engine.progress import Progress
from negcap.pipelines.engine.tables import verify
from negcap.pipelines.models.clip.pretrained import locate_open_clip, read_open_clip
from negcap.pipelines.score import encoders
from negcap.pipelines.score.encoders import HuggingFaceEncoder, OpenClipEncoder
from negcap.pipelines.score.protocols import unit
from negcap.pipelines.score.score import ModelScores, score, to_text
from negcap.pipelines.score.test_set import ScoreConfig, TestSet, read_test_set
from tests.pipelines.publish.fixtures import published, rows, write_images, write_run
from tests.pipelines.score import models

IMAGES, TESTS = 12, 8
CPU = ScoreConfig(device="cpu")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("photos"), [f"p{i:03d}.jpg" for i in range(IMAGES)])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run") / "run", *rows(IMAGES, TESTS))


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.clip(tmp_path_factory.mktemp("model") / "clip")


def config(photos: Path, **given: Any) -> ScoreConfig:
    return ScoreConfig(**{"images": photos, "splits": ("test",), "resamples": 50, "device": "cpu", **given})


def values(source: Path, model: str, config: ScoreConfig) -> dict[tuple[str, str], float]:
    (found,) = score(source, [model], config, Progress())
    return {(row["protocol"], row["group"]): row["model"]["value"] for row in found["scores"]}


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_a_model_of_transformers_scores_as_its_own_forward_pass(kind, run, photos, tmp_path):
    import torch
    import transformers
    from PIL import Image

    folder = models.clip(tmp_path / kind, kind)
    found = values(run, f"hf:{folder}", config(photos))
    model = transformers.AutoModel.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = transformers.AutoImageProcessor.from_pretrained(folder, use_fast=False)
    first = [row for row in rows(IMAGES, TESTS)[1] if row["split"] == "test" and row["negative_id"].endswith(":0")]
    names = sorted({row["image_id"] for row in first})
    texts = sorted({row[name] for row in first for name in ("caption", "text")})
    padding = "max_length" if kind == "siglip" else True
    words = tokenizer(texts, padding=padding, truncation=True, return_tensors="pt")["input_ids"]
    images = processor(
        images=[Image.open(photos / f"{name}.jpg").convert("RGB") for name in names], return_tensors="pt"
    )
    with torch.no_grad():
        logits = model(input_ids=words, **images).logits_per_image
    for operator in ("noun", "numeral"):
        cases = []
        for row in (row for row in first if row["operator"] == operator):
            true, false = (logits[names.index(row["image_id"])][texts.index(row[side])] for side in ("caption", "text"))
            cases.append(bool(true > false + 1e-5))
        assert found["pairs", operator] == pytest.approx(100 * np.mean(cases), abs=100 / len(cases) * 1.01)
    assert {value for (protocol, _), value in found.items() if protocol == "pairs"} != {0.0}


def test_vectors_are_computed_once(photos: Path, clip: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", *rows(IMAGES, TESTS))
    asked: list[int] = []
    allowed = 30

    class Counted(HuggingFaceEncoder):
        def texts(self, texts: Sequence[str]) -> np.ndarray:
            asked.append(len(texts))
            if sum(asked) > allowed:
                raise OSError("the power is gone")
            return super().texts(texts)

    tests = read_test_set(run, config(photos))

    def vectors() -> np.ndarray:
        return encoders.embed(Counted(str(clip), CPU), tests, run, 5, Progress(), rows_per_shard=10).texts

    with pytest.raises(OSError, match="the power is gone"):
        vectors()
    assert sum(len(list(table.glob("*.parquet"))) for table in run.glob("embeddings_texts_*")) == 3
    allowed, asked[:] = 10**6, []
    first = vectors()
    assert sum(asked) == len(tests.texts) - 30
    allowed = -1  # the model is not needed again
    assert np.array_equal(vectors(), first) and not verify(run).problems


def test_arrays_in_the_order_of_the_lists_score_as_their_model_does(run, photos, clip, tmp_path, capsys):
    lists = tmp_path / "lists"
    assert main(["score", str(run), "--lists", str(lists), "--images", str(photos), "--split", "test", "--quiet"]) == 0
    images, texts = ((lists / f"{name}.txt").read_text().splitlines() for name in ("images", "texts"))
    model = HuggingFaceEncoder(str(clip), CPU)
    files = {"i": tmp_path / "i.npy", "t": tmp_path / "t.npy"}
    np.save(files["i"], model.images([Path(name) for name in images]))
    np.save(files["t"], model.texts(texts))

    def scored() -> ModelScores:
        return score(run, [f"npy:{files['i']},{files['t']}"], config(photos), Progress())[0]

    found = scored()
    mine = {(row["protocol"], row["group"]): row for row in found["scores"]}
    theirs = values(run, f"hf:{clip}", config(photos))
    assert {key: row["model"]["value"] for key, row in mine.items()} == pytest.approx(theirs, abs=3)  # a pair may turn
    assert {protocol for protocol, _ in mine} >= {"pairs", "two captions", "image to text, own negatives"}
    assert all(row["without_image"] and (row["protocol"] != "pairs" or row["baseline"]) for row in found["scores"])
    numeral = mine["pairs", "numeral"]
    assert numeral["baseline"] and numeral["baseline"]["value"] == 100.0  # they all say "dozen"
    assert numeral["baseline"]["name"] in to_text([found])
    capsys.readouterr()
    flags = ["--images", str(photos), "--split", "test", "--set", "resamples=50", "--json"]
    assert main(["score", str(run), "--model", f"npy:{files['i']},{files['t']}", *flags]) == 0
    assert json.loads(capsys.readouterr().out)[0]["scores"] == json.loads(json.dumps(found["scores"]))
    for name, shape, message in (
        ("t", (len(texts), 4), "vectors of images and texts must be equally wide"),
        ("t", (len(texts), 4, 2), "t.npy: must be an array"),
        ("i", (3, 4), "i.npy: must have 8 rows, one per line of images.txt"),
    ):
        np.save(files[name], np.ones(shape, np.float32))
        with pytest.raises(ValueError, match=message):
            scored()


@pytest.mark.parametrize("format", ["sugarcrepe++", "negclip", "coco"])
def test_published_sets_have_the_pairs_of_their_run(format: str, run: Path, photos: Path, tmp_path: Path) -> None:
    of_test = ([row for row in table if row["split"] == "test"] for table in rows(IMAGES, TESTS))
    wanted = read_test_set(write_run(tmp_path / "run", *of_test), config(photos, per_operator=1, splits=()))
    published(run, tmp_path / "out", format, images=photos, per_operator=1)
    found = read_test_set(tmp_path / "out", config(photos, splits=()))

    def pairs(tests: TestSet) -> list[Any]:
        operators = ["all" if format == "negclip" else name for name in tests.families]
        columns = tests.pairs[["image", "true", "false", "operator"]].itertuples(index=False)
        texts = tests.texts
        return sorted((tests.images[i].file.name, texts[t], texts[f], operators[o]) for i, t, f, o in columns)

    assert pairs(found) == pairs(wanted) and len(pairs(found)) == TESTS * 9
    assert ((found.pairs["second"] >= 0).all()) == (format == "sugarcrepe++")
    assert (list(found.families) == ["all"]) == (format == "negclip")  # its files are named by splits


def test_the_columns_of_its_first_row_say_what_a_file_of_a_set_is(tmp_path: Path) -> None:
    two = {"image_0": "a", "image_1": "b", "caption_0": "mug in grass", "caption_1": "grass in mug", "tag": "Relation"}
    (tmp_path / "examples.jsonl").write_text(json.dumps(two) + "\n")
    (tmp_path / "images.csv").write_text("image_id,path\n1,c.jpg\n")  # is passed over
    (tmp_path / "mcq.csv").write_text("image_path,correct_answer,caption_0,caption_1\nc.jpg,1,A cat.,A dog.\n")
    (tmp_path / "pairs.csv").write_text("image,caption,negative,kind\nd.jpg,A cow.,A big cow.,x\n")
    tests = read_test_set(tmp_path, ScoreConfig())
    assert tests.image_ids == ("a", "b", "c", "d") and list(tests.families) == ["Relation", "x"]
    assert tests.texts == ("mug in grass", "grass in mug", "A dog.", "A cat.", "A cow.", "A big cow.")
    assert tests.two_images.to_numpy().tolist() == [[0, 1, 0, 1, 0]] and tests.questions.false.tolist() == [[3]]
    assert tests.pairs.to_numpy().astype(int).tolist() == [[3, 4, 5, -1, 1, 1, 1]]
    assert not len(read_test_set(tmp_path, ScoreConfig(operators=("x",), per_operator=1)).two_images)
    (tmp_path / "pairs.csv").write_text("image,caption,negative\n,A cow.,A cat.\n")
    with pytest.raises(ValueError, match="pairs.csv: must be a published set .*record 1: image must"):
        read_test_set(tmp_path / "pairs.csv", ScoreConfig())
    with pytest.raises(ValueError, match="has no such file"):
        read_test_set(tmp_path / "images.csv", ScoreConfig())


def test_a_model_of_negcap_scores_pairs_as_evaluate_does(tmp_path: Path) -> None:
    from negcap.pipelines.models.config import EvaluateConfig, configure
    from negcap.pipelines.models.trainer.evaluate import measure
    from negcap.pipelines.models.trainer.train import train
    from tests.pipelines.models.worlds import write_world

    world = write_world(tmp_path / "world", [("train", 40), ("test", 25)])
    small: dict[str, Any] = {"joint": 8, "word_dim": 6, "batch_size": 16, "threads": 1, "min_count": 2}
    model = train(configure(world, tmp_path / "m", epochs=1, validation_images=10, **small))
    mine = values(world, f"negcap:{model}", ScoreConfig(splits=("test",), threads=1, per_operator=1))
    theirs = measure(model, world, EvaluateConfig(threads=1)).metrics["pairwise"]
    for operator in ("noun", "numeral", "preposition"):
        assert mine["pairs", operator] == pytest.approx(theirs[operator]["accuracy"])


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
    with pytest.raises(FileNotFoundError, match="nor in the cache of the hub: hf download tiny/clip-patch8"):
        HuggingFaceEncoder("tiny/clip-patch8", CPU)
    for file in clip.iterdir():
        if file.suffix != ".safetensors":
            (kept / file.name).symlink_to(file)
    torch.save(load_file(clip / "model.safetensors"), kept / "pytorch_model.bin")  # as OpenAI's are on the hub
    named, own = (HuggingFaceEncoder(name, CPU) for name in ("tiny/clip-patch8", str(clip)))
    assert named.name == "clip-patch8" and np.allclose(named.texts(["a red kite"]), own.texts(["a red kite"]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.consumer("open_clip")
def test_a_model_of_open_clip_by_its_weights_or_a_name_on_the_hub(run, photos, tmp_path, monkeypatch):
    import open_clip as library
    import torch
    from safetensors.torch import save_file

    model = models.open_clip(tmp_path)
    weights = tmp_path / "tiny.pt"
    texts = ["a red kite", "a blue boat"]

    def check(name: str, clip: Any) -> None:
        with torch.no_grad():
            vectors = clip.encode_text(library.get_tokenizer("tiny")(texts)).numpy()
        assert np.allclose(OpenClipEncoder(name, CPU).texts(texts), vectors, atol=1e-5)

    check(f"tiny:{weights}", model)
    openai = library.get_pretrained_cfg("ViT-B-32", "openai")
    monkeypatch.setitem(library.pretrained._PRETRAINED, "tiny", {"openai": {**openai, "mean": (0.0, 0.0, 0.0)}})
    kept = in_hub(monkeypatch, tmp_path / "hub", "timm/vit_base_patch32_clip_224.openai")
    for name, kind, message in (
        (f"tinny:{weights}", ValueError, "open_clip has no architecture tinny; did you mean tiny?"),
        ("tiny:openai", FileNotFoundError, "hf download timm/vit_base_patch32_clip_224.openai open_clip_model"),
    ):
        with pytest.raises(kind, match=message):
            OpenClipEncoder(name, CPU)
    save_file(model.state_dict(), kept / "open_clip_model.safetensors")
    loaded, transform, _ = read_open_clip(locate_open_clip("tiny:openai"))
    assert "QuickGELU" in repr(loaded) and transform.transforms[-1].mean == (0.0, 0.0, 0.0)  # as they were trained with
    check("tiny:openai", library.create_model("tiny", pretrained=str(weights), force_quick_gelu=True).eval())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.consumer("sentence_transformers")
def test_a_model_of_sentence_transformers(run: Path, photos: Path, clip: Path) -> None:
    tests = read_test_set(run, config(photos))
    model, plain = encoders.SentenceTransformersEncoder(str(clip), CPU), HuggingFaceEncoder(str(clip), CPU)
    files = tests.image_files("model")[:3]
    # some versions give vectors of other lengths
    for mine, theirs in (
        (model.texts(tests.texts[:3]), plain.texts(tests.texts[:3])),
        (model.images(files), plain.images(files)),
    ):
        assert np.allclose(unit(mine, "mine"), unit(theirs, "theirs"), atol=1e-4)


def test_a_model_that_cannot_be_asked_is_named(run: Path, clip: Path, tmp_path: Path) -> None:
    for model, message in {
        f"hf:{tmp_path}": "hf must be a folder with config.json, .* has none",
        f"hf:{clip}": "clip needs the image files: --images FOLDER",
        "npy:a.npy": "npy must be two files, npy:IMAGES.npy,TEXTS.npy, was: a.npy",
        "npy:a.npy,b.npy": "a.npy: no such file",
        f"negcap:{tmp_path}": "must be the folder of a trained model",
        f"sentence-transformers:{tmp_path}": "must be a folder with modules.json or config.json",
        "endpoint:http://localhost:1": "endpoint must be endpoint:URL#MODEL",
        "endpoint:http://localhost:1#m": "needs the image files: --images FOLDER",
    }.items():
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            score(run, [model], ScoreConfig(splits=("test",)), Progress())


def test_weights_must_be_whole(run: Path, photos: Path, clip: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    copytree(clip, tmp_path / "cut")
    weights = load_file(clip / "model.safetensors")
    weights.pop("text_projection.weight")
    save_file(weights, tmp_path / "cut" / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match="must be those of the whole model, lack: text_projection.weight"):
        values(run, f"hf:{tmp_path / 'cut'}", config(photos))
