"""Every format read back as those read it who use it: by their package, or as their code does."""

import ast
import gc
import hashlib
import json
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image

from negcap.pipelines.publish.formats import FORMATS
from negcap.pipelines.publish.images import hub_splits
from negcap.pipelines.publish.layout import Column, FileSizes, ParquetFiles, Tars
from negcap.pipelines.publish.negclip import neighbours
from negcap.pipelines.readers import ReadOptions, Record, read
from negcap.pipelines.readers.pairs import pair_files
from negcap.pipelines.stages.imports import ImportConfig, read_set
from tests.cases import cases_of
from tests.conftest import ROOT
from tests.pipelines.publish.fixtures import TOY_TESTS as TESTS
from tests.pipelines.publish.fixtures import TOYS as IMAGES
from tests.pipelines.publish.fixtures import Toy, rows, size, write_run

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.usefixtures("unmeasured")]
# by negative: its operator, and the numbers that the run has of it
MEASURED = {("noun", (k + 1) / 100, -1.25 - k, 0.75) for k in range(3)} | {("numeral", None, -1.25, None)}
BARE = sorted(FORMATS.keys() - {"snli", "valse"})  # those that need neither components nor votes
CITED = {"url": "https://example.org/toys", "creator": "Toys & Co", "date": "2024-02-29", "cite": "Toys, 2024"}


