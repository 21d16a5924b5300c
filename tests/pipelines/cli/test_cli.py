import importlib
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

import click
import psutil
import pytest

from negcap.augment.operators import PRESETS
from negcap.augment.operators.noun import ReplaceNoun
from negcap.augment.settings import words_of
from negcap.pipelines.cli import main, negcap, options
from negcap.pipelines.cli.group import ESCAPED
from negcap.pipelines.engine.errors import OUT_OF_MEMORY
from negcap.pipelines.engine.lock import LOCK
from negcap.pipelines.engine.manifest import manifest_path
from negcap.pipelines.engine.progress import STATISTICS
from negcap.pipelines.engine.shards import MANIFESTS, list_shards, shard_path
from negcap.pipelines.engine.tables import hash_table, read_table
from negcap.pipelines.quality.annotation import SheetConfig, items
from negcap.pipelines.quality.audit.figures import collect, to_table
from negcap.pipelines.quality.bias.measure import read_all
from negcap.pipelines.stages import build
from tests.conftest import ROOT, SAMPLE
from tests.tables import rows_of

HEAVY = "spacy thinc dask distributed pandas pyarrow numpy rich fsspec sklearn nltk inflect".split()
HERE = ("--scheduler", "synchronous", "--quiet")
COMPONENT_TABLES = ("components", "component_vocabulary", "component_exclusions")


def negcap_exits(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def raising(error: BaseException) -> Callable[..., None]:
    def raises(*_: object, **__: object) -> None:
        raise error

    return raises


@pytest.fixture
def run(sample_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample_run, tmp_path / "run"))


@pytest.mark.parametrize("verb", sorted(negcap.commands))
def test_every_command_and_option_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert negcap_exits(verb, "--help") == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: negcap {verb}")
    command = negcap.commands[verb]
    assert command.help
    (example,) = re.findall(r"Example: (.*)", shown)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "callback", lambda **given: None)
        arguments = shlex.split(example)
        assert arguments[:2] == ["negcap", verb]
        assert negcap_exits(*arguments[1:]) == 0, "its example must be a command that it understands"
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or getattr(parameter, "help", None), f"{verb}: {parameter.name}"


VERBS = """build info show graph demo refine blind audit sheet agree publish import propose vet
    train evaluate score finetune features scenes counterparts judge probe hypernyms entail captioner caption
    """.split()


def test_the_group_lists_the_verbs_in_the_order_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert negcap_exits() == 0
    alone = capsys.readouterr()
    assert negcap_exits("--help") == 0
    assert alone == (shown := capsys.readouterr())
    assert re.findall(r"^  ([a-z][a-z-]*)  ", shown.out, re.M) == VERBS == list(negcap.commands)
    *_, last = re.findall(r"^(\w.*):$", shown.out, re.M)
    assert last == "Reproduce papers"
    assert "..." not in "".join(command.get_short_help_str(65) for command in negcap.commands.values())


