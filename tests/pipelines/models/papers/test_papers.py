"""The plan of the papers' tables, how it is run, and what the tables show."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import torch

from negcap.pipelines.cli import negcap
from negcap.pipelines.models.evaluation.protocols import rank_rows
from negcap.pipelines.models.figures import Figure
from negcap.pipelines.models.fit import silent
from negcap.pipelines.models.papers import __main__ as papers
from negcap.pipelines.models.papers.__main__ import insert_tables, main, run_steps
from negcap.pipelines.models.papers.plan import PARTS, PapersConfig, PlanStep, finished, planned_steps
from negcap.pipelines.models.papers.tables import TABLES, difference, tables, verdict
from negcap.schemas.captions import CAPTIONS
from tests.tables import write_table

PAGE = Path(__file__).parents[4] / "docs" / "studies" / "paper-tables.md"
KINDS = ("object", "attribute", "relation")


def settings(folder: Path, **given: object) -> PapersConfig:
    return PapersConfig(source=folder / "data", output=folder / "out", vectors=folder / "glove.txt", **given)


def write_evaluation(folder: Path, rsum: float) -> None:
    retrieval = {f"{way} R@{k}": 10.0 + k for way in ("i2t", "t2i") for k in (1, 5, 10)}
    retrieval |= {f"{way} {kind} rank": 7.0 for way in ("i2t", "t2i") for kind in ("median", "mean")}
    attacked = {"R@1": rsum / 50, "R@10": 5.0, "median rank": 4.0, "mean rank": 6.0}
    evaluation = {
        "retrieval": {"rsum": rsum, **retrieval},
        "vse-c": dict.fromkeys(("total", "noun", "numeral", "relation"), attacked),
        "univse": dict.fromkeys(KINDS, {"R@1": rsum / 100, "R@5": 2.0, "R@10": 3.0}),
        "plural": dict.fromkeys(("plain", "numeral"), {"R@1": 1.0, "R@10": 2.0, "mean rank": 3.0}),
        "unified": {kind: {"mAP": 20.0} for kind in KINDS}
        | {f"{kind}, as a sentence": {"mAP": 15.0} for kind in KINDS[:2]},
        "caption": {"alpha": 0.8},
        "parsing": {
            "attribute": {"noun": 50.0, "noun, random": 30.0},
            "relation": {"either": 40.0, "either, random": 25.0},
        },
        "alpha": {f"{n / 10:.1f}": {"rsum": rsum + n, "attacked": 7.0} for n in range(11)},
    }
    folder.mkdir(parents=True)
    (folder / "evaluation.json").write_text(json.dumps(evaluation), "utf-8")


def write_ranks(given: PapersConfig, name: str, plain: list[int], attacked: list[int]) -> None:
    """An evaluation with the ranks of three images, each with one caption."""
    folder = given.model(name) / "evaluation"
    write_evaluation(folder, float(sum(plain)))
    queries = {"i2t": ["a", "b", "c"], "t2i": ["a:0", "b:0", "c:0"]}
    rows = [rank_rows("plain", way, queries[way], torch.tensor(plain)) for way in queries]
    attacks = ("vse-c:total", "univse:object")
    rows += [rank_rows(kind, "i2t", queries["i2t"], torch.tensor(attacked)) for kind in attacks]
    pd.concat(rows).to_parquet(folder / "ranks.parquet")


def write_captions(folder: Path, *names: str) -> None:
    keys = [{"caption_id": name, "image_id": name.partition(":")[0], "split": "dev"} for name in names]
    rows = [{**dict.fromkeys(CAPTIONS.names, ""), **key} for key in keys]
    write_table(folder, "captions", pa.Table.from_pylist(rows, CAPTIONS))


@pytest.mark.parametrize("size", ["short", "trained", "full"])
def test_every_command_of_the_plan_is_one_of_negcaps_and_has_a_folder_of_its_own(tmp_path: Path, size: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train_grid.npy").touch()
    (tmp_path / "data" / "train_caps.de.tsv").touch()
    plan = planned_steps(settings(tmp_path, size=size, seeds=2))
    assert len({step.name for step in plan}) == len(plan) > 100
    outputs = []
    for _, (name, *flags), _ in plan:
        given = negcap.commands[name].make_context(name, flags).params  # raises for an unknown flag or value
        if name in ("train", "evaluate", "probe", "captioner") and given["output"]:
            outputs.append(given["output"])
    assert len(set(outputs)) == len(outputs) > 80
    mhad = [step.command for step in plan if "mha-d" in step.command]
    assert len(mhad) == 4 * 2  # models and seeds
    assert all(("paper" if size == "full" else "house") in command for command in mhad)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_alone_has_what_it_needs_and_waits_for_it(tmp_path: Path, part: str) -> None:
    writers: dict[str, set[str]] = {}  # by folder, the steps that write to it
    known: set[str] = set()
    plan = planned_steps(settings(tmp_path, parts=(part,)))
    assert plan
    for step in plan:
        verb, *words = step.command
        written = words[words.index("--output") + 1] if "--output" in words else ""
        if verb == "caption":
            written = words[1]
        folders = [name for word in words for name in word.removeprefix("judges=").split(",")]
        inside = [folder for folder in folders if folder.startswith(f"{tmp_path}/out") and folder != written]
        for folder in inside:
            assert folder in writers and writers[folder] <= step.needs <= known
        writers.setdefault(written, set()).add(step.name)
        known.add(step.name)
    # of all parts, MHA-D is left out where there is one language
    assert not any("mha-d" in step.command for step in planned_steps(settings(tmp_path)))


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the commands of a plan be lines for a shell."""
    monkeypatch.setattr(papers, "NEGCAP", ("sh", "-c"))


