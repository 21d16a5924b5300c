"""The plan of the papers' tables, how it is run, and what the tables show."""

import json
from pathlib import Path

import pytest

from negcap.pipelines.cli import negcap
from negcap.pipelines.models.papers.__main__ import insert_tables, main
from negcap.pipelines.models.papers.plan import PARTS, Job, Settings, jobs
from negcap.pipelines.models.papers.run import cpu_minutes, run_jobs
from negcap.pipelines.models.papers.tables import TABLES, tables

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
        "unified": {kind: {"mAP": 20.0} for kind in ("object", "attribute", "relation")},
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
    assert len(set(written)) == len(written)


def test_each_part_alone_has_what_it_needs(tmp_path: Path) -> None:
    for part in PARTS:
        made: set[str] = set()
        for job in jobs(settings(tmp_path, parts=(part,))):
            for command in job.commands:
                read = [
                    word for flag, word in zip(command, command[1:], strict=False) if flag in ("--model", "--judge")
                ]
                assert {word for word in read if word.startswith("/")} <= made
                made |= {command[command.index("--output") + 1]} if "--output" in command else set()


def test_a_plan_that_cannot_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"part must be one of .*, was: vsec"):
        settings(tmp_path, parts=("vsec",))
    assert main([str(tmp_path), "--output", str(tmp_path / "o"), "--seeds", "0"]) == 2
    assert "seeds must be >= 1" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_commands_are_run_once_and_a_failure_stops_what_follows(tmp_path: Path) -> None:
    said: list[str] = []
    plan = [Job("one", [("--version",)], 0), Job("bad", [("show", str(tmp_path / "none")), ("--version",)]),
            Job("last", [("--version",)], 2)]  # fmt: skip
    assert run_jobs(plan, tmp_path, 2, said.append) == ["bad"]
    assert sorted(file.name for file in (tmp_path / "done").iterdir()) == ["one-0.json"]
    assert "negcap show failed" in said[-1] and "none" in (tmp_path / "log" / "bad-0.txt").read_text()
    assert 0 < cpu_minutes(tmp_path) < 1
    assert run_jobs(plan[:1], tmp_path, 1, said.append) == [] and len(said) == 2


def test_tables_show_what_is_there_beside_the_paper(tmp_path: Path) -> None:
    its = settings(tmp_path, seeds=2)
    write(its.model("vse-c@house-0") / "evaluation", evaluation(200.0))
    write(its.model("vse-c@house-1") / "evaluation", evaluation(210.0))
    write(its.model("univse@paper-0") / "evaluation", evaluation(300.0))
    write(its.model("univse-only-obj") / "evaluation", evaluation(150.0))
    write(its.model("univse-comp-0.1") / "evaluation", evaluation(151.0))
    made = tables(its)
    assert "| VSE-C, reported | 50.2 | 47.4 | 49.4 | 49.9 | 47.9 |" in made["vse-c-2-3"]
    assert "| VSE-C, house recipe | 12.0 (12.0–12.0) | 4.1 (4.0–4.2) |" in made["vse-c-2-3"]
    assert "VSE++, house recipe" not in made["vse-c-2-3"]
    assert "| UniVSE, paper's recipe | 3.0 | 2.0 | 3.0 |" in made["univse-2"]
    assert "| UniVSE, ablation, ℓ_obj alone (reported) | 20.0 (39.71) |" in made["univse-3"]
    assert "| chance | 30.0 | 25.0 |" in made["univse-4"]
    assert "| paper's recipe, rsum | 300.0 | 301.0 |" in made["univse-figure-5"]
    assert "| η of ℓ_comp | 151.0 / 19.5 |  |" in made["univse-weights"]
    assert all(len({line.count("|") for line in table.splitlines()}) == 1 for table in made.values())


def test_the_page_has_a_place_for_every_table(tmp_path: Path) -> None:
    filled = insert_tables(PAGE.read_text("utf-8"), {name: f"table {name}" for name in TABLES})
    assert all(f"\ntable {name}\n" in filled for name in TABLES)
