"""Every format read back as those read it who use it: by their package, or as their code does."""

import ast
import gc
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from PIL import Image

from negcap.pipelines.publish.formats import FORMATS
from negcap.pipelines.publish.negclip import neighbours
from negcap.pipelines.publish.publish import PublishConfig, publish
from negcap.pipelines.readers import ReadOptions, Record, read
from tests.pipelines.publish.fixtures import rows, write_images, write_run

IMAGES, TESTS = 14, 5
QUIRKS = {"“Wait,” she says": 0, 'A "quoted" sign; it\'s 1,5 m\\wide': 1}


class Toy(NamedTuple):
    run: Path
    images: Path
    captions: list[dict[str, Any]]
    negatives: list[dict[str, Any]]

    def texts(self, operator: str = "", split: str = "test") -> list[tuple[str, str, str]]:
        """(image, caption, negative) of every negative, as they were written into the run."""
        image = {row["image_id"]: row["image"] for row in self.captions}
        kept = [row for row in self.negatives if row["split"] == split and operator in ("", row["operator"])]
        return [(image[row["image_id"]], row["caption"], row["text"]) for row in kept]

    def first(self, operator: str) -> list[tuple[str, str, str]]:
        """The same of first draws."""
        ids = [n for n in self.negatives if n["split"] == "test" and n["operator"] == operator]
        return [row for row, n in zip(self.texts(operator), ids, strict=True) if n["negative_id"].endswith(":0")]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A run with quotes, commas, backslashes and signs beyond ASCII in its captions."""
    folder = tmp_path_factory.mktemp("toy")
    captions, negatives = rows(IMAGES, TESTS)
    for row in [*captions, *negatives]:
        for quirk, n in QUIRKS.items():
            if row["caption_id"].endswith(f":{n}"):
                for name in {"text", "caption"} & row.keys():
                    row[name] = f"{row[name]} {quirk}, 😀"
    images = write_images(folder / "images", [f"p{i:03d}.jpg" for i in range(IMAGES)])
    return Toy(write_run(folder / "run", captions, negatives), images, captions, negatives)


def size(file: str | Path) -> tuple[int, int]:
    with Image.open(file) as image:
        return image.size


def published(toy: Toy, output: Path, format: str, **given: Any) -> Path:
    options = {"license": "CC0-1.0", "allow_blind": True, "split": ("test",), "images": toy.images, **given}
    publish(toy.run, output, PublishConfig(format, **options), say=lambda _: None)
    return output


def test_sugarcrepe_as_clip_benchmark_reads_it(toy: Toy, tmp_path: Path) -> None:
    out = published(toy, tmp_path / "out", "sugarcrepe")
    for operator in ("noun", "numeral"):
        found = json.loads((out / f"{operator}.json").read_text(encoding="utf-8"))
        read = []
        for index in range(len(found)):
            data = found[str(index)]
            assert list(data) == ["filename", "caption", "negative_caption"]
            assert size(os.path.join(toy.images, data["filename"]))
            read.append(tuple(data.values()))
        assert read == toy.first(operator)


def test_sugarcrepe_pp_has_a_sibling_as_second_caption(toy: Toy, tmp_path: Path) -> None:
    found = json.loads((published(toy, tmp_path / "out", "sugarcrepe++") / "noun.json").read_text(encoding="utf-8"))
    image_of = {row["text"]: row["image"] for row in toy.captions}
    for number, data in enumerate(found):
        assert list(data) == ["id", "filename", "caption", "caption2", "negative_caption"] and data["id"] == number
        assert image_of[data["caption2"]] == data["filename"] and data["caption2"] != data["caption"]
    assert [(d["filename"], d["caption"], d["negative_caption"]) for d in found] == toy.first("noun")
    assert len({image_of[d["caption2"]] + d["caption2"] for d in found}) > TESTS


def test_aro_as_its_datasets_read_it(toy: Toy, tmp_path: Path) -> None:
    out = published(toy, tmp_path / "out", "aro", copy_images=True)
    dataset = json.loads((out / "noun.json").read_text(encoding="utf-8"))
    relations, attributes, read = [], [], []
    for item in dataset:  # VG_Relation.__init__ and __getitem__
        relations.append(item["relation_name"])
        attributes.append(f"{item['attributes'][0]}_{item['attributes'][1]}")
        image = Image.open(os.path.join(out, "images", item["image_path"])).convert("RGB")
        left, top = item["bbox_x"], item["bbox_y"]
        cropped = image.crop((left, top, left + item["bbox_w"], top + item["bbox_h"]))
        assert cropped.size == image.size
        read.append((item["image_path"], item["true_caption"], item["false_caption"]))
    assert read == toy.first("noun")
    replaced = [row for row in toy.negatives if row["split"] == "test" and row["negative_id"].endswith("noun:0")]
    assert relations == [row["replaced"] for row in replaced]
    assert attributes == [f"{row['replaced']}_{row['replacement']}" for row in replaced]


def test_aro_and_crepe_take_boxes(toy: Toy, tmp_path: Path) -> None:
    names = sorted({row["image_id"] for row in toy.captions})
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("image_id,x,y,width,height\n" + "".join(f"{name},1,2,3,4\n" for name in names))
    aro = json.loads((published(toy, tmp_path / "aro", "aro", images=None, boxes=boxes) / "noun.json").read_text())
    assert {tuple(row[f"bbox_{side}"] for side in "xywh") for row in aro} == {(1, 2, 3, 4)}
    crepe = pd.read_csv(published(toy, tmp_path / "crepe", "crepe", images=None, boxes=boxes) / "noun.csv")
    assert {tuple(row) for row in crepe[["x", "y", "width", "height"]].to_numpy().tolist()} == {(1, 2, 3, 4)}
    boxes.write_text("image_id,x,y,width,height\n")
    with pytest.raises(ValueError, match="no box for image p009: give --images, or its box in --boxes"):
        published(toy, tmp_path / "none", "aro", images=None, boxes=boxes)


def test_crepe_as_its_dataset_reads_it(toy: Toy, tmp_path: Path) -> None:
    out = published(toy, tmp_path / "out", "crepe")
    frame = pd.read_csv(out / "noun.csv", dtype={"image_id": str})
    assert list(frame.columns) == ["image_id", "caption", "hard_negs", "x", "y", "width", "height"]
    negatives = [ast.literal_eval(text) for text in frame["hard_negs"].tolist()]
    read = [
        (f"{image}.jpg", caption, negative)
        for image, caption, some in zip(frame["image_id"], frame["caption"], negatives, strict=True)
        for negative in some
    ]
    assert read == toy.texts("noun")
    for row in frame.itertuples():
        assert (row.x, row.y, row.width, row.height) == (0, 0, *size(toy.images / f"{row.image_id}.jpg"))


def test_negclip_as_its_dataset_reads_it(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(published(toy, tmp_path / "out", "negclip", copy_images=True))
    converters = {"neg_caption": ast.literal_eval, "neg_image": ast.literal_eval}
    frame = pd.read_csv("test.tsv", sep="\t", converters=converters)
    assert list(frame.columns) == ["Unnamed: 0", "title", "filepath", "neg_caption", "neg_image"]
    assert frame["Unnamed: 0"].tolist() == list(range(len(frame)))
    images, captions = frame["filepath"].tolist(), frame["title"].tolist()
    hard_captions, hard_images = frame["neg_caption"].tolist(), frame["neg_image"].tolist()
    rng = random.Random(0)
    for index in range(len(frame)):  # CsvDataset.__getitem__
        assert size(str(images[index]))
        assert rng.choice(hard_captions[index]) != captions[index]
        assert len(set(hard_images[index])) == 3
        for chosen in hard_images[index]:
            assert images[chosen] != images[index] and rng.choice(hard_captions[chosen])
    read = [
        (image.removeprefix("images/"), caption, negative)
        for image, caption, some in zip(images, captions, hard_captions, strict=True)
        for negative in some
    ]
    assert sorted(read) == sorted(toy.texts())


def test_neighbours_share_rare_words() -> None:
    texts = ["a red kite flies", "the boat sails", "one kite, red", "a boat sails slowly", "red grass", "a cow"]
    found = neighbours(texts, 2)
    assert found[0][0] == 2 and found[2][0] == 0 and found[1][0] == 3 and found[3][0] == 1
    assert all(i not in near and len(near) == 2 for i, near in enumerate(found))
    assert neighbours(["a", "b"], 3) == [[1], [0]]


def test_negclip_needs_two_images(toy: Toy, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", *rows(1, 1))
    with pytest.raises(ValueError, match="negclip needs two images a split, test has 1"):
        published(toy._replace(run=run), tmp_path / "out", "negclip", images=None)


def test_open_clip_as_its_csv_dataset_reads_it(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(published(toy, tmp_path / "out", "open_clip", copy_images=True, split=()))
    for split, images in (("train", IMAGES - TESTS), ("test", TESTS)):
        frame = pd.read_csv(f"{split}.tsv", sep="\t")
        assert all(size(str(path)) for path in frame["filepath"].tolist())
        expected = [row["text"] for row in toy.captions if row["split"] == split]
        assert frame["title"].tolist() == expected and len(expected) == 5 * images


def test_vse_c_as_a_precomp_folder(toy: Toy, tmp_path: Path) -> None:
    out = published(toy, tmp_path / "out", "vse-c", split=())
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == ["noun", "numeral"]
    for family in ("noun", "numeral"):
        for split in ("train", "test"):
            captions = (out / family / f"{split}_caps.txt").read_text(encoding="utf-8").splitlines()
            images = (out / family / f"{split}_images.txt").read_text(encoding="utf-8").splitlines()
            assert len(captions) == 5 * len(images)
            negatives = []
            for index, caption in enumerate(captions):
                lines = (out / family / f"{split}_ex" / f"{index}.txt").read_text(encoding="utf-8").splitlines()
                negatives += [(images[index // 5], caption, line) for line in lines]
            assert negatives == toy.texts(family, split)
    found = [record for record in read(str(out / "noun"), "vsepp", ReadOptions()) if isinstance(record, Record)]
    assert Counter((r.image, r.text) for r in found) == Counter((r["image"], r["text"]) for r in toy.captions)


def test_vse_c_leaves_images_with_fewer_captions_out(toy: Toy, tmp_path: Path) -> None:
    captions, negatives = rows(8, 4)
    gone = captions.pop()["caption_id"]
    run = write_run(tmp_path / "run", captions, [row for row in negatives if row["caption_id"] != gone])
    out = published(toy._replace(run=run), tmp_path / "out", "vse-c", images=None)
    assert (out / "noun" / "test_images.txt").read_text().split() == ["p004.jpg", "p005.jpg", "p006.jpg"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it leaves closing to the collector
def test_webdataset_reads_its_shards(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import webdataset

    monkeypatch.setattr("negcap.pipelines.publish.webdataset.SAMPLES", 10)
    out = published(toy, tmp_path / "out", "webdataset")
    shards = sorted(str(path) for path in out.glob("*.tar"))
    assert [Path(shard).name for shard in shards] == ["test-00000.tar", "test-00001.tar", "test-00002.tar"]
    samples = list(webdataset.WebDataset(shards, shardshuffle=False).decode("pil").to_tuple("jpg", "txt", "neg.json"))
    read = [(neg["image"], text, one["text"]) for _, text, neg in samples for one in neg["negatives"]]
    assert sorted(read) == sorted(toy.texts())
    likely = {one["operator"]: one["p_true"] for _, _, neg in samples for one in neg["negatives"]}
    assert likely["numeral"] is None and likely["noun"] in (0.01, 0.02, 0.03)
    for image, _, negatives in samples:
        assert image.size == size(toy.images / negatives["image"])
    gc.collect()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("with_images", [False, True])
def test_huggingface_loads_the_folder(
    with_images: bool, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    monkeypatch.setattr("negcap.pipelines.publish.huggingface.ROWS", 50)
    monkeypatch.setattr("negcap.pipelines.publish.huggingface.ROWS_WITH_IMAGES", 50)
    out = published(toy, tmp_path / "out", "huggingface", split=(), copy_images=with_images)
    names = sorted(path.name for path in (out / "data").iterdir())
    assert names[:2] == ["test-00000-of-00002.parquet", "test-00001-of-00002.parquet"]
    found = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    assert sorted(found) == ["test", "train"]
    for split in found:
        read = [(row["image_id"] + ".jpg", row["caption"], row["negative_caption"]) for row in found[split]]
        assert sorted(read) == sorted(toy.texts(split=split))
        likely = {(row["operator"], row["p_true"] and round(row["p_true"], 4)) for row in found[split]}
        assert likely == {("noun", 0.01), ("noun", 0.02), ("noun", 0.03), ("numeral", None)}
    first = found["test"][0]
    if with_images:
        assert first["image"].size == size(toy.images / f"{first['image_id']}.jpg")
    else:
        assert first["image"] == f"{first['image_id']}.jpg"


def test_coco_loads_in_pycocotools_and_here(toy: Toy, tmp_path: Path) -> None:
    from pycocotools.coco import COCO

    file = published(toy, tmp_path / "out", "coco") / "captions_test.json"
    coco = COCO(str(file))
    images = coco.loadImgs(coco.getImgIds())
    assert len(images) == TESTS and len(coco.getAnnIds()) == 5 * TESTS
    written = [
        (image["file_name"], annotation["caption"], one["caption"])
        for image in images
        for annotation in coco.loadAnns(coco.getAnnIds(imgIds=image["id"]))
        for one in annotation["negatives"]
    ]
    assert sorted(written) == sorted(toy.texts())
    assert all((image["width"], image["height"]) == size(toy.images / image["file_name"]) for image in images)
    assert coco.dataset["licenses"] == [{"id": 1, "name": "CC0-1.0"}] and {i["license"] for i in images} == {1}
    expected = [(row["image"], row["text"]) for row in toy.captions if row["split"] == "test"]
    found = [record for record in read(str(file), "coco", ReadOptions()) if isinstance(record, Record)]
    assert [(record.image, record.text) for record in found] == expected


def test_coco_keeps_numbers_that_are_ids(toy: Toy, tmp_path: Path) -> None:
    captions, negatives = rows(8, 4)
    for row in [*captions, *negatives]:
        row["image_id"] = row["image_id"].replace("p", "000")
    run = write_run(tmp_path / "run", captions, negatives)
    dataset = json.loads(
        (published(toy._replace(run=run), tmp_path / "out", "coco", images=None) / "captions_test.json").read_text()
    )
    assert [image["id"] for image in dataset["images"]] == [4, 5, 6, 7]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("format", sorted(FORMATS))
def test_croissant_is_valid_and_reads_the_records(format: str, toy: Toy, tmp_path: Path) -> None:
    import hashlib

    import mlcroissant

    out = published(
        toy,
        tmp_path / "out",
        format,
        url="https://example.org/toys",
        creator="Toys & Co",
        date="2024-02-29",
        cite="Toys, 2024",
    )
    dataset = mlcroissant.Dataset(jsonld=out / "croissant.json")
    assert not dataset.metadata.issues.errors
    assert not dataset.metadata.issues.warnings
    metadata = json.loads((out / "croissant.json").read_text(encoding="utf-8"))
    assert metadata["conformsTo"] == "http://mlcommons.org/croissant/1.0" and metadata["license"] == "CC0-1.0"
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {item["@id"] for item in metadata["distribution"]} == files - {"README.md", "SHA256SUMS", "croissant.json"}
    for item in metadata["distribution"]:
        data = (out / item["contentUrl"]).read_bytes()
        assert item["sha256"] == hashlib.sha256(data).hexdigest() and item["contentSize"] == f"{len(data)} B"
    assert bool(metadata["recordSet"]) == (format not in ("vse-c", "webdataset"))
    captions = {row["text"] for row in toy.captions if row["split"] == "test"}
    for record_set in metadata["recordSet"]:
        records = list(dataset.records(record_set["@id"]))
        fields = [item["@id"] for item in record_set["field"]]
        caption = next(f for f in fields if f.rpartition("/")[2] in ("caption", "true_caption", "title"))
        assert {record[caption].decode() for record in records} <= captions and len(records) >= 4 * TESTS
        assert all(set(record) == set(fields) for record in records)
