"""The plan of the papers' tables, how it is run, and what the tables show."""

import json
import os
import re
import time
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import torch
from scipy import stats

from negcap.pipelines.cli import negcap
from negcap.pipelines.models.evaluation.protocols import rank_rows
from negcap.pipelines.models.figures import Figure
from negcap.pipelines.models.papers import __main__ as papers
from negcap.pipelines.models.papers.__main__ import insert_tables, main, run_steps
from negcap.pipelines.models.papers.plan import PAPERS, PARTS, PapersConfig, PlanStep, finished, steps
from negcap.pipelines.models.papers.tables import TABLES, difference, tables, verdict
from negcap.schemas.captions import CAPTIONS
from tests.tables import write_table

PAGE = Path(__file__).parents[4] / "docs" / "studies" / "paper-tables.md"
KINDS = ("object", "attribute", "relation")
RANKS = {"median": 7.0, "mean": 40.0}


def settings(folder: Path, **given: object) -> PapersConfig:
    return PapersConfig(source=folder / "data", output=folder / "out", vectors=folder / "glove.txt", **given)


def write_evaluation(folder: Path, rsum: float) -> None:
    found = {
        "retrieval": {
            **{"rsum": rsum, "i2t R@1": 12.0, "i2t R@5": 25.0, "i2t R@10": 30.0},
            **{"t2i R@1": 9.0, "t2i R@5": 20.0, "t2i R@10": 28.0},
            **{f"{way} {kind} rank": rank for way in ("i2t", "t2i") for kind, rank in RANKS.items()},
        },
        "vse-c": {
            name: {"R@1": rsum / 50, "R@10": 5.0, "median rank": 4.0, "mean rank": 6.0}
            for name in ("total", "noun", "numeral", "relation")
        },
        "univse": dict.fromkeys(KINDS, {"R@1": rsum / 100, "R@5": 2.0, "R@10": 3.0}),
        "plural": {side: {"R@1": 1.0, "R@10": 2.0, "mean rank": 3.0} for side in ("plain", "numeral")},
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
    (folder / "evaluation.json").write_text(json.dumps(found), "utf-8")


def write_captions(folder: Path, *names: str, split: str = "dev") -> None:
    keys = [{"caption_id": name, "image_id": name.partition(":")[0], "split": split} for name in names]
    rows = [{**dict.fromkeys(CAPTIONS.names, ""), **key} for key in keys]
    write_table(folder, "captions", pa.Table.from_pylist(rows, CAPTIONS))


def test_every_command_of_the_plan_is_one_of_negcaps_and_has_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train_grid.npy").touch()
    (tmp_path / "data" / "train_caps.de.tsv").touch()
    for size in ("short", "trained", "full"):
        plan = steps(settings(tmp_path, size=size, seeds=2))
        assert any("generated_gan" in step.command for step in plan) == (size != "short")
        assert len({step.name for step in plan}) == len(plan) > 100
        written = []
        for _, (name, *flags), _ in plan:
            given = negcap.commands[name].make_context(name, flags).params  # raises for an unknown flag or value
            if name in ("train", "evaluate", "probe", "captioner") and given["output"]:
                written.append(given["output"])
        texts = [" ".join(step.command) for step in plan]
        tables = {found[1] for text in texts if (found := re.search(r"^caption .*--table (\S+)", text))}
        trained_on = {found[1] for text in texts if (found := re.search(r"extra=(\S+)", text))}
        assert trained_on <= tables | {"generated"} and all(re.fullmatch("generated_[a-z0-9]+", it) for it in tables)
        assert len(set(written)) == len(written) > 80
        mhad = [step for step in plan if "mha-d" in step.command]
        assert len(mhad) == 4 * 2  # models and seeds
        assert all(("paper" if size == "full" else "house") in step.command for step in mhad)


def test_columns_of_a_table_have_titles_of_their_own_and_differences_are_of_its_models() -> None:
    for name, its in PAPERS["compared"].items():
        titles = [title for title, _, _ in its["columns"]]
        assert len(set(titles)) == len(titles), name
        assert all(len(values) <= len(titles) for values in its["reported"].values())
        assert {model for pair in its.get("differences", ()) for model in pair} <= set(its["models"])


def test_mha_d_is_left_out_of_all_parts_where_there_is_one_language_and_runs_where_it_is_asked_for(
    tmp_path: Path,
) -> None:
    (tmp_path / "data").mkdir()
    assert not any("mha-d" in step.command for step in steps(settings(tmp_path)))
    plan = steps(settings(tmp_path, parts=("mha-d",)))  # its first command then says what is missing
    assert plan[0].command[:2] == ("build", str(tmp_path / "data")) and plan[0].command[-2:] == ("--language", "all")
    assert [step.command[0] for step in plan[1:4]] == ["features", "train", "evaluate"]


@pytest.mark.parametrize("part", PARTS)
def test_each_part_alone_has_what_it_needs_and_waits_for_it(tmp_path: Path, part: str) -> None:
    made: dict[str, set[str]] = {}  # by folder, the steps that write to it
    known: set[str] = set()
    for step in steps(settings(tmp_path, parts=(part,))):
        verb, first, *words = step.command
        read = [word for flag, word in zip(words, words[1:], strict=False) if flag == "--model"]
        read += [name for word in words if word.startswith("judges=") for name in word[7:].split(",")]
        read += [first] if verb not in ("build", "features") else []
        read += [words[0]] if verb in ("evaluate", "caption", "saliency", "probe") else []
        for folder in (word for word in read if word.startswith("/")):
            assert folder in made and made[folder] <= step.needs <= known
        if verb == "caption" or "--output" in words:
            output = words[words.index("--output") + 1] if "--output" in words else words[0]
            made.setdefault(output, set()).add(step.name)
        known.add(step.name)
        assert verb != "build" or "ingest" in words or part != "augmented"  # generated captions need no negatives


def test_a_plan_that_cannot_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"parts must be one of .*, was: vsec"):
        settings(tmp_path, parts=("vsec",))
    assert main([str(tmp_path), "--output", str(tmp_path / "o"), "--seeds", "0"]) == 2
    assert "seeds must be >= 1" in capsys.readouterr().err and not (tmp_path / "o").exists()


