"""Formats read back by the programs that they are for, where these are installed: `pip install negcap[consumers]`."""

import csv
import importlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from negcap.pipelines.publish.formats import PublishConfig
from negcap.pipelines.quality.annotation import SheetConfig, write_sheet
from tests.pipelines.publish.fixtures import TOY_TESTS as TESTS
from tests.pipelines.publish.fixtures import TOYS as IMAGES
from tests.pipelines.publish.fixtures import Toy, rows, size, write_run

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("unmeasured")]


def named(toy: Toy, operators: dict[str, str], tmp_path: Path) -> Toy:
    """The toy run with other names of operators; what is called `adds` adds to its caption."""
    captions, negatives = rows(IMAGES, TESTS)
    for row in negatives:
        row["operator"] = operators[row["operator"]]
        row["negative_id"] = row["negative_id"].replace("#noun", f"#{operators['noun']}")
        row["negative_id"] = row["negative_id"].replace("#numeral", f"#{operators['numeral']}")
        if row["operator"] == "object":
            row["replaced"] = ""
    return toy._replace(run=write_run(tmp_path / "named", captions, negatives))


def test_sugarcrepe_under_its_own_names(toy: Toy, tmp_path: Path) -> None:
    for number, (operators, files) in enumerate(
        (
            ({"noun": "noun", "numeral": "attribute"}, ["replace_att.json", "replace_obj.json"]),
            ({"noun": "verb", "numeral": "preposition"}, ["replace_rel.json"]),
            ({"noun": "shuffle", "numeral": "swap_attribute"}, ["swap_att.json", "swap_obj.json"]),
            ({"noun": "object", "numeral": "numeral"}, ["add_obj.json", "numeral.json"]),
            ({"noun": "replace_noun", "numeral": "replace_verb"}, ["replace_obj.json", "replace_rel.json"]),
            ({"noun": "add", "numeral": "swap"}, ["add_obj.json", "swap_obj.json"]),
        )
    ):
        one = named(toy, operators, tmp_path / str(number))
        out = one.publish(tmp_path / f"out{number}", "sugarcrepe", names="sugarcrepe")
        assert (
            sorted(file.name for file in out.glob("*_*.json")) + sorted(f.name for f in out.glob("numeral.json"))
            == files
        )
    found = json.loads((tmp_path / "out1" / "replace_rel.json").read_text())
    assert list(found) == [str(n) for n in range(9 * TESTS)]  # of both operators, each key once
    with pytest.raises(ValueError, match="names sugarcrepe are those of format sugarcrepe, format was: aro"):
        PublishConfig(format="aro", license="CC0-1.0", names="sugarcrepe", images=toy.images)


@pytest.mark.consumer("clip_benchmark.datasets.sugar_crepe")
def test_sugarcrepe_in_clip_benchmark(toy: Toy, tmp_path: Path) -> None:
    from clip_benchmark.datasets.sugar_crepe import SugarCrepe

    out = toy.publish(tmp_path / "out", "sugarcrepe", names="sugarcrepe", copy_images=True)
    found = SugarCrepe(root=str(out / "val2017"), ann_file=str(out / "replace_obj.json"))  # as its builder calls it
    wanted = sorted((caption, text, size(toy.images / name)) for name, caption, text in toy.first("noun"))
    assert sorted((*texts, image.size) for image, texts in found) == wanted


