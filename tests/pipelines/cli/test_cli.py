"""What the command line alone does: arguments, help, errors of a line, statuses, signals, streams; and whole runs."""

import importlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click
import psutil
import pytest
from click.shell_completion import ShellComplete

from negcap.augment.operators import PRESETS
from negcap.augment.operators.noun import ReplaceNoun
from negcap.augment.settings import words_of
from negcap.pipelines.cli import main, negcap
from negcap.pipelines.cli.group import ESCAPED
from negcap.pipelines.cli.models import with_default_split
from negcap.pipelines.engine.errors import OUT_OF_MEMORY
from negcap.pipelines.engine.lock import LOCK
from negcap.pipelines.engine.manifest import manifest_path
from negcap.pipelines.engine.progress import STATISTICS
from negcap.pipelines.engine.shards import MANIFESTS, list_shards, shard_path
from negcap.pipelines.engine.tables import hash_table, read_table
from negcap.pipelines.stages import build
from negcap.pipelines.tables import columns
from tests.cases import cases_of
from tests.conftest import HERE, ROOT, SAMPLE
from tests.tables import rows_of

CASES = cases_of(__file__)["cli"]

COMPONENT_TABLES = ("components", "component_vocabulary", "component_exclusions")
GOES_ON = "; the same command continues from here\n"


def negcap_exits(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def raising(error: BaseException) -> Callable[..., NoReturn]:
    def raises(*_: object, **__: object) -> NoReturn:
        raise error

    return raises


@pytest.mark.parametrize("verb", sorted(negcap.commands))
def test_a_command_has_help_of_every_flag_and_an_example_that_it_understands(verb, capsys, monkeypatch):
    assert negcap_exits(verb, "--help") == 0
    shown = capsys.readouterr().out
    command = negcap.commands[verb]
    assert shown.startswith(f"Usage: negcap {verb}") and command.help
    flags = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    assert all(flag.help for flag in flags)
    assert {flag.opts[0] for flag in flags} <= set(re.findall(r"^  (--[a-z-]+)", shown, re.M))
    monkeypatch.setattr(command, "callback", lambda **given: None)
    (example,) = re.findall(r"Example: (.*)", shown)
    assert shlex.split(example)[:2] == ["negcap", verb]
    assert negcap_exits(*shlex.split(example)[1:]) == 0


def test_the_group_lists_every_verb(capsys):
    assert negcap_exits() == 0
    alone = capsys.readouterr()
    assert negcap_exits("--help") == 0
    assert alone == (shown := capsys.readouterr())
    assert re.findall(r"^  ([a-z][a-z-]*)  ", shown.out, re.M) == list(negcap.commands)
    assert re.findall(r"^(\w.*):$", shown.out, re.M)[-1] == "Reproduce papers"
    assert "..." not in "".join(command.get_short_help_str(65) for command in negcap.commands.values())


@pytest.mark.parametrize(("imported", "lacking"), [
    ("pipelines.cli", "spacy thinc dask distributed pandas pyarrow numpy rich fsspec sklearn nltk inflect"),
    ("pipelines.stages.build, negcap.pipelines.api.functions, negcap.pipelines.api.augmenter",
     "torch transformers sklearn onnxruntime openai matplotlib PIL s3fs datasketch"),
])  # fmt: skip
def test_what_is_not_needed_or_installed_is_not_imported(imported, lacking):
    code = f"import sys, negcap.{imported}; print([name for name in {lacking.split()} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("line", "expected"), CASES["given"].items())
def test_a_command_gets_what_its_flags_say(line, expected, monkeypatch):
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(negcap.commands[line.split()[0]], "callback", lambda **given: seen.append(given))
    assert negcap_exits(*line.split()) == 0
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in seen[0].items()}
    assert {name: given[name] for name in expected} == expected