def test_commands_of_negcap_are_run(tmp_path: Path) -> None:
    plan = [PlanStep("one", ("--version",))]
    assert run_steps(plan, tmp_path / "data", tmp_path, 1, lambda line: None) == []
    assert (tmp_path / "log" / "one.txt").read_text().startswith("negcap")
    assert finished(plan, tmp_path / "data", tmp_path) == {"one"}


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the commands of a plan be lines for a shell."""
    monkeypatch.setattr(papers, "NEGCAP", ("sh", "-c"))


def test_what_needs_a_failed_command_is_not_run_and_all_else_is(tmp_path: Path, shell: None) -> None:
    said: list[str] = []
    killed = tmp_path / "killed"
    plan = [
        PlanStep("one", ("true",)),
        PlanStep("bad", ("echo why; kill -9 $$",), frozenset(["one"])),
        PlanStep("after", (f"touch {killed}",), frozenset(["bad"])),
        PlanStep("two", ("true",)),
        PlanStep("last", (f"test -e {tmp_path}/done/two.json",), frozenset(["two", "one"])),
    ]
    assert run_steps(plan, tmp_path / "data", tmp_path, 2, said.append) == ["bad"]
    done = {"one", "two", "last"}
    assert {file.stem for file in (tmp_path / "done").iterdir()} == done
    assert finished(plan, tmp_path / "data", tmp_path) == done
    assert not killed.exists() and (tmp_path / "log" / "bad.txt").read_text() == "why\n"
    assert any(line.startswith("bad: negcap echo why; kill -9 $$ failed") for line in said)
    assert any(line.startswith("3 of 5: last, test -e") for line in said)
    assert said[-1] == "not run, as they need what failed: after"
    plan[1] = PlanStep("bad", ("true",), plan[1].needs)
    assert run_steps(plan, tmp_path / "data", tmp_path, 2, said.append) == [] and killed.exists()
    assert said[-2:] == ["4 of 5: bad, true", f"5 of 5: after, touch {killed}"]


def test_an_interruption_ends_what_runs_and_the_same_call_goes_on(tmp_path: Path, shell: None) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    slow = f"test -e {tmp_path}/begun || {{ touch {tmp_path}/begun; sleep 60; }}; touch {tmp_path}/ended"
    wait_for_slow = f"until test -e {tmp_path}/begun; do sleep 0.01; done"
    plan = [PlanStep("slow", (slow,)), PlanStep("fast", (wait_for_slow,)), PlanStep("after", ("true",), frozenset(["fast"]))]
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_steps(plan, tmp_path / "data", tmp_path, 2, interrupt)
    assert time.monotonic() - began < 30 and not (tmp_path / "ended").exists()
    assert finished(plan, tmp_path / "data", tmp_path) == {"fast"}
    said: list[str] = []
    assert run_steps(plan, tmp_path / "data", tmp_path, 1, said.append) == [] and (tmp_path / "ended").exists()
    assert len(said) == 2


def test_what_was_done_with_other_data_is_done_again(tmp_path: Path, shell: None) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "captions.txt").touch()
    plan = [PlanStep("one", ("true",)), PlanStep("two", ("true",), frozenset(["one"])), PlanStep("other", ("true",))]
    run_steps(plan, tmp_path / "data", tmp_path, 1, lambda line: None)
    done = tmp_path / "done"
    assert finished(plan, tmp_path / "data", tmp_path) == {"one", "two", "other"}
    os.utime(done / "one.json", (at := time.time() + 9, at))
    assert finished(plan, tmp_path / "data", tmp_path) == {"one", "other"}  # what it needs was made anew
    os.utime(tmp_path / "data" / "captions.txt", (at := time.time() + 5, at))
    assert finished(plan, tmp_path / "data", tmp_path) == {"one"}


def test_tables_show_what_is_there_beside_the_paper(tmp_path: Path) -> None:
    its = settings(tmp_path, seeds=2)
    for name, what, rsum in (
        ("vse-c@house-0", "evaluation", 200.0),
        ("vse-c@house-1", "evaluation", 210.0),
        ("univse@paper-0", "evaluation", 300.0),
        ("univse@paper-0", "sentence", 250.0),
        ("univse-only-obj", "evaluation", 150.0),
        ("univse-learned-alpha", "evaluation", 152.0),
    ):
        write_evaluation(its.model(name) / what, rsum)
    for seed, rsum in enumerate(([10, 20, 40, 30], [10, 70, 50, 10])):
        folder = its.model(f"vse-c@house-{seed}")
        lines = enumerate(zip((0.4, 0.36, 0.2, 0.16), rsum, strict=True), 1)
        made = [
            json.dumps({"epoch": epoch, "loss": loss, "steps": 2, "validation": {"rsum": value}})
            for epoch, (loss, value) in lines
        ]
        (folder / "metrics.jsonl").write_text("\n".join(made), "utf-8")
        (folder / "config.json").write_text(json.dumps({"config": {"margin": 0.2}}), "utf-8")
    write_captions(its.run, "a:0", "a:1", "b:0")
    each = {"noun": 25, "numeral": 6, "shuffle": 2, "preposition": 3, "object": 9}
    made = [(name, f"uniform_{kind}") for name in ("a:0", "a:1", "c:0") for kind, n in each.items() for _ in range(n)]
    made += [("b:0", f"uniform_{kind}") for kind, n in {**each, "preposition": 2}.items() for _ in range(n)]
    columns = zip(("caption_id", "operator"), zip(*made, strict=True), strict=True)
    write_table(its.run, "negatives", pa.table({name: list(column) for name, column in columns}))
    shown = tables(its)
    for table, row in (
        ("coverage", "| vse-c | 18 | 2 | `vse@house`, `vse++@house`, `vse-c+noun@house`, `vse-c+numeral@house`, "),
        ("coverage", "| ablations | 13 | 2 | `univse-average`, "),
        ("coverage", "| order | 10 | 0 | all |"),
        ("supply", "| measured | 20.0 | 6.0 | 4.7 | 2 · 1 · 0 · 0 of 2 |"),
        ("vse-c-2-3", "| VSE-C, reported | 50.2 |  |  |  | 47.4 | 88.8 |  |  | 49.4 | 49.9 | 47.9 |"),
        (
            "vse-c-2-3",
            "| VSE-C, house recipe, 2 seeds | 12.0 (12.0–12.0) | 30.0 | 7.0 | 40.0 | 4.1 (4.0–4.2) | 5.0 | 4.0 |",
        ),
        ("training", "| VSE-C, house recipe | 8 | 3 2 of 4 | 1.00 | 0.90 | 0.50 | 0.40 | 10.00 | 45.00 |"),
        ("univse-1", "| VSE++, reported |  |  |  |  |  |  | 445.1 |"),
        ("univse-2", "| UniVSE, sentence and relations, reported |  |  |  |  |  |  |  |  |  | 589.7 |"),
        ("univse-2", "| VSE-C, house recipe, 2 seeds | 2.0 (2.0–2.1) | 2.0 | 3.0 | 2.0 (2.0–2.1) |"),
        ("univse-2", "| UniVSE, paper's recipe, 1 seed | 3.0 | 2.0 | 3.0 |"),
        ("univse-2", "| UniVSE, sentence alone, paper's recipe, 1 seed | 2.5 | 2.0 | 3.0 |"),
        ("univse-3", "| UniVSE, ablation, ℓ_obj alone (reported) | 20.0 (39.71) |"),
        ("univse-3", "| UniVSE, words read as sentences, paper's recipe, 1 seed | 15.0 | 15.0 |  |"),
        ("univse-ablations", "| learned-alpha: 0.80 in the end | 468.1 / 576.7 | 152.0 |"),
        ("univse-4", "| chance | 30.0 | 25.0 |"),
        ("univse-figure-5", "| rsum, paper's recipe, 1 seed | 300.0 | 301.0 |"),
    ):
        assert row in shown[table]
    assert "VSE++, house recipe" not in shown["vse-c-2-3"]
    assert all(len({line.count("|") for line in table.splitlines()}) == 1 for table in shown.values())
    page = insert_tables(PAGE.read_text("utf-8"), shown)
    assert set(TABLES) == set(shown) and all(table in page for table in shown.values())


def test_of_what_is_not_measured_there_are_the_papers_numbers_alone(tmp_path: Path) -> None:
    shown = tables(settings(tmp_path))
    empty = {name for name, table in shown.items() if table == "Nothing of this is measured yet."}
    assert empty == {"claims", "training", "vse-c-figure-2", "univse-figure-5"}
    assert "house recipe" not in "".join(shown.values()) and "VSE-C, reported" in shown["vse-c-2-3"]
    assert shown["coverage"].count("| 0 | all |") == len(shown["coverage"].splitlines()) - 2


def write_ranks(its: PapersConfig, name: str, plain: list[int], attacked: list[int]) -> None:
    """An evaluation with the ranks of three images, each with one caption."""
    folder = its.model(name) / "evaluation"
    write_evaluation(folder, 50.0)
    queries = {"i2t": ["a", "b", "c"], "t2i": ["a:0", "b:0", "c:0"]}
    rows = [rank_rows("plain", way, queries[way], torch.tensor(plain)) for way in queries]
    attacks = ("vse-c:total", "univse:object")
    rows += [rank_rows(kind, "i2t", queries["i2t"], torch.tensor(attacked)) for kind in attacks]
    pd.concat(rows).to_parquet(folder / "ranks.parquet")


def test_differences_are_over_all_seeds_on_disk_that_both_models_have(tmp_path: Path) -> None:
    its = settings(tmp_path, seeds=1)  # which the plan would train now
    for run_folder in (its.run, its.captions):
        write_captions(run_folder, "a:0", "b:0", "c:0")
    for name, plain, attacked in (
        ("people-1@house-0", [1, 20, 20], [1, 20, 20]),
        ("people-1-beam-1@house-0", [1, 1, 20], [1, 1, 20]),
        ("people-5-judged-1@house-0", [1, 1, 1], [1, 1, 1]),
        ("vse++@house-0", [1, 1, 1], [20, 20, 20]),
        ("vse++@house-1", [1, 2, 1], [20, 20, 20]),
        ("vse-c@house-0", [1, 1, 1], [1, 1, 1]),
        ("vse-c@house-1", [2, 1, 2], [1, 1, 1]),
        ("vse-c@house-2", [20, 20, 20], [20, 20, 20]),
        ("vse-c+noun@house-1", [1, 1, 1], [1, 1, 1]),
        ("order@paper-0", [1, 2, 3], [1, 2, 3]),
        ("order-symmetric@paper-0", [2, 3, 4], [2, 3, 4]),
    ):
        write_ranks(its, name, plain, attacked)
    assert difference(its, "vse-c-2-3", "vse-c", "vse++", "paper") == ((), {})
    assert difference(its, "vse-c-2-3", "vse-c+noun", "vse++", "house").seeds == (1,)
    seeds, figures = difference(its, "vse-c-2-3", "vse-c", "vse++", "house")
    assert seeds == (0, 1)
    # R@1: of 6 images of both seeds 5 and 4 without attack, 0 and 6 under it; R@5 and R@10 differ under attack only
    assert figures["plain i2t R@1"].value == pytest.approx(-100 / 6)
    assert figures["rsum"].value == pytest.approx(-200 / 6)
    assert figures["univse"].value == pytest.approx(300)
    # by seed 0 and -100 / 3: v = (100 / 3)² / 2 / 2. By image, over both seeds, -50, 50 and -50: a third of their
    # variance is w = 100² / 4 · (1 - 1 / 9) / 3
    of_seeds, of_images = (100 / 3) ** 2 / 4, 2500 * 8 / 9 / 3
    half = stats.t.ppf(0.975, (of_seeds + of_images) ** 2 / of_seeds**2) * (of_seeds + of_images) ** 0.5
    low, high = figures["plain i2t R@1"].interval
    assert high - low == pytest.approx(2 * half, rel=0.1)
    shown = tables(its)
    assert "| VSE-C − VSE++, house recipe, 2 seeds | -16.7 (" in shown["vse-c-2-3"]
    assert "| VSE-C − VSE++, house recipe, 2 seeds |  |" in shown["vse-c-4"]
    assert "| VSE-C − VSE++, reported | +8.8 |" in shown["univse-2"]
    assert "UniVSE − VSE-C, house recipe" not in shown["univse-2"]
    # no verdict rests on one seed
    for pair, metric, seeds, paper, shape in (
        ("VSE-C − VSE++", "without attack: R@1", 2, "-5.5", "not shown"),
        ("VSE-C − VSE++", "all: R@1", 2, "+11.8", "comes out"),
        ("VSE-C, noun − VSE++", "all: R@1", 1, "+4.7", "one seed: sign as in the paper"),
        ("VSE-C, noun − VSE++", "without attack: R@1", 1, "-5.0", "one seed: sign not as in the paper"),
    ):
        row = re.escape(f"| {pair}, house recipe | vse-c-2-3 | {metric} | {seeds} | {paper} | ")
        assert re.search(rf"{row}.* \| {shape} \|", shown["claims"]), metric
    rows = [line for line in shown["claims"].splitlines() if line.startswith("| ")][2:]
    judged = [row for row in rows if "one seed" not in row]
    assert 0 < len(judged) < len(rows)
    counts = [sum(row.endswith(f"| {shape} |") for row in judged) for shape in ("comes out", "does not", "not shown")]
    assert sum(counts) == len(judged)
    assert shown["claims"].endswith(
        f"{len(rows)} rows; {len(judged)} of more than one seed: {counts[0]} come out, {counts[1]} do not, {counts[2]} "
        f"are not shown. If no model differed from any other, {len(judged) / 40:.1f} would come out by chance, and as "
        "many would not."
    )
    # a third more of six recalls
    assert "| `people-1-beam-1` − `people-1`, house recipe, 1 seed | +200.0 (" in shown["augmented"]
    for name in ("people-1", "people-5-judged-1"):
        assert f"| `{name}`, house recipe, 1 seed | 50.0 | 12.0 | 30.0 | 9.0 | 28.0 |" in shown["augmented"]


@pytest.mark.parametrize(
    ("paper", "value", "interval", "seeds", "shape"),
    [
        (-0.9, -1.0, (-1.5, -0.5), 3, "comes out"),  # a lower mean rank
        (-0.9, 1.0, (0.5, 1.5), 3, "does not"),
        (5.0, 1.0, (-0.1, 2.1), 3, "not shown"),
        (5.0, 9.0, (8.0, 10.0), 1, "one seed: sign as in the paper"),
        (5.0, -9.0, (-10.0, -8.0), 1, "one seed: sign not as in the paper"),
    ],
)
def test_verdicts(paper: float, value: float, interval: tuple[float, float], seeds: int, shape: str) -> None:
    assert verdict(paper, Figure(value, interval), seeds) == shape


def test_models_that_are_evaluated_on_different_captions_are_not_compared(
    tmp_path: Path, shell: None, capsys: pytest.CaptureFixture[str]
) -> None:
    its = settings(tmp_path)
    write_captions(its.run, "a:0", "b:0", "c:0")
    write_ranks(its, "vse-c@house-0", [1, 1, 1], [1, 1, 1])
    write_ranks(its, "vse++@house-0", [1, 1, 1], [1, 1, 1])
    file = its.model("vse++@house-0") / "evaluation/ranks.parquet"
    pd.read_parquet(file).replace("c:0", "d:0").to_parquet(file)
    message = r"on the same captions, vse-c@house-0 and vse\+\+@house-0 are not: evaluate them anew"
    with pytest.raises(ValueError, match=message):
        difference(its, "vse-c-2-3", "vse-c", "vse++", "house")
    assert main([str(its.source), "--output", str(its.output), "--part", "saliency"]) == 1
    assert re.search(message, capsys.readouterr().err)