@pytest.fixture(scope="module")
def folder(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The published folder of a format and splits (none: all), made once."""

    @cache
    def published(format: str, *splits: str) -> Path:
        return toy.publish(tmp_path_factory.mktemp("out") / "out", format, split=splits, **CITED)

    return published


def measures(row: dict[str, Any]) -> tuple[Any, ...]:
    numbers = [row[name] for name in ("p_true", "plausibility", "concreteness")]
    return row["operator"], *(number and round(number, 4) for number in numbers)


def test_the_files_of_every_format_are_those_written_before(toy, tmp_path, request):
    """A digest of each format's files; of Parquet of the rows, since its bytes depend on the version of pyarrow."""
    golden = Path(__file__).parent / "golden_formats.json"
    digests = {}
    for format in BARE:
        out = toy.publish(tmp_path / format, format, split=(), per_operator=2, seed=3)
        digest = hashlib.sha256()
        for path in sorted(path for path in out.rglob("*") if path.is_file()):
            name = path.relative_to(out).as_posix()
            if name not in ("README.md", "croissant.json", "SHA256SUMS"):
                rows = pq.read_table(path).to_pylist() if path.suffix == ".parquet" else None
                digest.update(f"{name}\n".encode() + (path.read_bytes() if rows is None else repr(rows).encode()))
        digests[format] = digest.hexdigest()
    if request.config.getoption("--update-golden"):
        golden.write_text(json.dumps(digests, indent=1) + "\n")
    assert digests == json.loads(golden.read_text())


def test_the_recipes_for_other_formats_run(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/pages/reference/formats.md").read_text(encoding="utf-8")
    recipes = re.findall(r"```python\n(.*?)```", page.partition("### Formats that are a few lines")[2], re.S)
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "mine").symlink_to(toy.run)
    monkeypatch.chdir(tmp_path)
    exec("\n".join(recipes), {})
    crepe = pd.read_csv("crepe_noun.csv", converters={"hard_negs": ast.literal_eval}).explode("hard_negs")
    nouns = [(caption, negative) for _, caption, negative in toy.texts("noun")]
    assert list(zip(crepe["caption"], crepe["hard_negs"], strict=True)) == nouns
    assert sorted(map(tuple, pd.read_parquet("triplets.parquet").to_numpy().tolist())) == sorted(toy.texts())
    preferred = pq.read_table("preferences.parquet").to_pylist()[0]
    assert preferred["chosen"][0]["content"][0]["text"] == toy.texts()[0][1]
    choices = pd.read_csv("mcq.tsv", sep="\t")
    true = {caption for _, caption, _ in toy.texts()}
    assert all(row[row["answer"]] in true for _, row in choices.iterrows()) and set(choices["answer"]) == {"A", "B"}
    assert len(pd.read_csv("open_clip.tsv", sep="\t")) == 5 * TESTS


@pytest.mark.parametrize("format", ["sugarcrepe", "sugarcrepe++", "aro", "negclip", "huggingface"])
def test_what_is_published_is_read_by_import(format: str, toy: Toy, folder: Any) -> None:
    out = folder(format)
    imported, rejected = read_set(str(out), pair_files(str(out)), ImportConfig())
    is_first = FORMATS[format].per_operator == 1
    kept = [row for row in toy.negatives if not is_first or row["negative_id"].endswith(":0")]
    negatives = imported[imported["negative"].notna()]
    pairs = set(zip(negatives["split"], negatives["text"], negatives["negative"], strict=True))
    assert not rejected and pairs == {(row["split"], row["caption"], row["text"]) for row in kept}
    assert set(imported["image_id"]) == {row["image_id"] for row in toy.captions}


def test_sugarcrepe_pp_has_a_sibling_as_second_caption(toy: Toy, folder: Any) -> None:
    pairs = json.loads((folder("sugarcrepe++", "test") / "noun.json").read_text(encoding="utf-8"))
    image_of = {row["text"]: row["image"] for row in toy.captions}
    for pair in pairs:
        assert image_of[pair["caption2"]] == pair["filename"] and pair["caption2"] != pair["caption"]
    assert len({pair["caption2"] for pair in pairs}) > TESTS


def test_aro_takes_boxes(toy: Toy, tmp_path: Path) -> None:
    boxes = tmp_path / "boxes.csv"
    names = sorted({row["image_id"] for row in toy.captions})
    boxes.write_text("image_id,x,y,width,height\n" + "".join(f"{name},1,2,3,4\n" for name in names))
    aro = json.loads((toy.publish(tmp_path / "aro", "aro", images=None, boxes=boxes) / "noun.json").read_text())
    assert {tuple(row[f"bbox_{side}"] for side in "xywh") for row in aro} == {(1, 2, 3, 4)}
    for text, message in (
        ("x,y,width,height\n", r"no box for image p\d+: give --images, or its box in --set boxes=FILE"),
        ("x,y,width,height\np001,1,2,0,4\n", "boxes.csv:2: a box must be whole pixels"),
        ("x,y,width\n", "boxes.csv: lacks the column height"),
    ):
        boxes.write_text(f"image_id,{text}")
        with pytest.raises(ValueError, match=message):
            toy.publish(tmp_path / "none", "aro", images=None, boxes=boxes)


def test_negclip_as_its_dataset_reads_it(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy.publish(tmp_path / "out", "negclip", copy_images=True))
    converters = {"neg_caption": ast.literal_eval, "neg_image": ast.literal_eval}
    frame = pd.read_csv("test.tsv", sep="\t", converters=converters)
    assert frame["Unnamed: 0"].tolist() == list(range(len(frame)))
    images, hard_captions = frame["filepath"].tolist(), frame["neg_caption"].tolist()
    rng = random.Random(0)
    for row in frame.to_dict("records"):  # CsvDataset.__getitem__
        assert size(row["filepath"]) and rng.choice(row["neg_caption"]) != row["title"]
        assert len(set(row["neg_image"])) == 3
        for chosen in row["neg_image"]:
            assert images[chosen] != row["filepath"] and rng.choice(hard_captions[chosen])
    run = write_run(tmp_path / "run", *rows(1, 1))
    with pytest.raises(ValueError, match="negclip needs at least two images per split, test has 1"):
        toy._replace(run=run).publish(tmp_path / "one", "negclip", images=None)


def test_neighbours_share_rare_words() -> None:
    near = neighbours(["a red kite flies", "the boat sails", "one kite, red", "a boat sails slowly", "red grass", "a"])
    assert [nearest[0] for nearest in near[:4]] == [2, 3, 0, 1]
    assert all(i not in nearest and len(nearest) == 3 for i, nearest in enumerate(near))
    assert neighbours(["a", "b"]) == [[1], [0]]


def test_vse_c_is_a_precomp_folder_of_the_images_with_five_captions(toy: Toy, folder: Any, tmp_path: Path) -> None:
    out = folder("vse-c")
    for family in ("noun", "numeral"):
        for split in ("train", "test"):
            captions = (out / family / f"{split}_caps.txt").read_text(encoding="utf-8").splitlines()
            images = (out / family / f"{split}_images.txt").read_text(encoding="utf-8").splitlines()
            negatives = []
            for index, caption in enumerate(captions):
                lines = (out / family / f"{split}_ex" / f"{index}.txt").read_text(encoding="utf-8").splitlines()
                negatives += [(images[index // 5], caption, line) for line in lines]
            assert negatives == toy.texts(family, split) and len(captions) == 5 * len(images)
    records = [record for record in read(str(out / "noun"), "vsepp", ReadOptions()) if isinstance(record, Record)]
    assert sorted((r.image, r.text) for r in records) == sorted((row["image"], row["text"]) for row in toy.captions)
    captions, negatives = rows(8, 4)
    gone = captions.pop()["caption_id"]
    run = write_run(tmp_path / "run", captions, [row for row in negatives if row["caption_id"] != gone])
    out = toy._replace(run=run).publish(tmp_path / "out", "vse-c", images=None)
    assert (out / "noun" / "test_images.txt").read_text().split() == ["p004.jpg", "p005.jpg", "p006.jpg"]


def test_files_are_cut_to_size(tmp_path: Path) -> None:
    parquet = ParquetFiles(tmp_path / "test", [Column("text", "")], FileSizes(50, 20))
    tars = Tars(tmp_path / "{}.tar", most=2)
    for number in range(75):
        parquet.add([str(number)])
        tars.add({".txt": b"text"})
    parquet.close()
    tars.close()
    first, second = sorted(tmp_path.glob("*.parquet"))
    assert (first.name, second.name) == ("test-00000-of-00002.parquet", "test-00001-of-00002.parquet")
    groups = pq.ParquetFile(first).metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [20, 20, 10]
    assert tars.sizes == {f"{number}.tar": 2 if number < 37 else 1 for number in range(38)}


@pytest.mark.parametrize("with_images", [False, True])
def test_huggingface_loads_the_folder(with_images: bool, toy: Toy, folder: Any, datasets_cache: Path) -> None:
    import datasets

    copy = datasets_cache.parent / "out"
    out = toy.publish(copy, "huggingface", split=(), copy_images=True) if with_images else folder("huggingface")
    assert datasets.get_dataset_config_names(str(out)) == ["default", "noun", "numeral"]
    for config, operator in (("default", ""), ("numeral", "numeral")):
        loaded = datasets.load_dataset(str(out), config, cache_dir=str(datasets_cache))
        assert sorted(loaded) == ["test", "train"]
        for split in loaded:
            pairs = [(row["image_id"] + ".jpg", row["caption"], row["negative_caption"]) for row in loaded[split]]
            assert sorted(pairs) == sorted(toy.texts(operator, split))
            expected = {entry for entry in MEASURED if operator in ("", entry[0])}
            assert {measures(row) for row in loaded[split]} == expected
    first = loaded["test"][0]
    name = f"{first['image_id']}.jpg"
    assert first["image"].size == size(toy.images / name) if with_images else first["image"] == name


@pytest.mark.parametrize(("splits", "names"), cases_of(__file__)["hub"].items())
def test_splits_have_distinct_names_that_the_hub_allows(splits: str, names: str) -> None:
    from datasets import NamedSplit

    published = hub_splits(splits.split())
    assert [published[split] for split in splits.split()] == names.split()
    assert [str(NamedSplit(name)) for name in names.split()] == names.split()


def test_the_hub_loads_splits_of_any_name_and_none_without_rows(toy: Toy, tmp_path: Path, datasets_cache: Path) -> None:
    import datasets

    captions, negatives = rows(8, 4)
    names = {"train": "val-1", "test": "val_1"}
    for row in [*captions, *negatives]:
        row["split"] = names[row["split"]]
    kept = [row for row in negatives if (row["operator"], row["split"]) != ("numeral", "val-1")]
    run = write_run(tmp_path / "run", captions, kept)
    out = toy._replace(run=run).publish(tmp_path / "out", "huggingface", split=(), images=None)
    card = (out / "README.md").read_text("utf-8")
    assert "`val-1` is `val_1_2`" in card and "`val_1` is" not in card
    assert {*re.findall(r"split='(.+?)'", card)} <= {"val_1", "val_1_2"}
    for name, split in {"val-1": "val_1_2", "val_1": "val_1"}.items():
        loaded = datasets.load_dataset(str(out), "noun", split=split, cache_dir=str(datasets_cache))
        expected = [row["text"] for row in kept if (row["operator"], row["split"]) == ("noun", name)]
        assert sorted(row["negative_caption"] for row in loaded) == sorted(expected)


def test_coco_loads_in_pycocotools_and_here(toy: Toy, folder: Any, tmp_path: Path) -> None:
    from pycocotools.coco import COCO

    file = folder("coco", "test") / "captions_test.json"
    coco = COCO(str(file))
    images = coco.loadImgs(coco.getImgIds())
    assert len(images) == TESTS and len(coco.getAnnIds()) == 5 * TESTS
    pairs = []
    for image in images:
        assert (image["width"], image["height"]) == size(toy.images / image["file_name"]) and image["license"] == 1
        for annotation in coco.loadAnns(coco.getAnnIds(imgIds=image["id"])):
            assert {measures(negative) for negative in annotation["negatives"]} <= MEASURED
            texts = [negative["caption"] for negative in annotation["negatives"]]
            pairs += [(image["file_name"], annotation["caption"], text) for text in texts]
    assert sorted(pairs) == sorted(toy.texts())
    assert coco.dataset["licenses"] == [{"id": 1, "name": "CC0-1.0"}]
    records = [record for record in read(str(file), "coco", ReadOptions()) if isinstance(record, Record)]
    expected = [(row["image"], row["text"]) for row in toy.captions if row["split"] == "test"]
    assert sorted((record.image, record.text) for record in records) == sorted(expected)
    assert [record.image for record in records] != [image for image, _ in expected]  # shuffled
    captions, negatives = rows(8, 4)
    for row in [*captions, *negatives]:
        row["image_id"] = row["image_id"].replace("p", "000")
    run = write_run(tmp_path / "run", captions, negatives)
    out = toy._replace(run=run).publish(tmp_path / "out", "coco", images=None)
    dataset = json.loads((out / "captions_test.json").read_text())
    assert sorted(image["id"] for image in dataset["images"]) == [4, 5, 6, 7]  # ids that are numbers are kept


# Croissant


@pytest.fixture
def croissant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The records of a published folder by record set, after its metadata was found valid."""
    mlcroissant = pytest.importorskip("mlcroissant")
    # where archives are unpacked: its own folder is shared by all data sets whose archives have the same name
    from mlcroissant._src.operation_graph.operations import extract

    monkeypatch.setattr(extract, "EXTRACT_PATH", type(extract.EXTRACT_PATH)(tmp_path / "unpacked"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def read(out: Path) -> dict[str, list[dict[str, Any]]]:
        dataset = mlcroissant.Dataset(jsonld=out / "croissant.json")
        assert not dataset.metadata.issues.errors and not dataset.metadata.issues.warnings
        metadata = json.loads((out / "croissant.json").read_text(encoding="utf-8"))
        assert metadata["license"] == "CC0-1.0"
        for item in metadata["distribution"]:
            if item["@type"] == "cr:FileObject":
                data = (out / item["contentUrl"]).read_bytes()
                assert item["sha256"] == hashlib.sha256(data).hexdigest() and item["contentSize"] == f"{len(data)} B"
        result = {}
        for record_set in metadata["recordSet"]:
            names = [field["@id"].rpartition("/")[2] for field in record_set["field"]]
            records = [dict(record) for record in dataset.records(record_set["@id"])]
            assert all([key.rpartition("/")[2] for key in record] == names for record in records)
            values = [map(plain, record.values()) for record in records]
            result[record_set["@id"]] = [dict(zip(names, of_record, strict=True)) for of_record in values]
        return result

    return read


def plain(value: Any) -> Any:
    """A value of a record: text as a string, the size of an image."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, Image.Image):
        return value.size
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize("format", ["sugarcrepe", "aro", "huggingface", "coco"])
def test_croissant_reads_the_pairs(format: str, croissant: Any, toy: Toy, folder: Any) -> None:
    tables = croissant(folder(format, "test"))
    true, false = ("true_caption", "false_caption") if format == "aro" else ("caption", "negative_caption")
    if format == "coco":  # lists inside of JSON
        (records,) = tables.values()
        pairs = [(record["caption"], negative) for record in records for negative in record["negatives"]]
        assert records[0]["operators"] == ["noun"] * 3 + ["numeral"] and len(records[0]["replacements"]) == 4
    else:
        pairs = [(record[true], record[false]) for name in ("noun", "numeral") for record in tables[name]]
    first = FORMATS[format].per_operator == 1
    expected = [*toy.first("noun"), *toy.first("numeral")] if first else toy.texts()
    assert sorted(pairs) == sorted((caption, negative) for _, caption, negative in expected)


def test_croissant_has_images_that_are_copied(croissant: Any, toy: Toy, tmp_path: Path) -> None:
    out = toy.publish(tmp_path / "out", "sugarcrepe", copy_images=True, **CITED)
    assert {record["path"]: record["image"] for record in croissant(out)["images"]} == {
        path.name: size(path) for path in toy.images.iterdir() if int(path.stem[1:]) >= IMAGES - TESTS
    }
    assert "| `image` | the image |" in (out / "README.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it leaves closing to the collector
def test_croissant_reads_archives(croissant: Any, toy: Toy, folder: Any) -> None:
    tables = croissant(folder("webdataset", "test"))
    captions, images, negatives = (
        {record["key"]: record for record in tables.pop(f"test-{name}")}
        for name in ("captions", "images-jpg", "negatives")
    )
    assert not tables and len(captions) == 5 * TESTS
    pairs = []
    for key, record in captions.items():
        described = json.loads(negatives[key]["negatives"])
        assert images[key]["image"] == size(toy.images / described["image"])
        pairs += [(described["image"], record["caption"], negative["text"]) for negative in described["negatives"]]
    assert sorted(pairs) == sorted(toy.texts())
    gc.collect()


# the card


@pytest.mark.parametrize("format", BARE)
def test_cards_name_files_and_columns_that_are_there(format: str, folder: Any) -> None:
    out = folder(format, "test")
    card = (out / "README.md").read_text(encoding="utf-8")
    use = card.partition("## How to read it")[2].partition("\n|")[0]
    named = re.findall(r"['`]([\w/.-]+\.(?:jsonl?|csv|tsv|tar|txt|pt))['`]", use)
    named += re.findall(r"--train-data (\S+)", use)
    of_others = ("i.txt", "neg.json", "visual_genome_relation.json", "visual_genome_attribution.json", "negcap.tsv")
    files = [name for name in named if name not in of_others]
    beside = {"vse-c": "noun"}.get(format, "")
    assert all((out / name).is_file() or (out / beside / name).is_file() for name in files)
    unnamed = ("huggingface", "aro", "clip_benchmark", "lmms-eval", "negbench")  # no file, or no quotes
    assert "$" not in use and bool(files) == (format not in unnamed)
    tables = re.findall(r"^\| in `([^`]+)` \| meaning \|\n\|---\|---\|\n((?:\| .*\n)+)", card, re.M)
    assert tables
    for pattern, rows_of_table in tables:
        (file, *_) = sorted(out.glob(pattern)) or [Path(pattern)]
        keys = keys_in(file)
        for name, meaning in re.findall(r"^\| `([^`]+)` \| (.*) \|$", rows_of_table, re.M):
            if "in the file's name, not in the file" in meaning:
                assert keys is None or name not in keys, (pattern, name)
            elif keys is not None:  # of text and pictures, a file is one value
                path = re.search(r": at `(.*)`$", meaning)
                assert (re.findall(r"\w+", path[1])[-1] if path else name) in keys, (pattern, name)


def keys_in(file: Path) -> set[str] | None:
    """The names of the columns of a table, or all keys in JSON; None for a file of another kind."""
    if file.suffix == ".parquet":
        return set(pq.read_schema(file).names)
    if file.suffix in (".csv", ".tsv"):
        return set(pd.read_csv(file, sep="\t" if file.suffix == ".tsv" else ",", nrows=1).columns)
    if file.suffix in (".json", ".jsonl") and file.exists():
        return set(re.findall(r'"([\w-]+)": ', file.read_text(encoding="utf-8")))
    return None
