"""Every format read back as those read it who use it: by their package, or as their code does."""

import ast
import gc
import hashlib
import json
import random
import re
from collections import Counter
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
from negcap.pipelines.publish.negclip import neighbours
from negcap.pipelines.readers import ReadOptions, Record, read
from negcap.pipelines.readers.pairs import pair_files
from negcap.pipelines.stages.imports import ImportConfig, read_set
from tests.conftest import ROOT
from tests.pipelines.publish.fixtures import TOY_TESTS as TESTS
from tests.pipelines.publish.fixtures import TOYS as IMAGES
from tests.pipelines.publish.fixtures import Toy, rows, size, write_run

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.usefixtures("unmeasured")]
MEASURED = {("noun", (k + 1) / 100, -1.25 - k, 0.75) for k in range(3)} | {("numeral", None, -1.25, None)}


def measures(row: dict[str, Any]) -> tuple[Any, ...]:
    """The operator of a negative, and the numbers that the run has of it."""
    found = [row[name] for name in ("p_true", "plausibility", "concreteness")]
    return row["operator"], *(number and round(number, 4) for number in found)


def test_the_files_of_every_format_are_those_written_before(
    toy: Toy, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A digest of each format's files; of Parquet of the rows, since its bytes depend on the version of pyarrow."""
    golden = Path(__file__).parent / "golden_formats.json"
    made = {}
    for format in sorted(FORMATS.keys() - {"snli", "valse"}):  # these need components or votes
        out = toy.publish(tmp_path / format, format, split=(), per_operator=2, seed=3)
        found = hashlib.sha256()
        for path in sorted(path for path in out.rglob("*") if path.is_file()):
            name = path.relative_to(out).as_posix()
            if name not in ("README.md", "croissant.json", "SHA256SUMS"):
                rows = pq.read_table(path).to_pylist() if path.suffix == ".parquet" else None
                found.update(f"{name}\n".encode() + (path.read_bytes() if rows is None else repr(rows).encode()))
        made[format] = found.hexdigest()
    if request.config.getoption("--update-golden"):
        golden.write_text(json.dumps(made, indent=1) + "\n")
    assert made == json.loads(golden.read_text())


def test_the_recipes_for_other_formats_run(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/pages/reference/formats.md").read_text(encoding="utf-8")
    recipes = re.findall(r"```python\n(.*?)```", page.partition("### Formats that are a few lines")[2], re.S)
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "mine").symlink_to(toy.run)
    monkeypatch.chdir(tmp_path)
    exec("\n".join(recipes), {})
    crepe = pd.read_csv("crepe_noun.csv", converters={"hard_negs": ast.literal_eval}).explode("hard_negs")
    pairs = [(caption, negative) for _, caption, negative in toy.texts("noun")]
    assert list(zip(crepe["caption"], crepe["hard_negs"], strict=True)) == pairs
    assert sorted(map(tuple, pd.read_parquet("triplets.parquet").to_numpy().tolist())) == sorted(toy.texts())
    preferred = pq.read_table("preferences.parquet").to_pylist()[0]
    assert (
        preferred["chosen"][0]["content"][0]["text"] == toy.texts()[0][1] and preferred["prompt"][0]["role"] == "user"
    )
    choices = pd.read_csv("mcq.tsv", sep="\t")
    true = {caption for _, caption, _ in toy.texts()}
    assert all(row[row["answer"]] in true for _, row in choices.iterrows()) and set(choices["answer"]) == {"A", "B"}
    assert len(pd.read_csv("open_clip.tsv", sep="\t")) == 5 * TESTS and Path("cc_neg.pt").stat().st_size > 1000


def test_sugarcrepe_pp_has_a_sibling_as_second_caption(toy: Toy, tmp_path: Path) -> None:
    found = json.loads((toy.publish(tmp_path / "out", "sugarcrepe++") / "noun.json").read_text(encoding="utf-8"))
    image_of = {row["text"]: row["image"] for row in toy.captions}
    for number, data in enumerate(found):
        assert list(data) == ["id", "filename", "caption", "caption2", "negative_caption"] and data["id"] == number
        assert image_of[data["caption2"]] == data["filename"] and data["caption2"] != data["caption"]
    assert sorted((d["filename"], d["caption"], d["negative_caption"]) for d in found) == sorted(toy.first("noun"))
    assert len({image_of[d["caption2"]] + d["caption2"] for d in found}) > TESTS


def test_aro_takes_boxes(toy: Toy, tmp_path: Path) -> None:
    names = sorted({row["image_id"] for row in toy.captions})
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("image_id,x,y,width,height\n" + "".join(f"{name},1,2,3,4\n" for name in names))
    aro = json.loads((toy.publish(tmp_path / "aro", "aro", images=None, boxes=boxes) / "noun.json").read_text())
    assert {tuple(row[f"bbox_{side}"] for side in "xywh") for row in aro} == {(1, 2, 3, 4)}
    boxes.write_text("image_id,x,y,width,height\n")
    with pytest.raises(ValueError, match=r"no box for image p\d+: give --images, or its box in --set boxes=FILE"):
        toy.publish(tmp_path / "none", "aro", images=None, boxes=boxes)


def test_negclip_as_its_dataset_reads_it(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy.publish(tmp_path / "out", "negclip", copy_images=True))
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
    found = neighbours(texts)
    assert found[0][0] == 2 and found[2][0] == 0 and found[1][0] == 3 and found[3][0] == 1
    assert all(i not in near and len(near) == 3 for i, near in enumerate(found))
    assert neighbours(["a", "b"]) == [[1], [0]]


def test_negclip_needs_two_images(toy: Toy, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", *rows(1, 1))
    with pytest.raises(ValueError, match="negclip needs at least two images per split, test has 1"):
        toy._replace(run=run).publish(tmp_path / "out", "negclip", images=None)


def test_vse_c_as_a_precomp_folder(toy: Toy, tmp_path: Path) -> None:
    out = toy.publish(tmp_path / "out", "vse-c", split=())
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
    out = toy._replace(run=run).publish(tmp_path / "out", "vse-c", images=None)
    assert (out / "noun" / "test_images.txt").read_text().split() == ["p004.jpg", "p005.jpg", "p006.jpg"]


@pytest.mark.parametrize("with_images", [False, True])
def test_huggingface_loads_the_folder(
    with_images: bool, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    for name, number in {"ROWS": 50, "ROWS_WITH_IMAGES": 50, "GROUP": 20, "GROUP_WITH_IMAGES": 20}.items():
        monkeypatch.setattr(f"negcap.pipelines.publish.layout.{name}", number)
    out = toy.publish(tmp_path / "out", "huggingface", split=(), copy_images=with_images)
    assert sorted(path.name for path in (out / "data" / "noun").glob("test-*")) == [
        "test-00000-of-00002.parquet",
        "test-00001-of-00002.parquet",
    ]
    groups = pq.ParquetFile(out / "data" / "noun" / "test-00000-of-00002.parquet").metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [20, 20, 10]
    assert datasets.get_dataset_config_names(str(out)) == ["default", "noun", "numeral"]
    for config in ("default", "noun", "numeral"):
        found = datasets.load_dataset(str(out), config, cache_dir=str(tmp_path / "cache"))
        assert sorted(found) == ["test", "train"]
        for split in found:
            read = [(row["image_id"] + ".jpg", row["caption"], row["negative_caption"]) for row in found[split]]
            assert sorted(read) == sorted(toy.texts("" if config == "default" else config, split))
            expected = {entry for entry in MEASURED if config in ("default", entry[0])}
            assert {measures(row) for row in found[split]} == expected
    first = found["test"][0]
    if with_images:
        assert first["image"].size == size(toy.images / f"{first['image_id']}.jpg")
    else:
        assert first["image"] == f"{first['image_id']}.jpg"


HUB_SPLITS = {
    ("train", "val_1", "val.2"): ["train", "val_1", "val.2"],
    ("val-1",): ["val_1"],
    ("val-1", "val_1"): ["val_1_2", "val_1"],
    ("a-b", "a_b", "a_b_2", "a--b"): ["a_b_3", "a_b", "a_b_2", "a__b"],
    ("v-1", "v.1", "v..1", "v."): ["v_1", "v.1", "v._.1", "v._"],
    ("all", "all_2"): ["all_3", "all_2"],
    ("größe", "grö-ße"): ["größe", "grö_ße"],
}


@pytest.mark.parametrize("splits", HUB_SPLITS)
def test_splits_have_distinct_names_that_the_hub_allows(splits: tuple[str, ...]) -> None:
    assert [hub_splits(splits)[split] for split in splits] == HUB_SPLITS[splits]
    from datasets import NamedSplit

    assert [str(NamedSplit(name)) for name in HUB_SPLITS[splits]] == HUB_SPLITS[splits]


@pytest.mark.parametrize("splits", [("val-1",), ("val-1", "val_1"), ("all", "v.")])
def test_the_command_of_the_card_loads_a_split_of_any_name(
    splits: tuple[str, ...], toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    captions, negatives = rows(8, 4)
    names = dict(zip(("train", "test"), splits if len(splits) > 1 else splits * 2, strict=True))
    for row in [*captions, *negatives]:
        row["split"] = names[row["split"]]
    run = write_run(tmp_path / "run", captions, negatives)
    out = toy._replace(run=run).publish(tmp_path / "out", "huggingface", split=(), images=None)
    card = (out / "README.md").read_text("utf-8")
    (shown,) = set(re.findall(r"split='(.+?)'", card))
    for split in (shown, *hub_splits(splits).values()):
        found = datasets.load_dataset(str(out), "noun", split=split, cache_dir=str(tmp_path / "cache"))
        (name,) = {name for name in splits if hub_splits(splits)[name] == split}
        mine = [row for row in negatives if (row["operator"], row["split"]) == ("noun", name)]
        wanted = [(row["caption_id"], row["text"]) for row in mine]
        assert sorted((row["caption_id"], row["negative_caption"]) for row in found) == sorted(wanted)
    for name, split in hub_splits(splits).items():
        assert (f"`{name}` is `{split}`" in card) == (name != split)


def test_a_config_has_no_split_without_rows(toy: Toy, tmp_path: Path) -> None:
    captions, negatives = rows(8, 4)
    kept = [row for row in negatives if (row["operator"], row["split"]) != ("numeral", "train")]
    run = write_run(tmp_path / "run", captions, kept)
    out = toy._replace(run=run).publish(tmp_path / "out", "huggingface", split=(), images=None)
    configs = json.loads(re.findall(r"^configs: (.+)$", (out / "README.md").read_text(encoding="utf-8"), re.M)[0])
    splits = {config["config_name"]: [file["split"] for file in config["data_files"]] for config in configs}
    assert splits == {"default": ["train", "test"], "noun": ["train", "test"], "numeral": ["test"]}
    for config in configs:
        for file in config["data_files"]:
            assert list(out.glob(file["path"]))


def test_coco_loads_in_pycocotools_and_here(toy: Toy, tmp_path: Path) -> None:
    from pycocotools.coco import COCO

    file = toy.publish(tmp_path / "out", "coco") / "captions_test.json"
    coco = COCO(str(file))
    images = coco.loadImgs(coco.getImgIds())
    assert len(images) == TESTS and len(coco.getAnnIds()) == 5 * TESTS
    annotations = coco.loadAnns(coco.getAnnIds())
    assert {measures(one) for annotation in annotations for one in annotation["negatives"]} == MEASURED
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
    assert sorted((record.image, record.text) for record in found) == sorted(expected)
    assert [record.image for record in found] != [image for image, _ in expected]  # shuffled


def test_coco_keeps_numbers_that_are_ids(toy: Toy, tmp_path: Path) -> None:
    captions, negatives = rows(8, 4)
    for row in [*captions, *negatives]:
        row["image_id"] = row["image_id"].replace("p", "000")
    run = write_run(tmp_path / "run", captions, negatives)
    dataset = json.loads(
        (toy._replace(run=run).publish(tmp_path / "out", "coco", images=None) / "captions_test.json").read_text()
    )
    assert sorted(image["id"] for image in dataset["images"]) == [4, 5, 6, 7]


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
        assert not dataset.metadata.issues.errors
        assert not dataset.metadata.issues.warnings
        metadata = json.loads((out / "croissant.json").read_text(encoding="utf-8"))
        assert metadata["conformsTo"] == "http://mlcommons.org/croissant/1.0" and metadata["license"] == "CC0-1.0"
        assert all(": {" in line for line in metadata.get("rai:dataManipulationProtocol", []))
        for item in metadata["distribution"]:
            if item["@type"] == "cr:FileObject":
                data = (out / item["contentUrl"]).read_bytes()
                assert item["sha256"] == hashlib.sha256(data).hexdigest() and item["contentSize"] == f"{len(data)} B"
        found = {}
        for record_set in metadata["recordSet"]:
            names = [field["@id"].rpartition("/")[2] for field in record_set["field"]]
            records = [dict(record) for record in dataset.records(record_set["@id"])]
            assert all([key.rpartition("/")[2] for key in record] == names for record in records)
            found[record_set["@id"]] = [
                {name: plain(v) for name, v in zip(names, r.values(), strict=True)} for r in records
            ]
        return found

    return read


def plain(value: Any) -> Any:
    """A value of a record: text as a string, the size of an image."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, Image.Image):
        return value.size
    return value.decode() if isinstance(value, bytes) else value


CITED = {"url": "https://example.org/toys", "creator": "Toys & Co", "date": "2024-02-29", "cite": "Toys, 2024"}
PAIRS = {
    "sugarcrepe": ("caption", "negative_caption"),
    "sugarcrepe++": ("caption", "negative_caption"),
    "aro": ("true_caption", "false_caption"),
    "huggingface": ("caption", "negative_caption"),
    "negclip": ("title", "neg_caption"),
    "coco": ("caption", "negatives"),
}


@pytest.fixture(scope="module")
def folder(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The published folder of a format and splits, made once."""

    @cache
    def published(format: str, *splits: str) -> Path:
        return toy.publish(tmp_path_factory.mktemp("out") / "out", format, split=splits, **CITED)

    return published


@pytest.mark.parametrize("format", sorted(PAIRS))
def test_croissant_reads_the_pairs(format: str, croissant: Any, toy: Toy, folder: Any) -> None:
    records = croissant(folder(format, "test"))
    true, false = PAIRS[format]
    together = {"negclip": {"test": ""}, "coco": {"captions_test": ""}}
    for name, operator in together.get(format, {"noun": "noun", "numeral": "numeral"}).items():
        pairs = []
        for record in records.pop(name):
            negatives = record[false]
            if format == "negclip":
                negatives = ast.literal_eval(negatives)
            pairs += [(record[true], one) for one in (negatives if isinstance(negatives, list) else [negatives])]
        first = FORMATS[format].per_operator == 1
        wanted = toy.first(operator) if first else toy.texts(operator)
        assert sorted(pairs) == sorted((caption, negative) for _, caption, negative in wanted) and pairs
    assert not records


def test_croissant_reads_the_columns_beside(croissant: Any, toy: Toy, folder: Any) -> None:
    coco = croissant(folder("coco", "test"))["captions_test"][0]
    assert coco["operators"] == ["noun"] * 3 + ["numeral"] and len(coco["replaced"]) == len(coco["replacements"]) == 4
    hub = croissant(folder("huggingface"))
    assert Counter(record["split"] for record in hub["noun"]) == Counter(
        row["split"] for row in toy.negatives if row["operator"] == "noun"
    )


@pytest.mark.parametrize("format", ["sugarcrepe", "coco"])
def test_croissant_has_images_that_are_copied(format: str, croissant: Any, toy: Toy, tmp_path: Path) -> None:
    out = toy.publish(tmp_path / "out", format, copy_images=True, **CITED)
    records = croissant(out)["images"]
    assert {record["path"]: record["image"] for record in records} == {
        path.name: size(path) for path in toy.images.iterdir() if int(path.stem[1:]) >= IMAGES - TESTS
    }
    assert len(json.loads((out / "croissant.json").read_text())["distribution"]) <= 3
    assert "| `image` | the image |" in (out / "README.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it leaves closing to the collector
def test_croissant_reads_archives(croissant: Any, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("negcap.pipelines.publish.layout.SAMPLES", 10)
    records = croissant(toy.publish(tmp_path / "out", "webdataset", **CITED))
    assert sorted(records) == ["test-captions", "test-images-jpg", "test-negatives"]
    by_key = {name: {record["key"]: record for record in some} for name, some in records.items()}
    assert len(by_key["test-captions"]) == 5 * TESTS
    pairs = []
    for key, record in by_key["test-captions"].items():
        negatives = json.loads(by_key["test-negatives"][key]["negatives"])
        assert by_key["test-images-jpg"][key]["image"] == size(toy.images / negatives["image"])
        pairs += [(negatives["image"], record["caption"], one["text"]) for one in negatives["negatives"]]
    assert sorted(pairs) == sorted(toy.texts())
    gc.collect()


UNNAMED = ("huggingface", "aro", "clip_benchmark", "lmms-eval", "negbench")  # no file, or no quotes


# snli needs parses and components, valse votes
@pytest.mark.parametrize("format", sorted(FORMATS.keys() - {"snli", "valse"}))
@pytest.mark.parametrize("splits", [("test",), ()])
def test_cards_name_files_that_are_there(format: str, splits: tuple[str, ...], folder: Any) -> None:
    out = folder(format, *splits)
    use = (out / "README.md").read_text(encoding="utf-8").partition("## How to read it")[2].partition("\n|")[0]
    named = re.findall(r"['`]([\w/.-]+\.(?:jsonl?|csv|tsv|tar|txt|pt))['`]", use) + re.findall(
        r"--train-data (\S+)", use
    )
    others = ("i.txt", "neg.json", "visual_genome_relation.json", "visual_genome_attribution.json", "negcap.tsv")
    named = [name for name in named if name not in others]
    beside = {"vse-c": "noun", "aro": ""}.get(format, "")
    assert all((out / name).is_file() or (out / beside / name).is_file() for name in named)
    assert "$" not in use and bool(named) == (format not in UNNAMED)
    check_columns(out)


def check_columns(out: Path) -> None:
    """Assert that each column that the card of a published folder names is in the files it says, or in their names."""
    card = (out / "README.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| in `([^`]+)` \| meaning \|\n\|---\|---\|\n((?:\| .*\n)+)", card, re.M)
    assert tables
    for pattern, rows_of_table in tables:
        (file, *_) = sorted(out.glob(pattern)) or [Path(pattern)]
        named = re.findall(r"^\| `([^`]+)` \| (.*) \|$", rows_of_table, re.M)
        found = keys_in(file)
        for name, meaning in named:
            if "in the file's name, not in the file" in meaning:
                assert found is None or name not in found, (pattern, name)
            elif found is not None:  # of text and pictures, a file is one value
                at = re.search(r": at `(.*)`$", meaning)
                assert (re.findall(r"\w+", at[1])[-1] if at else name) in found, (pattern, name)


def keys_in(file: Path) -> set[str] | None:
    """The names of the columns of a table, or all keys in JSON; None for a file of another kind."""
    if file.suffix == ".parquet":
        return set(pq.read_schema(file).names)
    if file.suffix in (".csv", ".tsv"):
        return set(pd.read_csv(file, sep="\t" if file.suffix == ".tsv" else ",", nrows=1).columns)
    if file.suffix in (".json", ".jsonl") and file.exists():
        return set(re.findall(r'"([\w-]+)": ', file.read_text(encoding="utf-8")))
    return None


IMPORTED = {"sugarcrepe", "sugarcrepe++", "aro", "negclip", "huggingface"}


@pytest.mark.parametrize("format", sorted(IMPORTED))
def test_what_is_published_is_read_by_import(format: str, toy: Toy, folder: Any) -> None:
    out = folder(format)
    rows, rejected = read_set(str(out), pair_files(str(out)), ImportConfig())
    first = FORMATS[format].per_operator == 1
    expected = {
        (row["split"], row["caption"], row["text"])
        for row in toy.negatives
        if not first or row["negative_id"].endswith(":0")
    }
    negatives = rows[rows["negative"].notna()]
    read = set(zip(negatives["split"], negatives["text"], negatives["negative"], strict=True))
    assert not rejected and read == expected
    assert set(rows["image_id"]) == {row["image_id"] for row in toy.captions}