@pytest.mark.parametrize(("command", "said"), CASES["bad_input"].items())
def test_bad_input_is_one_line_and_status_2_and_writes_nothing(command, said, tmp_path, capsys, request):
    for name, content in CASES["bad_files"].items():
        (tmp_path / name).write_text(content)
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    run = request.getfixturevalue("sample_run") if "{run}" in command else None
    capsys.readouterr()  # what making the run has printed
    command = command.replace("BUILD", "build {sample} --output {tmp}/out").format(tmp=tmp_path, sample=SAMPLE, run=run)
    alone = {"--scheduler", "--workers"}.isdisjoint(command.split())  # spare the worker processes
    spared = HERE if command.split()[0] == "build" and alone and " " in command else ()
    assert negcap_exits(*shlex.split(command), *spared) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and said in shown.err and shown.err.count("\n") == 1 and shown.err.startswith("negcap")
    assert not (tmp_path / "out").exists()


WITHOUT_EXTRAS = """
import contextlib, io, json, sys
for name in "torch sklearn scipy transformers openai s3fs aiohttp requests py3langid PIL".split():
    sys.modules[name] = None
import negcap
from negcap.pipelines.cli import main
for line in sys.argv[1:]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            main(line.split()) if " " in line else getattr(negcap, line)
    except (ImportError, AttributeError) as error:
        said.write(f"{type(error).__name__} {error}\\n")
    print(json.dumps(said.getvalue()))
"""


def test_a_missing_extra_is_named(sample_run, tmp_path):
    lines = [line.format(run=sample_run, tmp=tmp_path, sample=SAMPLE) for line in CASES["missing"]]
    place = {**os.environ, "PYTHONPATH": str(ROOT.parent)}
    command = [sys.executable, "-c", WITHOUT_EXTRAS, *lines]
    done = subprocess.run(command, cwd=tmp_path, env=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for expected, said in zip(CASES["missing"].values(), map(json.loads, done.stdout.splitlines()), strict=True):
        assert expected in said and said.count("\n") == 1


def test_build_goes_on_from_captions_that_are_there(sample_run, tmp_path, capsys):
    shutil.copytree(sample_run / "captions", tmp_path / "run" / "captions")
    options = ["--operator", "numeral", "--set", "lexicon=own", *HERE]
    assert negcap_exits("build", "--output", tmp_path / "run", *options) == 2
    assert "captions cannot be checked: it has no manifest" in capsys.readouterr().err
    (tmp_path / "run" / MANIFESTS).mkdir()
    shutil.copy(sample_run / MANIFESTS / "captions.json", tmp_path / "run" / MANIFESTS)
    assert negcap_exits("build", "--output", tmp_path / "run", *options) == 0
    assert hash_table(tmp_path / "run", "parses") == hash_table(sample_run, "parses")
    numeral = [row for row in rows_of(sample_run, "negatives") if row["operator"] == "numeral"]
    assert numeral and rows_of(tmp_path / "run", "negatives") == numeral
    capsys.readouterr()
    assert negcap_exits("build", "--output", tmp_path / "empty", *options) == 2
    assert "CAPTIONS must be given" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_to_end_says_how_to_go_on_unless_it_is_ignored(name, status, monkeypatch, capsys, tmp_path):
    number = signal.Signals[name]

    def stopped(*_: object, **__: object) -> None:
        signal.raise_signal(number)
        raise ValueError("it went on")

    def exits_by(ingest: Callable[..., None]) -> tuple[int, str]:
        monkeypatch.setattr(build.ingestion, "ingest", ingest)
        status = negcap_exits("build", SAMPLE, "--output", tmp_path / "out", "--scheduler", "synchronous")
        return status, capsys.readouterr().err

    before = signal.signal(number, signal.SIG_IGN)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)  # pytest's own handlers must not count
            assert exits_by(stopped) == (status, f"negcap: stopped by {name}{GOES_ON}")
        assert exits_by(raising(KeyboardInterrupt())) == (130, f"\nnegcap: interrupted{GOES_ON}")
        signal.signal(number, signal.SIG_IGN)  # as nohup does
        assert exits_by(stopped) == (2, "negcap: it went on\n")
    finally:
        signal.signal(number, before)


