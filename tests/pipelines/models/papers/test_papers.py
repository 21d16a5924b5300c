"""The plan of the papers' tables, how it is run, and what the tables show."""

import json
import re
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from negcap.pipelines.cli import negcap
from negcap.pipelines.models.evaluation import retrieval
from negcap.pipelines.models.evaluation.protocols import RankList
from negcap.pipelines.models.papers import run
from negcap.pipelines.models.papers.__main__ import insert_tables, main
from negcap.pipelines.models.papers.plan import PARTS, Job, Settings, jobs
from negcap.pipelines.models.papers.run import run_jobs, supply_table, times
from negcap.pipelines.models.papers.tables import TABLES, differences, tables
from negcap.pipelines.models.trainer.evaluate import Evaluation
from negcap.schemas.captions import CAPTIONS
from tests.tables import write_table

PAGE = Path(__file__).parents[4] / "docs" / "pages" / "paper-tables.md"


def settings(folder: Path, **given: object) -> Settings:
    return Settings(folder / "data", folder / "out", vectors=folder / "glove.txt", **given)  # type: ignore[arg-type]


def evaluation(rsum: float) -> dict:
    attack = {"R@1": rsum / 100, "R@5": 2.0, "R@10": 3.0}
    return {
        "retrieval": {"rsum": rsum, "i2t R@1": 12.0, "t2i R@1": 9.0},
        "vse-c": {name: {"R@1": rsum / 50} for name in ("total", "noun", "numeral", "relation")},
        "univse": dict.fromkeys(("object", "attribute", "relation"), attack),
        "plural": {side: {"R@1": 1.0, "R@10": 2.0, "mean rank": 3.0} for side in ("plain", "numeral")},
        "unified": {
            **{kind: {"mAP": 20.0} for kind in ("object", "attribute", "relation")},
            **{f"{kind}, as a sentence": {"mAP": 15.0} for kind in ("object", "attribute")},
        },
        "caption": {"alpha": 0.8},
        "parsing": {
            "attribute": {"noun": 50.0, "noun, random": 30.0},
            "relation": {"either": 40.0, "either, random": 25.0},
        },
        "alpha": {f"{n / 10:.1f}": {"rsum": rsum + n, "attacked": 7.0} for n in range(11)},
    }


def write(folder: Path, found: dict) -> None:
    folder.mkdir(parents=True)
    (folder / "evaluation.json").write_text(json.dumps(found), "utf-8")