def test_what_needs_a_failed_command_is_not_run_and_all_else_is(tmp_path: Path, shell: None) -> None:
    said: list[str] = []
    after = tmp_path / "after"
    plan = [
        PlanStep("one", ("true",)),
        PlanStep("bad", ("echo why; kill -9 $$",), frozenset(["one"])),
        PlanStep("after", (f"touch {after}",), frozenset(["bad"])),
        PlanStep("last", (f"test -e {tmp_path}/done/one.json",), frozenset(["one"])),
    ]
    assert run_steps(plan, tmp_path / "data", tmp_path, 2, said.append) == ["bad"]
    assert finished(plan, tmp_path / "data", tmp_path) == {"one", "last"}
    assert not after.exists() and (tmp_path / "log" / "bad.txt").read_text() == "why\n"
    assert said[-1].endswith(": after")  # is not run
    plan[1] = PlanStep("bad", ("true",), plan[1].needs)
    said.clear()
    assert run_steps(plan, tmp_path / "data", tmp_path, 2, said.append) == [] and after.exists()
    assert [line.partition(",")[0] for line in said] == ["3 of 4: bad", "4 of 4: after"]


def test_an_interruption_ends_what_runs_and_the_same_call_goes_on(tmp_path: Path, shell: None) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    slow = f"test -e {tmp_path}/begun || {{ touch {tmp_path}/begun; sleep 60; }}; touch {tmp_path}/ended"
    wait_for_slow = f"until test -e {tmp_path}/begun; do sleep 0.01; done"
    plan = [PlanStep("slow", (slow,)), PlanStep("fast", (wait_for_slow,))]
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_steps(plan, tmp_path / "data", tmp_path, 2, interrupt)
    assert time.monotonic() - began < 30 and not (tmp_path / "ended").exists()
    assert finished(plan, tmp_path / "data", tmp_path) == {"fast"}
    assert run_steps(plan, tmp_path / "data", tmp_path, 1, silent) == [] and (tmp_path / "ended").exists()