def test_the_command_line_imports_nothing_heavy() -> None:
    code = "import sys, negcap.pipelines.cli; print([name for name in sys.argv[1:] if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code, *HEAVY], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_build_imports_nothing_that_its_own_installation_lacks() -> None:
    extras = ("torch", "transformers", "sklearn", "onnxruntime", "openai", "matplotlib", "PIL", "s3fs", "datasketch")
    code = (
        "import sys, negcap.pipelines.stages.build; from negcap.pipelines.api import augmenter, captions, functions; "
        "print([name for name in sys.argv[1:] if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, *extras], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_flag_states_what_its_field_states() -> None:
    flags = {(name, option.name): option.help for name in ("build", "train", "audit")
             for option in negcap.commands[name].params if isinstance(option, click.Option)}  # fmt: skip
    assert flags["build", "per_family"] == "Negatives per caption and family, at most; default: 20."
    assert flags["build", "seed"].endswith("equal rows; default: 0.")  # type: ignore[union-attr]
    assert flags["build", "limit"] == "Keep a random sample of N images; default: all."
    assert flags["train", "joint"].endswith("; default: 1024, mha-d 512.")  # type: ignore[union-attr]
    assert flags["audit", "blind"] == "Do not measure the text-only baselines."


@pytest.mark.parametrize("text", ["min_count=5", "min-count=5"])
def test_every_setting_is_read_by_set(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict] = []
    monkeypatch.setattr(negcap.commands["build"], "callback", lambda **given: seen.append(given))
    assert negcap_exits("build", "--output", tmp_path, "--set", text, "--set", "seed=3", "--per-family", 2) == 0
    assert {name: seen[0][name] for name in ("min_count", "seed", "per_family")} == {
        **{"min_count": "5", "seed": "3", "per_family": 2}
    }


BAD_INPUT = {
    "biuld": "No such command 'biuld'",
    "build": "negcap build: Missing option '--output'",
    "build {tmp}/none.json --output {tmp}/out": "none.json",
    "build {tmp}/bad.json --output {tmp}/out": "bad.json",
    "build {sample} --output {tmp}/bad.json": "bad.json: the output must be a folder, is a file",
    "BUILD --format cocoa": "format must be one of coco, karpathy",
    "BUILD --operator nouns": "operator must be one of noun, numeral",
    "BUILD --operator verbs": "was: verbs; did you mean verb?",
    "BUILD --operator noun,,shuffle": "must be names between commas",
    "BUILD --preset vsec": "preset must be one of vse-c, univse, negation, benchmark, all, vse-c-paper, "
    "univse-paper, was: vsec; "
    "did you mean vse-c?",
    "BUILD --preset all --preset univse": "--preset takes one value, was given 2 times; --operator takes several",
    "BUILD --seed 1 --per-family 3 --seed=2 --seed 3": "--seed takes one value, was given 3 times",
    "BUILD --set min_count=3 --set min-count=4": "--set min_count takes one value, was given twice: 3, 4",
    "BUILD --seed 1 --set seed=2": "seed is given by a flag and by --set seed=2: give one of them",
    "train {tmp}/out --output {tmp}/m --output {tmp}/n": "--output takes one value, was given 2 times",
    "BUILD --operater noun": "Did you mean one of: ",
    "BUILD --per-family 0": "per_family must be >= 1, was: 0",
    "BUILD --set min_count=0": "min_count must be >= 1, was: 0",
    "BUILD --limit 0": "limit must be >= 1, was: 0",
    "BUILD --set shard_size=ten": "shard_size must be a whole number, was: ten",
    "BUILD --set min_concretness=0.5": "min_concretness is no setting of negcap build; did you mean min_concreteness?",
    "BUILD --columns photo": "--columns must be image|caption|split|id|language|truth=NAME between commas, was: photo",
    "BUILD --only parse": "CAPTIONS is read by ingest, which --only leaves out",
    "BUILD --workers 0": "workers must be >= 1, was: 0",
    "BUILD --scheduler dask": "scheduler must be tcp://host:port, tls://host:port, a scheduler file",
    "BUILD --set spacy_model=en_none": "spacy model must be an installed",
    "BUILD --set concreteness={tmp}/n": "concreteness must be a file, was:",
    "train {tmp}/out --output {tmp}/m --negative-family none,noun": "none must stand alone",
    "train {tmp}/out --output {tmp}/m --set joint": "--set must be NAME=VALUE, was: joint",
    "train {tmp}/out --output {tmp}/m --set marign=1": "marign is no setting of negcap train; did you mean margin?",
    "train {tmp}/out --output {tmp}/m --set margin=-1": "margin must be > 0, was: -1",
    "info {tmp}/bad.json": "bad.json: a run must be a folder, is a file",
    "publish {tmp}/out --output {tmp}/p --license x": "Missing option '--format'. Choose from: ",
    "show {tmp}/out --operator paraphrase --operator noun": "paraphrase is in the table",
    "show {tmp}/out --n 0": "n must be >= 1, was: 0",
    "build --output {tmp}/out --only components --set min_count=-1": "min_count must be >= 1, was: -1",
    "graph 'A dog.' --spacy-model en_none": "spacy model must be an installed",
    "vet {tmp}/out --url http://localhost:1 --model x": "must be the folder of a run, ",
    **{f"{verb} {{tmp}}/out": "must be the folder of a run, "
       for verb in ("info", "show", "blind")},
    "build {tmp}/empty.json --output {tmp}/out": "empty.json: is empty; it must be COCO annotation JSON",
    "build {tmp}/braces.json --output {tmp}/out": "braces.json: has no captions, only {}; it must be COCO",
    "build {tmp}/binary.json --output {tmp}/out": "binary.json: is binary; it must be",
    "build {tmp}/foto.csv --output {tmp}/out": "no image column found (columns: foto, satz); name it: "
    "--columns image=NAME,caption=NAME",
    "build {tmp}/header.csv --output {tmp}/out": "must hold captions in the format table, has none; it has no records",
    "build {tmp}/folder --output {tmp}/out": "holds no files",
    "build {run} --output {tmp}/out": " is a run, must be captions: negcap build --output ",
    "BUILD --min-count 3": "--min-count is a setting without a flag: --set min_count=VALUE",
    "BUILD --set max_tru=1": "max_tru is no setting of negcap build; did you mean max_true?",
    "BUILD --set max_true=high": "max_true must be a number, was: high",
    "BUILD --set boilerplate=perhaps": "boilerplate must be true or false, was: perhaps",
    "BUILD --operator uniform_nouns": "was: uniform_nouns; did you mean uniform_noun?",
    "show {run}/negatives": " is a table of a run, must be the run: did you mean ",
    "show {run} --split tset": "split must be one of 'unsplit' in ",
    "show {run} --operator verbs": "was: verbs; did you mean verb?",
    "info {run} --columns negativs": "did you mean negatives?",
    "vet {run} --model x": "negcap vet: --url must be given, e.g. --url http://",
    "score {run}": "score needs a model: --model KIND:PATH, e.g. --model hf:",
    "score {run} --model openai/clip-vit-base-patch32": "did you mean hf:openai/clip-vit-base-patch32?",
    "score {run} --model hff:x": "did you mean hf?",
    "sheet {run} --output {tmp}/folder": "folder must be a CSV file to write, is a folder",
    "judge {run}": "must be a run of scenes, has none: negcap scenes makes one",
    "counterparts {run}": "must be a run of scenes, has none: negcap scenes makes one",
    "finetune {run} --images {tmp} --output {tmp}/out": "has no captions of split train or restval, only of unsplit: "
    "see --train-split",
    "import {tmp}/foto.csv --report": "name it by --columns caption=NAME",
    "demo --port 99999": "port must be <= 65535, was: 99999",
    "info {tmp}/out --verify": "must be the folder of a run, ",
}  # fmt: skip


BAD_FILES = {
    "bad.json": b'{"images": [',
    "empty.json": b"",
    "braces.json": b"{}\n",
    "binary.json": bytes(range(256)),
    "foto.csv": b"foto,satz\na.jpg,A dog runs.\n",
    "header.csv": b"image,caption\n",
}


@pytest.mark.parametrize(("command", "said"), BAD_INPUT.items())
def test_bad_input_is_one_line_and_status_2_and_writes_nothing(
    command: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    for name, content in BAD_FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    run = request.getfixturevalue("sample_run") if "{run}" in command else None
    capsys.readouterr()  # what making the run has printed
    command = command.replace("BUILD", "build {sample} --output {tmp}/out").format(tmp=tmp_path, sample=SAMPLE, run=run)
    alone = {"--scheduler", "--workers"}.isdisjoint(command.split())  # spare the worker processes
    spared = HERE if command.split()[0] == "build" and alone and " " in command else ()
    assert negcap_exits(*shlex.split(command), *spared) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and said in shown.err and shown.err.count("\n") == 1 and shown.err.startswith("negcap")
    assert not (tmp_path / "out").exists()


MISSING = {  # a command or a name of the package, and what it asks for if no extra is installed
    "train {run} --output {tmp}/m": 'this needs PyTorch, which is not installed: pip install "negcap[train]"',
    "blind {run}": 'the blind baselines need scikit-learn: pip install "negcap[quality]"',
    "score {run} --model hf:x/y": 'hf models need more libraries: pip install "negcap[score]"',
    "vet {run} --url http://localhost:1 --model x": 'pip install "negcap[endpoint]"',
    "build s3://bucket/captions.json --output {tmp}/out": 's3:// needs another library: pip install "negcap[s3]"',
    "build https://localhost/a.json --output {tmp}/out": 'https:// needs another library: pip install "negcap[remote]"',
    "build {sample} --output {tmp}/out --set languages=en": "pip install 'negcap[web]'",
    "Negatives": 'negcap.Negatives: this needs PyTorch, which is not installed: pip install "negcap[train]"',
    "Negativs": "did you mean Negatives?",
}
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


def test_a_missing_extra_is_named(sample_run: Path, tmp_path: Path) -> None:
    lines = [line.format(run=sample_run, tmp=tmp_path, sample=SAMPLE) for line in MISSING]
    place = {**os.environ, "PYTHONPATH": str(ROOT.parent)}
    command = [sys.executable, "-c", WITHOUT_EXTRAS, *lines]
    done = subprocess.run(command, cwd=tmp_path, env=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for expected, said in zip(MISSING.values(), map(json.loads, done.stdout.splitlines()), strict=True):
        assert expected in said and said.count("\n") == 1


def test_another_config_is_refused_and_named(sample_run: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = manifest_path(run / "negatives").read_bytes()
    assert negcap_exits("build", "--output", run, "--only", "negatives", "--seed", 5, "--preset", "all", *HERE) == 2
    assert "seed was 0, is now 5 (--overwrite replaces it;" in capsys.readouterr().err
    assert manifest_path(run / "negatives").read_bytes() == before
    assert negcap_exits("build", SAMPLE, "--output", run, "--limit", 3, "--preset", "all", *HERE) == 2
    assert "limit was 40, is now 3" in capsys.readouterr().err
    two = ("--only", "negatives", "--operator", "numeral,shuffle")
    assert negcap_exits("build", "--output", run, *two, "--overwrite", *HERE) == 0
    kept = [row for row in rows_of(sample_run, "negatives") if row["operator"] in ("numeral", "shuffle")]
    assert rows_of(run, "negatives") == kept  # operators do not disturb each other
    assert negcap_exits("info", run, "--verify") == 0


def test_build_goes_on_from_captions_that_are_there(
    sample_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(sample_run / "captions", tmp_path / "run" / "captions")
    options = ["--operator", "numeral", "--set", "lexicon=own", *HERE]
    assert negcap_exits("build", "--output", tmp_path / "run", *options) == 2
    said = "captions cannot be checked: it has no manifest in _manifests: run negcap build --output"
    assert said in capsys.readouterr().err
    (tmp_path / "run" / MANIFESTS).mkdir()
    shutil.copy(sample_run / MANIFESTS / "captions.json", tmp_path / "run" / MANIFESTS)
    assert negcap_exits("build", "--output", tmp_path / "run", *options) == 0
    assert hash_table(tmp_path / "run", "parses") == hash_table(sample_run, "parses")
    made = [row for row in rows_of(sample_run, "negatives") if row["operator"] == "numeral"]
    assert made and rows_of(tmp_path / "run", "negatives") == made
    capsys.readouterr()
    assert negcap_exits("build", "--output", tmp_path / "empty", *options) == 2
    assert capsys.readouterr().err == f"negcap: CAPTIONS must be given: {tmp_path / 'empty'} holds none\n"


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_to_end_says_how_to_go_on_unless_it_is_ignored(
    name: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    number = signal.Signals[name]

    def stopped(*_: object, **__: object) -> None:
        signal.raise_signal(number)
        raise ValueError("it went on")

    monkeypatch.setattr(build.ingestion, "ingest", stopped)
    command = ("build", SAMPLE, "--output", tmp_path / "out", "--scheduler", "synchronous")
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)  # pytest's own handlers must not count
            assert negcap_exits(*command) == status
        assert capsys.readouterr().err == f"negcap: stopped by {name}; the same command continues from here\n"
        monkeypatch.setattr(build.ingestion, "ingest", raising(KeyboardInterrupt()))
        assert negcap_exits(*command) == 130
        assert capsys.readouterr().err == "\nnegcap: interrupted; the same command continues from here\n"
        monkeypatch.setattr(build.ingestion, "ingest", stopped)
        signal.signal(number, signal.SIG_IGN)  # as nohup does
        assert negcap_exits(*command) == 2
        assert capsys.readouterr().err == "negcap: it went on\n"
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("name, status", [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_build_that_is_stopped_leaves_neither_workers_nor_a_lock(name: str, status: int, tmp_path: Path) -> None:
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
        os.killpg(process.pid, signal.Signals[name])  # all of them, as a terminal or a cluster's scheduler does
        said = process.communicate(timeout=60)[1]
    assert process.returncode == status
    assert len(said.splitlines()) == (1 if name == "SIGTERM" else 2)
    assert said.endswith("; the same command continues from here\n")
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert workers and not alive
    assert not (run / LOCK).exists()


def test_build_ends_with_tables_and_examples_on_stdout(sample_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--limit", 40, "--preset", "all", "--set", "lexicon=own", "--scheduler", "synchronous"]
    assert negcap_exits("build", SAMPLE, "--output", sample_run, *options) == 0
    shown = capsys.readouterr()
    for word in (*PRESETS["all"], "200 captions of 40 images", "because", "per second", "up to date"):
        assert word in shown.out
    assert re.search(r"\[-.+-\]\{\+.+\+\}", shown.out)
    stages = ("ingest", "parse", "lexicon", *COMPONENT_TABLES, "truth", "balance", "negatives")
    assert shown.err.splitlines() == [f"{stage}: up to date" for stage in stages]
    counts = json.loads(manifest_path(sample_run / "negatives").read_text())["counts"]
    rows = rows_of(sample_run, "negatives")
    relation = {row["caption_id"] for row in rows if row["family"] == "relation"}
    assert (counts["captions"], counts["family.relation.captions"]) == (200, len(relation))
    for name in PRESETS["univse"] + PRESETS["vse-c"]:
        mine = [row["caption_id"] for row in rows if row["operator"] == name]
        assert (counts[f"{name}.rows"], counts[f"{name}.captions"]) == (len(mine), len(set(mine)))
    refused = sum(count for name, count in counts.items() if name.startswith("rejected."))
    assert refused == len(rows_of(sample_run, "rejections")) > 0


def test_all_rows_of_a_caption_are_shown(sample_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [(caption, number)] = Counter(row["caption_id"] for row in rows_of(sample_run, "rejections")).most_common(1)
    assert negcap_exits("show", sample_run, "--rejections", "--caption", caption, "--json") == 0
    assert len(capsys.readouterr().out.splitlines()) == number > 10


def test_a_shard_explains_itself(sample_run: Path) -> None:
    metadata = next(read_table(sample_run, "negatives")).schema.metadata
    assert set(metadata) >= set(b"negcap_version stage config seed operators parser lexicon_sha256".split())
    assert metadata[b"parser"].startswith(b"en_")
    everything = b"".join(path.read_bytes() for path in sample_run.rglob("*.json"))
    assert not [folder for folder in (sample_run, ROOT) if str(folder).encode() in everything]


@pytest.mark.dask
def test_workers_verbs_and_shard_sizes_make_the_same_rows(sample_run: Path, tmp_path: Path) -> None:
    """A build by workers in small shards, beside one verb after the other in this process and in a single shard."""
    run, shards = tmp_path / "run", ["--limit", 40, "--set", f"shard_size={50}"]
    build = ["build", SAMPLE, "--output", run, *shards, "--preset", "all", "--set", "lexicon=own", "--quiet"]
    assert negcap_exits(*build, "--workers", 2) == 0
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


def test_components_are_made_anew_as_asked(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = ["build", "--output", run, "--only", "components", *HERE]
    assert negcap_exits(*again) == 0
    shown = capsys.readouterr().out
    assert re.fullmatch(
        r"per caption: \d\.\d objects, \d\.\d attributes, \d\.\d relations\n"
        r"negative components of \d+ nouns, \d+ attributes, \d+ relations, from 5 occurrences\n",
        shown,
    )
    assert negcap_exits(*again, "--set", "simple=true") == 2
    assert "simple was false, is now true (--overwrite replaces it;" in capsys.readouterr().err
    assert negcap_exits(*again, "--set", "simple=true", "--set", "min_count=3", "--overwrite") == 0
    assert "from 3 occurrences" in capsys.readouterr().out
    names = {thing["object"] for row in rows_of(run, "components") for thing in row["objects"]}
    assert names and not [name for name in names if " " in name]
    # Components that a run has follow its captions.
    few = ["--limit", 4, "--set", "lexicon=own", "--set", "simple=true", "--set", "min_count=3", "--overwrite", *HERE]
    assert negcap_exits("build", SAMPLE, "--output", run, *few) == 0
    assert len(rows_of(run, "components")) == 20
    assert negcap_exits("info", run, "--verify") == 0


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ({}, False),
        ({"operators": ("relation",)}, False),
        ({"components": True}, True),
        ({"simple": "true"}, True),
        ({"simple": "false"}, False),
        ({"preset": "univse"}, True),
        ({"preset": "vse-c"}, False),
    ],
)
def test_build_makes_components_where_they_are_asked_for(options: dict, made: bool, tmp_path: Path) -> None:
    assert ("components" in build.planned_verbs(tmp_path, options)) == made


def test_captions_in_another_language_make_nothing_and_break_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bilder.csv").write_text("image,caption\na.jpg,Ein Hund auf einem Sofa\na.jpg,Eine Katze\n")
    given = ["--output", tmp_path / "run", "--language", "de", "--components", *HERE]
    assert negcap_exits("build", tmp_path / "bilder.csv", *given) == 0
    assert "not English, left out: 2 de" in capsys.readouterr().out
    assert rows_of(tmp_path / "run", "parses") == rows_of(tmp_path / "run", "negatives") == []


def test_a_damaged_shard_is_found(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert negcap_exits("info", run, "--verify") == 0
    assert capsys.readouterr().err.endswith("rows: all as they were written\n")
    shard_path(run / "negatives", 0).write_bytes(b"cut")
    assert negcap_exits("info", run, "--verify") == 1
    shown = capsys.readouterr()
    assert shown.out == "negatives/part-00000.parquet: damaged, its bytes are not those that were written\n"
    assert shown.err.endswith(": 1 problem\n")


def test_show_is_random_repeatable_and_selects(sample_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*options: object) -> str:
        assert negcap_exits("show", sample_run, *options) == 0
        return capsys.readouterr().out

    def rows(*options: object) -> list[dict]:
        return [json.loads(line) for line in shown("--json", *options).splitlines()]

    seven = ("--operator", "preposition", "--n", 7)
    first = shown(*seven)
    assert first.count("  preposition: ") == 7 == len(re.findall(r"\[-.+?-\]\{\+.+?\+\}", first))
    assert shown(*seven) == first != shown(*seven, "--seed", 1)
    assert shown("--n", 3).count("\n") == 6
    assert shown("--rejections", "--n", 4).count("  rejected: ") == 4
    chosen = rows("--operator", "noun", "--operator", "verb", "--n", 9999)
    assert {row["operator"] for row in chosen} == {"noun", "verb"}
    assert chosen == rows("--operator", "noun,verb", "--n", 9999)
    assert {row["operator"] for row in rows("--operator", "paraphrase")} == {"paraphrase"}
    assert len(rows("--split", "unsplit", "--n", 3)) == 3
    assert {row["reason"] for row in rows("--reason", "dangling_pronoun")} == {"dangling_pronoun"}


def test_captions_without_a_split_are_the_split_unsplit(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert read_all(run, splits=("unsplit",)) == read_all(run)
    assert to_table(collect(run, ("unsplit",)), {}) == to_table(collect(run), {})
    assert items(run, SheetConfig(n=3, splits=("unsplit",))) == items(run, SheetConfig(n=3))
    here = ["--operator", "attribute", "--set", "rounds=1", *HERE]
    assert main(["refine", str(run), "--split", "unsplit", *here]) == 0 and rows_of(run, "refined")
    capsys.readouterr()
    for verb in (["blind"], ["audit"], ["sheet", "--output", str(run / "sheet.csv")], ["refine", *here]):
        assert main([verb[0], str(run), *verb[1:], "--split", "val"]) == 2
        assert re.search("split must be one of 'unsplit' in .*, was: 'val'", capsys.readouterr().err)


def test_a_table_that_a_run_lacks_is_made_by_the_command_that_is_named(
    sample_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(sample_run / "captions", tmp_path / "captions")
    (tmp_path / MANIFESTS).mkdir()
    shutil.copy(sample_run / MANIFESTS / "captions.json", tmp_path / MANIFESTS)
    stopped = "the build stopped after ingest: run the same build again"
    for words, lacking, advice in [
        ("show {}", "negatives", stopped),
        ("show {} --operator paraphrase", "positives", stopped),
        ("build --only lexicon --output {}", "parses", stopped),
        ("refine {} --vetted", "negatives", stopped),
        ("train {0} --output {0}/m --model vse", "features", "run negcap features"),
    ]:
        assert negcap_exits(*words.format(tmp_path).split()) == 2
        assert capsys.readouterr().err == f"negcap: {tmp_path} has no {lacking} yet: {advice}\n"
    for table in ("parses", "lexicon", "truth"):  # a later stage, and one before a stage that is finished
        shutil.copytree(sample_run / table, tmp_path / table)
        shutil.copy(sample_run / MANIFESTS / f"{table}.json", tmp_path / MANIFESTS)
    shutil.rmtree(tmp_path / "lexicon")
    (tmp_path / MANIFESTS / "lexicon.json").unlink()
    for words, advice in [
        ("show {}", "the build stopped after truth: run the same build again"),
        ("build --only balance --output {}", f"run negcap build --output {tmp_path} --only lexicon"),
    ]:
        assert negcap_exits(*words.format(tmp_path).split()) == 2
        assert capsys.readouterr().err.endswith(f" yet: {advice}\n")
    for words, said in [
        ("show {} --split test --split val", "split must be one of 'unsplit' in "),
        ("show {} --refined", f"has no refined negatives yet: run negcap refine {sample_run}"),
        ("import {} --report", f"negcap blind {sample_run} and negcap audit {sample_run}"),  # a run is no set of others
    ]:
        assert negcap_exits(*words.format(sample_run).split()) == 2
        assert said in capsys.readouterr().err


def test_help_lists_every_flag_once_under_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    assert negcap_exits("build", "--help") == 0
    parts = re.split(r"^(\S.*):$", capsys.readouterr().out, flags=re.M)
    listed = {
        heading: re.findall(r"^  (?:-h, )?(--[a-z-]+)", text, re.M)
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    assert listed["Options"][0] == "--output" and "--format" in listed["What is read"]
    assert listed["How it runs"] == ["--workers", "--scheduler", "--overwrite", "--quiet"]
    flags = [flag for found in listed.values() for flag in found]
    assert sorted(flags) == sorted([*(option.opts[0] for option in negcap.commands["build"].params[1:]), "--help"])


CHOICES = {  # a module: words of its own name, or NAME=its own
    "negcap.pipelines.publish.formats": "PUBLISHED=FORMATS",
    "negcap.pipelines.stages.build": "STAGES=VERBS",
}
TYPES = {  # a field of a config whose type has the words, and the library's own
    "ingestion.grouping:IngestConfig.format": "pipelines.readers:READERS",
    "stages.build:BuildConfig.preset": "augment.operators:PRESETS",
    "stages.propose:ProposeConfig.kinds": "pipelines.prompts:PROPOSALS",
}


@pytest.mark.parametrize("module", CHOICES)
def test_the_choices_of_flags_are_those_of_the_library(module: str) -> None:
    for name in CHOICES[module].split():
        name, _, attribute = name.partition("=")
        library = getattr(importlib.import_module(module), attribute or name)
        assert getattr(options, name) == tuple(library), name


@pytest.mark.parametrize(("field", "words"), TYPES.items())
def test_the_words_of_a_type_are_those_of_the_library(field: str, words: str) -> None:
    (module, _, config), (library, _, name) = field.partition(":"), words.partition(":")
    config, _, setting = config.partition(".")
    of_type = getattr(importlib.import_module(f"negcap.pipelines.{module}"), config).model_fields[setting].annotation
    assert list(words_of(of_type)) == list(getattr(importlib.import_module(f"negcap.{library}"), name))


def test_a_flag_takes_several_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict] = []
    for verb in ("show", "refine", "train"):
        monkeypatch.setattr(negcap.commands[verb], "callback", lambda **given: seen.append(given))
    for words, expected in [
        ("show {} --operator noun,verb", {"operators": ("noun", "verb")}),
        ("show {} --operator noun --operator verb", {"operators": ("noun", "verb")}),
        ("refine {} --split=test,val --operator=noun", {"splits": ("test", "val"), "operators": ("noun",)}),
        ("train {0} --output {0} --model vse,vse-c+noun --language en,de --negative-operator noun",
         {"models": ("vse", "vse-c+noun"), "languages": ("en", "de"), "negative_operators": ("noun",)}),
    ]:  # fmt: skip
        assert negcap_exits(*words.format(tmp_path).split()) == 0
        assert {name: seen[-1][name] for name in expected} == expected


def test_completion_offers_the_choices() -> None:
    from click.shell_completion import ShellComplete

    def offered(*words: str) -> list[str]:
        complete = ShellComplete(negcap, {}, "negcap", "_NEGCAP_COMPLETE")
        return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]

    assert offered("pub") == ["publish"]
    assert offered("show", "run", "--operator", "n") == ["noun", "numeral", "negation", "negate"]
    assert offered("publish", "run", "--format", "sugar") == ["sugarcrepe", "sugarcrepe++"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OverflowError("too large"), "too large"),
        (RecursionError("too deep"), "too deep"),
        (MemoryError(), OUT_OF_MEMORY),
        (MemoryError("Unable to allocate 7 GiB\nfor x"), f"{OUT_OF_MEMORY}: Unable to allocate 7 GiB"),
        (RuntimeError("alloc.cpp: can't allocate memory\nx"), f"{OUT_OF_MEMORY}: alloc.cpp: can't allocate memory"),
        (TypeError("Overflow when unpacking long long"), f"{OUT_OF_MEMORY}: Overflow when unpacking long long"),
        (ImportError("failed to\nmap a.so"), "failed to map a.so"),
        (OSError("several\nlines"), "several lines"),
        (RuntimeError("a fault of ours"), None),  # is raised
    ],
)
def test_what_the_machine_lacks_is_one_line(
    error: Exception, said: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(negcap, "invoke", raising(error))
    if said is None:
        with pytest.raises(RuntimeError, match="a fault of ours"):
            negcap_exits("show", "x")
    else:
        assert negcap_exits("show", "x") == 2
        assert capsys.readouterr().err == f"negcap: {said}\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_stream_without_some_characters_gets_them_as_json_has_them(encoding: str, sample_run: Path) -> None:
    def shown(*arguments: str, **environment: str) -> str:
        command = [sys.executable, "-m", "negcap", *arguments]
        place = {**os.environ, "PYTHONPATH": str(ROOT.parent), **environment}
        done = subprocess.run(command, env=place, capture_output=True, cwd=ROOT.parent)
        assert done.returncode == 0 and done.stderr == b""
        return done.stdout.decode(environment["PYTHONIOENCODING"])

    assert shown("info", str(sample_run), PYTHONIOENCODING=encoding)
    texts = [shown("show", str(sample_run), "--n", "3", PYTHONIOENCODING=name) for name in ("utf-8", encoding)]
    assert "\\u2192" in texts[1]
    assert re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), texts[1]) == texts[0]
    rows = [shown("show", str(sample_run), "--n", "3", "--json", PYTHONIOENCODING=name) for name in ("utf-8", encoding)]
    values = [[json.loads(line) for line in text.splitlines()] for text in rows]
    assert values[0] == values[1] and len(values[0]) == 3


def test_escapes_of_a_stream_are_those_of_json() -> None:
    text = 'A dog 🐕 → "caf\u00e9" \udcff'
    encoded = json.dumps(text, ensure_ascii=False).encode("ascii", ESCAPED)
    assert json.loads(encoded) == text
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii", ESCAPED)


def test_a_loop_of_links_is_no_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (loop, loop / "below", loop.as_uri()):
        assert negcap_exits("build", SAMPLE, "--output", path) == 2
        assert "--output must be no loop of symbolic links, was: " in capsys.readouterr().err


def test_closed_streams_take_nothing(sample_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert negcap_exits("show", sample_run) == 0
    assert negcap_exits("show", tmp_path / "nothing") == 2
    for name in ("stdin", "stdout", "stderr"):
        getattr(sys, name).close()


@pytest.mark.filterwarnings("ignore:operator noun raised KeyError:RuntimeWarning")
def test_strict_exits_with_1_if_an_operator_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "captions.csv").write_text("image,caption\n1,A dog runs .\n2,A cat sits on a table .\n")
    run, here = str(tmp_path / "run"), ["--quiet", "--scheduler", "synchronous"]
    lexicon = ["--set", "lexicon=reference", "--operator", "noun", "--operator", "verb"]
    build = ["build", str(tmp_path / "captions.csv"), "--output", run, *lexicon, *here]
    monkeypatch.setattr(ReplaceNoun, "rows", raising(KeyError("scarf")))
    assert main([*build, "--strict"]) == 1
    shown = capsys.readouterr()
    assert shown.err == (
        f"negcap: operators failed on captions, 2 in all: negcap show {run} --reason operator_error lists them\n"
    )
    assert "operator_error 2" in shown.out
    assert main(build) == 0  # the table is kept
    assert main(["show", run, "--reason", "operator_error"]) == 0
    assert "rejected: operator_error (operator noun raised KeyError: 'scarf')" in capsys.readouterr().out
    verbs = ["build", "--output", run, "--only", "negatives", "--strict", "--overwrite", *here]
    assert main([*verbs, "--operator", "noun"]) == 1
    assert main([*verbs, "--operator", "verb"]) == 0