def test_a_build_that_is_interrupted_leaves_neither_workers_nor_a_lock(tmp_path):
    run = tmp_path / "run"
    command = [sys.executable, "-m", "negcap", "build", str(SAMPLE), "--output", str(run), "--limit", "40", "--quiet"]
    options = ["--set", "shard_size=10", "--workers", "1"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # in the background, a shell has it ignored
    with subprocess.Popen(
        [*command, *options], stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heard
    ) as process:
        while process.poll() is None and not (run / "parses" / "part-00000.parquet").exists():
            time.sleep(0.01)
        workers = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)  # all of them, as a terminal does
        said = process.communicate(timeout=300)[1]
    assert process.returncode == 130 and said.endswith(GOES_ON) and len(said.splitlines()) == 2
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert workers and not alive and not (run / LOCK).exists()


def test_build_ends_with_tables_and_examples_on_stdout(sample_run, capsys):
    options = ["--limit", 40, "--preset", "all", "--set", "lexicon=own", "--scheduler", "synchronous"]
    assert negcap_exits("build", SAMPLE, "--output", sample_run, *options) == 0
    shown = capsys.readouterr()
    assert all(word in shown.out for word in (*PRESETS["all"], "200 captions of 40 images", "because", "up to date"))
    assert re.search(r"\[-.+-\]\{\+.+\+\}", shown.out)
    stages = ("ingest", "parse", "lexicon", *COMPONENT_TABLES, "truth", "balance", "negatives")
    assert shown.err.splitlines() == [f"{stage}: up to date" for stage in stages]
    counts = json.loads(manifest_path(sample_run / "negatives").read_text())["counts"]
    rows = rows_of(sample_run, "negatives")
    for name in PRESETS["vse-c"]:
        captions = [row["caption_id"] for row in rows if row["operator"] == name]
        assert (counts[f"{name}.rows"], counts[f"{name}.captions"]) == (len(captions), len(set(captions)))
    refused = sum(count for name, count in counts.items() if name.startswith("rejected."))
    assert refused == len(rows_of(sample_run, "rejections")) > 0


def test_a_shard_explains_itself_and_no_file_names_a_folder_of_this_machine(sample_run):
    metadata = next(read_table(sample_run, "negatives")).schema.metadata
    assert set(metadata) >= set(b"negcap_version stage config seed operators parser lexicon_sha256".split())
    everything = b"".join(path.read_bytes() for path in sample_run.rglob("*.json"))
    assert not [folder for folder in (sample_run, ROOT) if str(folder).encode() in everything]


@pytest.mark.dask
def test_workers_verbs_and_shard_sizes_make_the_same_rows(sample_run, tmp_path):
    """A build by a worker in small shards, beside one verb after the other in this process and in a single shard."""
    run = tmp_path / "run"
    build = ["build", SAMPLE, "--output", run, "--limit", 40, "--set", "shard_size=50", "--preset", "all", "--quiet"]
    build += ["--set", "lexicon=own"]
    assert negcap_exits(*build, "--workers", 1) == 0
    assert len(list_shards(run / "negatives")) == 4
    assert [path.name for path in (run / STATISTICS).iterdir() if path.suffix == ".md"] == ["README.md"]
    for table in (*COMPONENT_TABLES, *"captions parses lexicon truth balance negatives positives rejections".split()):
        assert rows_of(run, table) == rows_of(sample_run, table)

    def content() -> dict[Path, bytes]:  # the statistics are the only files of a run with times
        return {path: path.read_bytes() for path in run.rglob("*.*") if path.parent.name != STATISTICS}

    by_workers = content()
    shard_path(run / "negatives", 2).unlink()
    assert negcap_exits(*build, "--scheduler", "synchronous") == 0
    assert content() == by_workers


def test_components_that_a_run_has_are_made_anew_with_its_captions(sample_copy):
    given = ["--limit", 4, "--set", "lexicon=own", "--set", "simple=true", "--set", "min_count=3", "--overwrite", *HERE]
    assert negcap_exits("build", SAMPLE, "--output", sample_copy, *given) == 0
    rows = rows_of(sample_copy, "components")
    names = {thing["object"] for row in rows for thing in row["objects"]}
    assert len(rows) == 20 and names and not [name for name in names if " " in name]
    assert negcap_exits("info", sample_copy, "--verify") == 0
    shard_path(sample_copy / "negatives", 0).write_bytes(b"cut")
    assert negcap_exits("info", sample_copy, "--verify") == 1