def test_what_was_done_with_other_data_is_done_again(tmp_path: Path, shell: None) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "captions.txt").touch()
    plan = [PlanStep("one", ("true",)), PlanStep("two", ("true",), frozenset(["one"])), PlanStep("other", ("true",))]
    run_steps(plan, tmp_path / "data", tmp_path, 1, silent)
    assert finished(plan, tmp_path / "data", tmp_path) == {"one", "two", "other"}
    os.utime(tmp_path / "done" / "one.json", (at := time.time() + 9, at))
    assert finished(plan, tmp_path / "data", tmp_path) == {"one", "other"}  # what it needs was made anew
    os.utime(tmp_path / "data" / "captions.txt", (at := time.time() + 5, at))
    assert finished(plan, tmp_path / "data", tmp_path) == {"one"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> PapersConfig:
    """Evaluations of some models, by more seeds than the plan would train now."""
    given = settings(tmp_path_factory.mktemp("measured"), seeds=1)
    for run in (given.run, given.captions):
        write_captions(run, "a:0", "b:0", "c:0")
    for name, plain, attacked in (
        ("people-1@house-0", [1, 20, 20], [1, 20, 20]),
        ("people-1-beam-1@house-0", [1, 1, 20], [1, 1, 20]),
        ("vse++@house-0", [1, 1, 1], [20, 20, 20]),
        ("vse++@house-1", [1, 2, 1], [20, 20, 20]),
        ("vse-c@house-0", [1, 1, 1], [1, 1, 1]),
        ("vse-c@house-1", [2, 1, 2], [1, 1, 1]),
        ("vse-c@house-2", [20, 20, 20], [20, 20, 20]),
        ("vse-c+noun@house-1", [1, 1, 1], [1, 1, 1]),
        ("univse@paper-0", [1, 3, 2], [4, 5, 6]),
    ):
        write_ranks(given, name, plain, attacked)
    for name in ("univse@paper-0/sentence", "univse-only-obj/evaluation", "univse-learned-alpha/evaluation"):
        write_evaluation(given.model(name), 250.0)
    for seed, rsums in enumerate(([10, 20, 40, 30], [10, 70, 50, 10])):
        folder = given.model(f"vse-c@house-{seed}")
        epochs = enumerate(zip((0.4, 0.36, 0.2, 0.16), rsums, strict=True), 1)
        lines = [{"epoch": n, "loss": loss, "steps": 2, "validation": {"rsum": rsum}} for n, (loss, rsum) in epochs]
        (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
        (folder / "config.json").write_text(json.dumps({"config": {"margin": 0.2}}), "utf-8")
    counts = {"noun": 25, "numeral": 6, "shuffle": 2, "preposition": 3, "object": 9}
    of_caption = {"a:0": counts, "b:0": {**counts, "preposition": 2}, "d:0": counts}
    rows = [
        (name, f"uniform_{kind}") for name, each in of_caption.items() for kind, n in each.items() for _ in range(n)
    ]
    write_table(
        given.run, "negatives", pa.table({"caption_id": [a for a, _ in rows], "operator": [b for _, b in rows]})
    )
    return given


def test_tables_show_what_is_there_beside_the_paper(measured: PapersConfig, golden: Callable[[str, str], None]) -> None:
    shown = tables(measured)
    golden("paper-tables.md", "\n\n".join(f"## {name}\n\n{table}" for name, table in shown.items()) + "\n")
    page = insert_tables(PAGE.read_text("utf-8"), shown)
    assert set(TABLES) == set(shown) and all(table in page for table in shown.values())
    assert all(len({line.count("|") for line in table.splitlines() if "|" in line}) <= 1 for table in shown.values())


def test_differences_are_over_all_seeds_on_disk_that_both_models_have(measured: PapersConfig) -> None:
    assert difference(measured, "vse-c-2-3", "vse-c", "vse++", "paper") == ((), {})
    assert difference(measured, "vse-c-2-3", "vse-c+noun", "vse++", "house").seeds == (1,)
    seeds, figures = difference(measured, "vse-c-2-3", "vse-c", "vse++", "house")
    assert seeds == (0, 1)
    # R@1: of 6 images of both seeds 5 and 4 without attack, 0 and 6 under it; R@5 and R@10 differ under attack only
    values = [figures[name].value for name in ("plain i2t R@1", "rsum", "univse")]
    assert values == pytest.approx([-100 / 6, -200 / 6, 300])


@pytest.mark.parametrize(("paper", "measured", "interval", "seeds", "said"), [
    (-0.9, -1.0, (-1.5, -0.5), 3, "comes out"),  # a lower mean rank
    (-0.9, 1.0, (0.5, 1.5), 3, "does not"),
    (5.0, 1.0, (-0.1, 2.1), 3, "not shown"),
    (5.0, 9.0, (8.0, 10.0), 1, "one seed: sign as in the paper"),
])  # fmt: skip
def test_no_verdict_rests_on_one_seed_or_on_an_interval_with_0(paper, measured, interval, seeds, said):
    assert verdict(paper, Figure(measured, interval), seeds) == said


def test_models_that_are_evaluated_on_different_captions_are_not_compared(tmp_path, shell, capsys):
    given = settings(tmp_path)
    write_captions(given.run, "a:0", "b:0", "c:0")
    for name in ("vse-c@house-0", "vse++@house-0"):
        write_ranks(given, name, [1, 1, 1], [1, 1, 1])
    file = given.model("vse++@house-0") / "evaluation/ranks.parquet"
    pd.read_parquet(file).replace("c:0", "d:0").to_parquet(file)
    assert main([str(given.source), "--output", str(given.output), "--part", "saliency"]) == 1
    assert "on the same captions, vse-c@house-0 and vse++@house-0 are not" in capsys.readouterr().err