@pytest.mark.parametrize("size", ["small", "full"])
def test_every_command_of_the_plan_is_one_of_negcaps(tmp_path: Path, size: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train_grid.npy").touch()
    plan = jobs(settings(tmp_path, size=size, seeds=2))
    assert len({job.name for job in plan}) == len(plan) > 60
    for job in plan:
        for name, *flags in job.commands:
            negcap.commands[name].make_context(name, flags)  # raises for an unknown flag or value
    written = [
        command[command.index("--output") + 1] for job in plan for command in job.commands if "--model" in command
    ]
    written += [
        command[len(command) - command[::-1].index("--output")]
        for job in plan
        for command in job.commands[1:]
        if command[0] == "evaluate"
    ]
    assert len(set(written)) == len(written)


def test_each_part_alone_has_what_it_needs(tmp_path: Path) -> None:
    for part in PARTS:
        made: set[str] = set()
        for job in jobs(settings(tmp_path, parts=(part,))):
            for command in job.commands:
                read = [word for flag, word in zip(command, command[1:], strict=False) if flag == "--model"]
                read += [name for word in command if word.startswith("judges=") for name in word[7:].split(",")]
                assert {word for word in read if word.startswith("/")} <= made
                made |= {command[command.index("--output") + 1]} if "--output" in command else set()


def test_generated_captions_need_no_negatives(tmp_path: Path) -> None:
    assert not any(
        command[0] == "build" for job in jobs(settings(tmp_path, parts=("augmented",))) for command in job.commands
    )


def test_a_plan_that_cannot_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"part must be one of .*, was: vsec"):
        settings(tmp_path, parts=("vsec",))
    assert main([str(tmp_path), "--output", str(tmp_path / "o"), "--seeds", "0"]) == 2
    assert "seeds must be >= 1" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the commands of a plan be lines for a shell."""
    monkeypatch.setattr(run, "NEGCAP", ("sh", "-c"))


def test_what_needs_a_failed_command_is_not_run_and_all_else_is(tmp_path: Path, shell: None) -> None:
    said: list[str] = []
    killed = tmp_path / "killed"
    plan = [
        Job("one", [("true",)]),
        Job("bad", [("echo why; kill -9 $$",), (f"touch {killed}",)], ("one",)),
        Job("after bad", [(f"touch {killed}",)], ("bad",)),
        Job("two", [("true",), (f"test -e {tmp_path}/done/two-0.json",)]),
        Job("last", [(f"test -e {tmp_path}/done/two-1.json",)], ("two", "one")),
    ]
    assert run_jobs(plan, tmp_path, 2, said.append) == ["bad-0"]
    done = {"one-0", "two-0", "two-1", "last-0"}
    assert {file.stem for file in (tmp_path / "done").iterdir()} == set(times(plan, tmp_path)) == done
    assert not killed.exists() and (tmp_path / "log" / "bad-0.txt").read_text() == "why\n"
    assert any(line.startswith("bad-0: negcap echo why; kill -9 $$ failed") for line in said)
    assert any(re.match(r"4 of 7, 0\.\d minutes of CPU: last-0, .*, 0 s of CPU, \d s$", line) for line in said)
    assert said[-1] == "not run, as they need what failed: bad-1, after-bad-0"
    plan[1] = Job("bad", [("true",), (f"touch {killed}",)], ("one",))
    assert run_jobs(plan, tmp_path, 2, said.append) == [] and killed.exists()
    begins = ("4 of 7 commands were done before", "5 of 7, ", "6 of 7, ", "7 of 7, ")
    assert all(line.startswith(begin) for line, begin in zip(said[-4:], begins, strict=True))


def test_an_interruption_ends_what_runs_and_the_same_call_goes_on(tmp_path: Path, shell: None) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    slow = f"test -e {tmp_path}/begun || {{ touch {tmp_path}/begun; sleep 60; }}; touch {tmp_path}/ended"
    wait_for_slow = f"until test -e {tmp_path}/begun; do sleep 0.01; done"
    plan = [Job("slow", [(slow,)]), Job("fast", [(wait_for_slow,), ("true",)])]
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_jobs(plan, tmp_path, 2, interrupt)
    assert time.monotonic() - began < 30 and not (tmp_path / "ended").exists()
    assert set(times(plan, tmp_path)) == {"fast-0"}
    said: list[str] = []
    assert run_jobs(plan, tmp_path, 1, said.append) == [] and (tmp_path / "ended").exists()
    assert said[0] == "1 of 3 commands were done before" and len(said) == 3


def test_commands_of_negcap_are_run(tmp_path: Path) -> None:
    plan = [Job("one", [("--version",)])]
    assert run_jobs(plan, tmp_path, 1, lambda line: None) == []
    assert (tmp_path / "log" / "one-0.txt").read_text().startswith("negcap")
    assert 0 < times(plan, tmp_path)["one-0"].cpu < 60


def test_negatives_are_counted_by_family_in_the_split(tmp_path: Path) -> None:
    its = settings(tmp_path)
    captions = [("a:0", "a", "dev"), ("a:1", "a", "dev"), ("b:0", "b", "dev"), ("c:0", "c", "train")]
    rows = [
        {**dict.fromkeys(CAPTIONS.names, ""), "caption_id": name, "image_id": image, "split": split}
        for name, image, split in captions
    ]
    write_table(its.run, "captions", pa.Table.from_pylist(rows, CAPTIONS))
    assert "measured" not in supply_table(its)
    each = {
        "uniform_noun": 25,
        "uniform_numeral": 6,
        "uniform_shuffle": 2,
        "uniform_preposition": 3,
        "uniform_object": 9,
    }
    fewer = {**each, "uniform_preposition": 2}
    made = [
        (caption, operator)
        for caption, of in (("a:0", each), ("a:1", each), ("b:0", fewer), ("c:0", each))
        for operator, number in of.items()
        for _ in range(number)
    ]
    columns = zip(("caption_id", "operator"), zip(*made, strict=True), strict=True)
    write_table(its.run, "negatives", pa.table({name: list(column) for name, column in columns}))
    assert supply_table(its).splitlines()[-1] == "| measured | 20.0 | 6.0 | 4.7 | 2 · 1 · 0 · 0 of 2 |"


def write_ranks(folder: Path, plain: list[int], attacked: list[int]) -> None:
    """Add the ranks of three images, each with one caption, without attack and with both VSE-C's and UniVSE's."""
    images, captions = ["a", "b", "c"], ["a:0", "b:0", "c:0"]
    lists = [
        RankList("plain", "i2t", images, torch.tensor(plain)),
        RankList("plain", "t2i", captions, torch.tensor(plain)),
    ]
    lists += [RankList(name, "i2t", images, torch.tensor(attacked)) for name in ("vse-c:total", "univse:object")]
    pq.write_table(Evaluation({}, lists).table(), folder / "ranks.parquet")


def test_differences_are_over_the_seeds_that_both_models_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "RESAMPLES", 200)
    its = settings(tmp_path, seeds=3)
    rows = [{**dict.fromkeys(CAPTIONS.names, ""), "caption_id": f"{name}:0", "image_id": name} for name in "abc"]
    for folder in (its.run, its.captions):
        write_table(folder, "captions", pa.Table.from_pylist(rows, CAPTIONS))
    for name, plain in (("people-1", [1, 20, 20]), ("people-1-beam-1", [1, 1, 20]), ("people-5-judged-1", [1, 1, 1])):
        write(its.model(name) / "evaluation", evaluation(50.0))
        write_ranks(its.model(name) / "evaluation", plain, plain)
    for name, seed, plain, attacked in (
        ("vse++", 0, [1, 1, 1], [20, 20, 20]),
        ("vse++", 1, [1, 2, 1], [20, 20, 20]),
        ("vse-c", 0, [1, 1, 1], [1, 1, 1]),
        ("vse-c", 1, [2, 1, 2], [1, 1, 20]),
        ("vse-c", 2, [20, 20, 20], [20, 20, 20]),
    ):
        folder = its.model(f"{name}@house-{seed}") / "evaluation"
        write(folder, evaluation(100.0 + seed))
        write_ranks(folder, plain, attacked)
    found = differences(its)
    assert set(found) == {("house", "vse-c", "vse++")}
    figures = found["house", "vse-c", "vse++"]
    # R@1: of 6 images of both seeds 5 and 4 without attack, 0 and 5 under it; R@5 and R@10 differ under attack only
    assert figures["plain i2t R@1"].value == pytest.approx(-100 / 6)
    assert figures["rsum"].value == pytest.approx(-200 / 6)
    assert figures["univse"].value == pytest.approx(3 * 500 / 6)
    low, high = figures["vse-c:total i2t R@1"].interval
    assert 30 < low < 500 / 6 < high == 100
    made = tables(its)
    assert "| VSE-C − VSE++, house recipe | -16.7 (" in made["vse-c-2-3"]
    assert "| VSE-C − VSE++, house recipe |  |" in made["vse-c-4"]
    assert "| VSE-C − VSE++, reported | +8.8 |  |  | +6.9 |" in made["univse-2"]
    assert "UniVSE − VSE-C, house recipe" not in made["univse-2"]
    assert "| `people-1-beam-1` | 50.0 | 12.0 | 9.0 | +200.0 (" in made["augmented"]  # a third more of six recalls
    assert "| `people-1` | 50.0 | 12.0 | 9.0 |  |" in made["augmented"]
    assert "| `people-5-judged-1` | 50.0 | 12.0 | 9.0 |  |" in made["augmented"]
    assert all(len({line.count("|") for line in table.splitlines()}) == 1 for table in made.values())


def test_tables_show_what_is_there_beside_the_paper(tmp_path: Path) -> None:
    its = settings(tmp_path, seeds=2)
    write(its.model("vse-c@house-0") / "evaluation", evaluation(200.0))
    write(its.model("vse-c@house-1") / "evaluation", evaluation(210.0))
    write(its.model("univse@paper-0") / "evaluation", evaluation(300.0))
    write(its.model("univse@paper-0") / "sentence", evaluation(250.0))
    write(its.model("univse-only-obj") / "evaluation", evaluation(150.0))
    write(its.model("univse-comp-0.1") / "evaluation", evaluation(151.0))
    write(its.model("univse-learned-alpha") / "evaluation", evaluation(152.0))
    command = next(job.commands[0] for job in jobs(its) if job.name == "vse-c@house-0")
    (tmp_path / "out" / "done").mkdir()
    second = [job.commands[0] for job in jobs(its) if job.name == "vse-c@house-1"]
    for seed, done in enumerate([command, *second]):
        kept = {"command": done, "seconds": {"cpu": 120.0, "wall": 130.0}}
        (tmp_path / "out" / "done" / f"vse-c@house-{seed}-0.json").write_text(json.dumps(kept), "utf-8")
    made = tables(its)
    assert "| VSE-C, reported | 50.2 | 47.4 | 49.4 | 49.9 | 47.9 |" in made["vse-c-2-3"]
    assert "| VSE-C, house recipe | 12.0 (12.0–12.0) | 4.1 (4.0–4.2) |" in made["vse-c-2-3"]
    assert "| VSE-C, house recipe | 2.0 (2.0–2.1) | 2.0 | 3.0 | 2.0 (2.0–2.1) |" in made["univse-2"]
    assert "VSE++, house recipe" not in made["vse-c-2-3"]
    assert "| UniVSE, paper's recipe | 3.0 | 2.0 | 3.0 |" in made["univse-2"]
    assert "| UniVSE, sentence alone, paper's recipe | 2.5 | 2.0 | 3.0 |" in made["univse-2"]
    assert "| `negcap train` | 1 | 2.0 |" in made["time"] and "| all | 1 | 2.0 |" in made["time"]
    assert "| UniVSE, ablation, ℓ_obj alone (reported) | 20.0 (39.71) |" in made["univse-3"]
    assert "| UniVSE, words read as sentences, paper's recipe | 15.0 | 15.0 |  |" in made["univse-3"]
    assert "| learned-alpha: 0.80 in the end | 468.1 / 576.7 | 152.0 |" in made["univse-ablations"]
    assert "| chance | 30.0 | 25.0 |" in made["univse-4"]
    assert "| paper's recipe, rsum | 300.0 | 301.0 |" in made["univse-figure-5"]
    assert "| η of ℓ_comp | 151.0 / 19.5 |  |" in made["univse-weights"]
    assert all(len({line.count("|") for line in table.splitlines()}) == 1 for table in made.values())


def test_the_page_has_a_place_for_every_table(tmp_path: Path) -> None:
    filled = insert_tables(PAGE.read_text("utf-8"), {name: f"table {name}" for name in TABLES})
    assert all(f"\ntable {name}\n" in filled for name in TABLES)