@pytest.mark.consumer("clip_benchmark.datasets.builder", "webdataset")
def test_clip_benchmark_reads_its_webdataset(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clip_benchmark.datasets.builder import build_wds_dataset

    monkeypatch.setattr("negcap.pipelines.publish.layout.SAMPLES", 2)
    out = toy.publish(tmp_path / "out", "clip_benchmark")
    found = list(build_wds_dataset("this", lambda image: image.size, "test", str(out)))
    wanted: dict[str, list[str]] = {}
    for row in toy.captions:
        if row["split"] == "test":
            wanted.setdefault(row["image"], []).append(row["text"])
    assert sorted(found) == sorted((size(toy.images / name), texts) for name, texts in wanted.items())
    assert sorted(path.name for path in (out / "test").iterdir()) == ["0.tar", "1.tar", "2.tar", "nshards.txt"]


@pytest.mark.consumer("open_clip_train.data")
def test_open_clip_knows_the_size_of_shards(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from open_clip_train.data import get_dataset_size

    monkeypatch.setattr("negcap.pipelines.publish.layout.SAMPLES", 10)
    out = toy.publish(tmp_path / "out", "webdataset")
    assert get_dataset_size(str(out / "test-{00000..00002}.tar")) == (5 * TESTS, 3)


def valse(out: Path, images: Path, file: str = "noun") -> list[tuple[str, str]]:
    """The pairs as VALSE's evaluation reads them: the valid ones, their images opened."""
    pairs = json.loads((out / f"{file}.json").read_text())
    valid = {id: pair for id, pair in pairs.items() if pair["mturk"]["caption"] >= 2}
    for pair in valid.values():
        assert size(images / pair["image_file"]) and pair["classes"] in pair["caption"]
        assert pair["classes_foil"] in pair["foil"] and pair["linguistic_phenomena"] == file
    return [(pair["caption"], pair["foil"]) for pair in valid.values()]


def test_valse_has_the_votes_of_people(toy: Toy, tmp_path: Path) -> None:
    sheet, _, items = write_sheet(toy.run, tmp_path / "sheet.csv", SheetConfig(n=3, splits=("test",)))
    lines = list(csv.DictReader(sheet.open(newline="", encoding="utf-8-sig")))
    right = {item.item: item.caption_is for item in items}
    sheets = []
    for voter in range(3):
        for number, line in enumerate(lines):
            line["describes"] = right[line["item"]] if voter < 2 else "both" if number % 2 else "neither"
        sheets.append(tmp_path / f"{voter}.csv")
        with sheets[-1].open("w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)
    out = toy.publish(tmp_path / "out", "valse", votes=tuple(sheets), per_operator=3)
    voted = {item.id: (item.caption, item.text) for item in items}
    read = {**json.loads((out / "noun.json").read_text()), **json.loads((out / "numeral.json").read_text())}
    assert {id: (pair["caption"], pair["foil"]) for id, pair in read.items()} == voted
    assert {tuple(pair["mturk"].values()) for pair in read.values()} == {(1, 2, 0), (0, 2, 1)}
    with pytest.raises(ValueError, match="format valse, and no other, needs --set votes=SHEETS, format was: aro"):
        PublishConfig(format="aro", license="CC0-1.0", votes=(sheet,), images=toy.images)


def test_negbench_as_its_dataset_reads_it(toy: Toy, tmp_path: Path) -> None:
    out = toy.publish(tmp_path / "out", "negbench", image_root=str(toy.images))
    frame = pd.read_csv(out / "test.csv")
    false: dict[str, set[str]] = {}
    for _, caption, text in toy.texts():
        false.setdefault(caption, set()).add(text)
    for row in frame.to_dict("records"):  # CsvMCQDataset.__getitem__
        captions = [row[f"caption_{n}"] for n in range(4)]
        words = [Counter(text.split()) for text in captions]
        apart = [sum(((one - other) + (other - one)).total() for other in words) for one in words]
        assert len(set(apart)) == 1  # which is true cannot be told by what the options have in common
        true = captions.pop(row["correct_answer"])
        assert size(row["image_path"]) and len(set(captions)) == 3 and len(set(captions) & false[true]) == 2
        assert row["correct_answer_template"] == "positive"
    # of each image one caption is changed in one place only
    assert len(frame) == 4 * TESTS and set(frame["correct_answer"]) == {0, 1, 2, 3}


def test_the_functions_of_the_lmms_eval_task(toy: Toy, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    out = toy.publish(tmp_path / "out", "lmms-eval")
    functions: dict[str, Any] = {}
    exec((out / "utils.py").read_text(), functions)
    found = datasets.load_dataset("parquet", data_files={"test": str(out / "data" / "test-*.parquet")}, split="test",
                                  cache_dir=str(tmp_path / "cache"))  # fmt: skip
    assert len(found) == len(toy.first("noun")) + len(toy.first("numeral"))
    for row in found:
        assert functions["images"](row)[0].mode == "RGB" and functions["answer"](row) in "AB"
        options = dict(line.split(". ", 1) for line in functions["question"](row).splitlines()[1:-1])
        assert options[row["answer"]] in {text["text"] for text in toy.captions}
    first = found[0]
    for said, right in ((first["answer"], 1.0), (f"({first['answer']})", 1.0), (f"{first['answer']}. A", 1.0),
                        ("AB"[first["answer"] == "A"], 0.0), ("Both", 0.0), ("", 0.0)):  # fmt: skip
        assert functions["right"](first, [said]) == {"accuracy": right}, said


@pytest.mark.consumer("mteb")
def test_mteb_evaluates_the_task_file(toy: Toy, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.syspath_prepend(toy.publish(tmp_path / "out", "huggingface", copy_images=True))
    module = importlib.import_module("mteb_task")
    task = module.NegcapPairs()
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    task.load_data()
    rows = task.dataset["test"]
    assert sorted((row["caption"], row["negative_caption"]) for row in rows) == sorted(
        (c, n) for _, c, n in toy.texts()
    )
    import torch

    metrics = task._compute_metrics([torch.tensor([[0.9, 0.1]]), torch.tensor([[0.1, 0.9]])], 1, 2)
    assert metrics["text_acc"] == 0.5


@pytest.mark.parametrize("format", ["lmms-eval", "clip_benchmark", "webdataset"])
def test_formats_that_hold_images_need_them(format: str) -> None:
    with pytest.raises(ValueError, match=f"format {format} needs the image files: --images FOLDER"):
        PublishConfig(format=format, license="CC0-1.0")
