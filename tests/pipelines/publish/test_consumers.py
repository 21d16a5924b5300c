"""Formats read back by the programs that they are for, where these are installed: `pip install negcap[consumers]`."""

import importlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from negcap.pipelines.quality.annotation import SheetConfig, write_sheet
from tests.cases import cases_of
from tests.pipelines.publish.fixtures import TOY_TESTS as TESTS
from tests.pipelines.publish.fixtures import Toy, rows, size, write_run

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("unmeasured")]


@pytest.mark.parametrize(("operators", "files"), cases_of(__file__)["sugarcrepe"].items())
def test_sugarcrepe_under_its_own_names(operators: str, files: list[str], toy: Toy, tmp_path: Path) -> None:
    captions, negatives = rows(4, 2)
    renamed = dict(zip(("noun", "numeral"), operators.split(", "), strict=True))
    for row in negatives:
        row["operator"] = renamed[row["operator"]]
        if row["operator"] == "object":
            row["replaced"] = ""  # it adds to its caption
    run = write_run(tmp_path / "run", captions, negatives)
    out = toy._replace(run=run).publish(tmp_path / "out", "sugarcrepe", names="sugarcrepe")
    pairs = {file.stem: json.loads(file.read_text()) for file in out.glob("*.json") if file.stem != "croissant"}
    assert sorted(pairs) == files and sum(map(len, pairs.values())) == 9 * 2
    assert all([*of_file] == [str(n) for n in range(len(of_file))] for of_file in pairs.values())


@pytest.mark.consumer("clip_benchmark.datasets.sugar_crepe")
def test_sugarcrepe_in_clip_benchmark(toy: Toy, tmp_path: Path) -> None:
    from clip_benchmark.datasets.sugar_crepe import SugarCrepe

    out = toy.publish(tmp_path / "out", "sugarcrepe", names="sugarcrepe", copy_images=True)
    read = SugarCrepe(root=str(out / "val2017"), ann_file=str(out / "replace_obj.json"))  # as its builder calls it
    expected = sorted((caption, text, size(toy.images / name)) for name, caption, text in toy.first("noun"))
    assert sorted((*texts, image.size) for image, texts in read) == expected


@pytest.mark.consumer("clip_benchmark.datasets.builder", "webdataset")
def test_clip_benchmark_reads_its_webdataset(toy: Toy, tmp_path: Path) -> None:
    from clip_benchmark.datasets.builder import build_wds_dataset

    out = toy.publish(tmp_path / "out", "clip_benchmark")
    read = list(build_wds_dataset("this", lambda image: image.size, "test", str(out)))
    expected: dict[str, list[str]] = {}
    for row in toy.captions:
        if row["split"] == "test":
            expected.setdefault(row["image"], []).append(row["text"])
    assert sorted(read) == sorted((size(toy.images / name), texts) for name, texts in expected.items())
    assert sorted(path.name for path in (out / "test").iterdir()) == ["0.tar", "nshards.txt"]


@pytest.mark.consumer("open_clip_train.data")
def test_open_clip_knows_the_size_of_shards(toy: Toy, tmp_path: Path) -> None:
    from open_clip_train.data import get_dataset_size

    out = toy.publish(tmp_path / "out", "webdataset")
    assert get_dataset_size(str(out / "test-{00000..00000}.tar")) == (5 * TESTS, 1)