def test_build_makes_components_where_they_are_asked_for(tmp_path):
    for options, made in [
        ({}, False), ({"operators": ("relation",)}, False), ({"preset": "vse-c"}, False), ({"simple": "false"}, False),
        ({"components": True}, True), ({"preset": "univse"}, True), ({"simple": "true"}, True),
    ]:  # fmt: skip
        assert ("components" in build.planned_verbs(tmp_path, options)) == made, options


def test_captions_in_another_language_make_nothing_and_break_nothing(tmp_path, capsys):
    (tmp_path / "bilder.csv").write_text("image,caption\na.jpg,Ein Hund auf einem Sofa\na.jpg,Eine Katze\n")
    given = ["--output", tmp_path / "run", "--language", "de", "--components", *HERE]
    assert negcap_exits("build", tmp_path / "bilder.csv", *given) == 0
    assert "not English, left out: 2 de" in capsys.readouterr().out
    assert rows_of(tmp_path / "run", "parses") == rows_of(tmp_path / "run", "negatives") == []


def test_show_is_random_repeatable_and_selects(sample_run, capsys):
    def shown(*options: object) -> str:
        assert negcap_exits("show", sample_run, *options) == 0
        return capsys.readouterr().out

    def values(column: str, *options: object) -> list[str]:
        return [json.loads(line)[column] for line in shown("--json", *options).splitlines()]

    seven = ("--operator", "preposition", "--n", 7)
    first = shown(*seven)
    assert first.count("  preposition: ") == 7 == len(re.findall(r"\[-.+?-\]\{\+.+?\+\}", first))
    assert shown(*seven) == first != shown(*seven, "--seed", 1)
    assert shown("--rejections", "--n", 4).count("  rejected: ") == 4
    assert set(values("operator", "--operator", "noun,verb", "--n", 9999)) == {"noun", "verb"}
    assert set(values("operator", "--operator", "paraphrase")) == {"paraphrase"}
    assert set(values("reason", "--reason", "dangling_pronoun")) == {"dangling_pronoun"}
    [(caption, number)] = Counter(row["caption_id"] for row in rows_of(sample_run, "rejections")).most_common(1)
    assert values("caption_id", "--rejections", "--caption", caption) == [caption] * number  # all of it, without --n


def test_without_a_test_split_the_only_other_one_is_evaluated(monkeypatch):
    for splits, given, taken in [
        ("train dev", {}, "dev"), ("train dev test", {}, None), ("train val dev", {}, None),
        ("train dev", {"split": "train"}, "train"),
    ]:  # fmt: skip
        monkeypatch.setattr(columns, "splits_of", lambda run, splits=splits: splits.split())
        assert with_default_split(Path("run"), given).get("split") == taken


def test_a_table_that_a_run_lacks_is_made_by_the_command_that_is_named(sample_run, tmp_path, capsys):
    def has(*tables: str) -> None:
        (tmp_path / MANIFESTS).mkdir(exist_ok=True)
        for table in tables:
            shutil.copytree(sample_run / table, tmp_path / table)
            shutil.copy(sample_run / MANIFESTS / f"{table}.json", tmp_path / MANIFESTS)

    def advises(command: str, advice: str) -> None:
        assert negcap_exits(*command.split()) == 2
        assert f" yet: {advice}" in capsys.readouterr().err

    has("captions")
    stopped = "the build stopped after ingest: run the same build again"
    for command in (f"show {tmp_path}", f"build --only lexicon --output {tmp_path}", f"refine {tmp_path} --vetted"):
        advises(command, stopped)
    advises(f"train {tmp_path} --output {tmp_path}/m --model vse", "run negcap features")
    has("parses", "truth")  # a later stage, without one before it
    advises(f"show {tmp_path}", "the build stopped after truth: run the same build again")
    advises(f"build --only balance --output {tmp_path}", f"run negcap build --output {tmp_path} --only lexicon")
    advises(f"show {sample_run} --refined", f"run negcap refine {sample_run}")


@pytest.mark.parametrize(("flag", "library"), CASES["words"].items())
def test_the_words_of_flags_and_types_are_those_of_the_library(flag, library):
    def named(text: str) -> list[str]:
        module, _, name = text.partition(":")
        name, _, field = name.partition(".")
        value = getattr(importlib.import_module(f"negcap.{module}"), name)
        return list(words_of(value.model_fields[field].annotation)) if field else list(value)

    assert named(flag) == named(library)


def test_completion_offers_the_choices():
    def offered(*words: str) -> list[str]:
        complete = ShellComplete(negcap, {}, "negcap", "_NEGCAP_COMPLETE")
        return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]

    assert offered("pub") == ["publish"]
    assert offered("show", "run", "--operator", "n") == ["noun", "numeral", "negation", "negate"]
    assert offered("publish", "run", "--format", "sugar") == ["sugarcrepe", "sugarcrepe++"]


def test_what_the_machine_lacks_is_one_line_and_a_fault_of_ours_is_raised(monkeypatch, capsys):
    for error, said in [
        (RecursionError("too deep"), "too deep"),
        (MemoryError("Unable to allocate 7 GiB\nfor x"), f"{OUT_OF_MEMORY}: Unable to allocate 7 GiB"),
        (RuntimeError("alloc.cpp: can't allocate memory\nx"), f"{OUT_OF_MEMORY}: alloc.cpp: can't allocate memory"),
        (TypeError("Overflow when unpacking long long"), f"{OUT_OF_MEMORY}: Overflow when unpacking long long"),
        (ImportError("failed to\nmap a.so"), "failed to map a.so"),
    ]:
        monkeypatch.setattr(negcap, "invoke", raising(error))
        assert negcap_exits("show", "x") == 2
        assert capsys.readouterr().err == f"negcap: {said}\n"
    monkeypatch.setattr(negcap, "invoke", raising(RuntimeError("a fault of ours")))
    with pytest.raises(RuntimeError, match="a fault of ours"):
        negcap_exits("show", "x")


def test_a_stream_without_some_characters_gets_them_as_json_has_them(sample_run, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert negcap_exits("show", sample_run, "--n", 3) == 0
    stream.flush()
    assert b"\\u2192" in stream.buffer.getvalue()
    text = 'A dog 🐕 → "caf\u00e9" \udcff'
    assert json.loads(json.dumps(text, ensure_ascii=False).encode("ascii", ESCAPED)) == text


def test_closed_streams_take_nothing(sample_run, tmp_path, monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert negcap_exits("show", sample_run) == 0
    assert negcap_exits("show", tmp_path / "nothing") == 2
    for name in ("stdin", "stdout", "stderr"):
        getattr(sys, name).close()


@pytest.mark.filterwarnings("ignore:operator noun raised KeyError:RuntimeWarning")
def test_strict_exits_with_1_if_an_operator_failed(tmp_path, monkeypatch, capsys):
    (tmp_path / "captions.csv").write_text("image,caption\n1,A dog runs .\n2,A cat sits on a table .\n")
    run = tmp_path / "run"
    lexicon = ["--set", "lexicon=reference", "--operator", "noun"]
    build = ["build", tmp_path / "captions.csv", "--output", run, *lexicon, *HERE]
    monkeypatch.setattr(ReplaceNoun, "rows", raising(KeyError("scarf")))
    assert negcap_exits(*build, "--strict") == 1
    shown = capsys.readouterr()
    assert f"negcap show {run} --reason operator_error lists them" in shown.err and "operator_error 2" in shown.out
    assert negcap_exits(*build) == 0  # the table is kept
    assert negcap_exits("show", run, "--reason", "operator_error") == 0
    assert "operator noun raised KeyError: 'scarf'" in capsys.readouterr().out