def test_valse_has_the_votes_of_people(toy: Toy, tmp_path: Path) -> None:
    written = write_sheet(toy.run, tmp_path / "sheet.csv", SheetConfig(n=3, splits=("test",)))
    lines = pd.read_csv(written.sheet, encoding="utf-8-sig", dtype=str)
    right = [item.caption_is for item in written.items]
    sheets = []
    for voter in range(3):
        odd = ["both" if number % 2 else "neither" for number in range(len(lines))]
        sheets.append(tmp_path / f"{voter}.csv")
        lines.assign(describes=right if voter < 2 else odd).to_csv(sheets[-1], index=False)
    out = toy.publish(tmp_path / "out", "valse", votes=tuple(sheets), per_operator=3)
    pairs = {**json.loads((out / "noun.json").read_text()), **json.loads((out / "numeral.json").read_text())}
    voted = {item.id: (item.caption, item.text) for item in written.items}
    assert {id: (pair["caption"], pair["foil"]) for id, pair in pairs.items()} == voted
    assert {tuple(pair["mturk"].values()) for pair in pairs.values()} == {(1, 2, 0), (0, 2, 1)}
    for pair in pairs.values():  # VALSE's evaluation reads those that two voters found valid
        assert pair["mturk"]["caption"] >= 2 and size(toy.images / pair["image_file"])
        assert pair["classes"] in pair["caption"] and pair["classes_foil"] in pair["foil"]


def test_negbench_as_its_dataset_reads_it(toy: Toy, tmp_path: Path) -> None:
    out = toy.publish(tmp_path / "out", "negbench", image_root=str(toy.images))
    frame = pd.read_csv(out / "test.csv")
    false: dict[str, set[str]] = {}
    for _, caption, text in toy.texts():
        false.setdefault(caption, set()).add(text)
    for row in frame.to_dict("records"):  # CsvMCQDataset.__getitem__
        captions = [row[f"caption_{n}"] for n in range(4)]
        words = [Counter(text.split()) for text in captions]
        apart = [sum(((mine - other) + (other - mine)).total() for other in words) for mine in words]
        assert len(set(apart)) == 1  # which is true cannot be told by what the options have in common
        true = captions.pop(row["correct_answer"])
        assert size(row["image_path"]) and len(set(captions)) == 3 and len(set(captions) & false[true]) == 2
        assert row["correct_answer_template"] == "positive"
    # of each image one caption is changed in one place only
    assert len(frame) == 4 * TESTS and set(frame["correct_answer"]) == {0, 1, 2, 3}


def test_the_functions_of_the_lmms_eval_task(toy: Toy, tmp_path: Path, datasets_cache: Path) -> None:
    import datasets

    out = toy.publish(tmp_path / "out", "lmms-eval")
    functions: dict[str, Any] = {}
    exec((out / "utils.py").read_text(), functions)
    files = {"test": str(out / "data" / "test-*.parquet")}
    read = datasets.load_dataset("parquet", data_files=files, split="test", cache_dir=str(datasets_cache))
    assert len(read) == len(toy.first("noun")) + len(toy.first("numeral"))
    for row in read:
        assert functions["images"](row)[0].mode == "RGB" and functions["answer"](row) in "AB"
        options = dict(line.split(". ", 1) for line in functions["question"](row).splitlines()[1:-1])
        assert options[row["answer"]] in {text["text"] for text in toy.captions}
    right = read[0]["answer"]
    wrong = "AB"[right == "A"]
    for said, score in {right: 1.0, f"({right})": 1.0, f"{right}. A": 1.0, wrong: 0.0, "Both": 0.0, "": 0.0}.items():
        assert functions["right"](read[0], [said]) == {"accuracy": score}, said


@pytest.mark.consumer("mteb")
def test_mteb_evaluates_the_task_file(toy: Toy, tmp_path: Path, monkeypatch: Any, datasets_cache: Path) -> None:
    import torch

    monkeypatch.syspath_prepend(toy.publish(tmp_path / "out", "huggingface", copy_images=True))
    task = importlib.import_module("mteb_task").NegcapPairs()
    task.load_data()
    pairs = sorted((row["caption"], row["negative_caption"]) for row in task.dataset["test"])
    assert pairs == sorted((caption, negative) for _, caption, negative in toy.texts())
    metrics = task._compute_metrics([torch.tensor([[0.9, 0.1]]), torch.tensor([[0.1, 0.9]])], 1, 2)
    assert metrics["text_acc"] == 0.5
