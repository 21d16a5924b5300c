"""What is run for the tables of VSE-C, UniVSE, Augmented VSE, order-embeddings and MHA-D: commands of negcap, and which
of them are done.

papers.toml has the flags of the many variants, the tables, and what the papers report.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from pydantic import Field

from ....augment.operators import PRESETS
from ....augment.settings import AtLeastOne, Settings

PAPERS = tomllib.loads(Path(__file__).with_name("papers.toml").read_text("utf-8"))
# In the text of a command, brackets hold flags of the sizes short and trained, [short|trained] if they differ; the size
# full has none of them. Braces hold names of folders and settings, see `planned_steps`.
OF_SIZES = re.compile(r"\[(.*?)\]")
FOLDER = re.compile(r"\{\w+\}[^ ,|\]]*")
Part = Literal["vse-c", "univse", "ablations", "words", "blanks", "saliency", "augmented", "order", "mha-d"]
# By recipe: sizes and, at the size short, the learning rate
SMALL = {
    "house": "[--joint 128 --set word_dim=100] [--learning-rate 1e-3|]",
    "paper": "[--joint 128 --set word_dim=100|--joint 256] [--learning-rate 1e-3|]",
}
# By recipe: epochs, and when the learning rate falls. At the size trained all models leave the plateau of the hardest
# negative, where the loss is twice the margin: on Flickr8k by negcap's recipe in 15 epochs, at the papers' rates in 30.
# UniVSE's own paper halves the rate each epoch from the seventh on, and ends after 13: the defaults of the model
FALLING = {
    "house": "[--epochs 6 --set decay_every=5|--epochs 15 --set decay_every=12]",
    "paper": "[--epochs 6 --set decay_every=5|--epochs 30]",
}
HALVED = {"house": "[--epochs 6|--epochs 15 --set constant=8]", "paper": "[--epochs 6|]"}  # of UniVSE
FEWER = "[--set train_captions=2|]"  # of an image's five: what UniVSE's ablations are trained on at the short size
ONE_CORE = "--threads 1 --device {device}"  # one thread each, as two commands are run at once
FEW = "--per-family 1"  # for evaluations whose table does not show VSE-C's attacks
ONCE = MappingProxyType({"evaluation": ""})  # one evaluation without further flags; results in the folder `evaluation`


class PapersJob(NamedTuple):
    """Commands of negcap that are run in turn, as texts (see OF_SIZES); the name is that of its model or task."""

    name: str
    commands: Sequence[str]


Jobs = Iterator[PapersJob]
VSE_C = ("vse", "vse++", "vse-c", "vse-c+noun", "vse-c+numeral", "vse-c+relation")
UNIVSE = (
    *("vse", "vse++", "vse-c", "univse", "univse+max"),
    *("vse++-grid", "vse++-grid-max-k", "vse-c-grid", "vse-c-grid-max-k", "univse-grid", "univse+max-grid"),
)


class PapersConfig(Settings):
    """Where data is and what is run. Raises ValueError for a value out of its range."""

    source: Path = Field(description="folder in the VSE++ layout")
    output: Path = Field(description="folder of the run, its models and the results")
    parts: tuple[Part, ...] = Field((), description=f"only this part, of {', '.join(get_args(Part))}; may be repeated")
    vectors: Path | None = Field(None, description="word vectors, for the parts words and blanks")
    seeds: AtLeastOne = Field(1, description="trainings of each model of the parts vse-c, univse and augmented")
    split: str = Field("dev", description="split to evaluate on")
    limit: AtLeastOne = Field(400, description="its first images")
    size: Literal["short", "trained", "full"] = Field(
        "short",
        description="short: six epochs; trained: until validation has stopped rising, as many steps for all models of "
        "a recipe, many hours; full: the papers' dimensions and epochs",
    )
    device: Literal["cpu", "cuda"] = Field(
        "cpu",
        description="of trainings, evaluations and probes but at the size full; a GPU computes in float32",
    )

    @property
    def run(self) -> Path:
        """The folder of the run."""
        return self.output / "run"

    @property
    def captions(self) -> Path:
        """The folder of a run with captions and features alone, which trainings with other words read faster."""
        return self.output / "captions"

    @property
    def languages(self) -> Path:
        """The folder of a run with captions in several languages and features of regions, for MHA-D."""
        return self.output / "languages"

    @property
    def has_languages(self) -> bool:
        """Whether the source has captions in further languages, `train_caps.de.tsv`."""
        return any(self.source.glob("train_caps.??.tsv*"))

    @property
    def has_grid(self) -> bool:
        """Whether the source has features of regions."""
        return (self.source / "train_grid.npy").exists()

    def model(self, name: str) -> Path:
        """The folder of a model by its name."""
        return self.output / "models" / name

    def trained(self, model: str, recipe: str = "house") -> list[Path]:
        """The folders of a model by all seeds: `vse++@house-0`, `vse++@house-1`."""
        return [self.model(f"{model}@{recipe}-{seed}") for seed in range(self.seeds)]


class PlanStep(NamedTuple):
    """One command of negcap: its name, its arguments, and the names of the steps that must be done before."""

    name: str
    command: tuple[str, ...]
    needs: frozenset[str] = frozenset()


def planned_steps(settings: PapersConfig) -> list[PlanStep]:
    """The steps of all parts that `settings` names (of every part, if it names none), each after those that it needs.

    A step needs the earlier steps that write to a folder which its command names. A command writes to its --output;
    `caption MODEL RUN` writes to the run. For example "train {run} --output {models}/vse [--epochs 6|--epochs 15]"
    writes to {models}/vse and needs what writes to {run}; at the size "short" it has the flag --epochs 6.
    """
    # the values of {source}, {run}, … in the text of a command
    in_braces = ("source", "output", "run", "captions", "languages", "split", "limit", "device")
    places = {name: getattr(settings, name) for name in in_braces}
    places |= {"models": settings.output / "models", "vectors": settings.vectors}
    plan: list[PlanStep] = []
    writers: dict[str, set[str]] = defaultdict(set)  # by folder, the steps that write to it
    for job in _jobs_of_parts(settings):
        for number, text in enumerate(job.commands):
            name = f"{job.name}-{number}".replace(" ", "-")
            # Folders are compared as they are written in the text, before names in braces are replaced.
            needs = frozenset[str]().union(*(writers[folder] for folder in FOLDER.findall(text)))
            words = OF_SIZES.sub(lambda match: flags_of_size(match[1], settings.size), text).split()
            if words[0] == "caption":
                writers[words[2]].add(name)
            elif "--output" in words:
                writers[words[words.index("--output") + 1]].add(name)
            plan.append(PlanStep(name, tuple(word.format_map(places) for word in words), needs))
    return plan


def _jobs_of_parts(settings: PapersConfig) -> list[PapersJob]:
    """The jobs of all parts, each once, by name: parts share the run with negatives and trainings of some models."""
    jobs: dict[str, PapersJob] = {}
    for part in settings.parts or PARTS:
        if part not in WITHOUT_NEGATIVES:
            for job in _jobs_of_run(settings):
                jobs.setdefault(job.name, job)
        for job in PARTS[part](settings):
            jobs.setdefault(job.name, job)
    return list(jobs.values())


def flags_of_size(flags: str, size: str) -> str:
    """The flags of a size among those in brackets: "short|trained", or the same for both; none for the size full."""
    short, bar, trained = flags.partition("|")
    return {"short": short, "trained": trained if bar else short, "full": ""}[size]


def _jobs_of_run(settings: PapersConfig) -> Jobs:
    """The run with negatives that most parts are trained and evaluated on."""
    names = [*PRESETS["vse-c-paper"], *PRESETS["univse-paper"]]
    operators = " ".join(f"--operator={name}" for name in names)
    if settings.size == "full":
        operators += " --per-family 1000"  # of an operator: the paper's pool of about 1,000 a caption
    features = "features {source} --output {run}"
    # lexicon=own: only words of the train captions are inserted, as a model would read others as <unk>
    commands = [f"build {{source}} --output {{run}} {operators} --components --set lexicon=own", features]
    if settings.has_grid and not {"ablations", "univse"}.isdisjoint(settings.parts or PARTS):
        commands.append(f"{features} --array grid --table features_grid")
    yield PapersJob("run", commands)


def _training_job(
    name: str, model: str, flags: str, run: str = "{run}", evaluations: Mapping[str, str] = ONCE
) -> PapersJob:
    """The job that trains a model of some kind, in a folder of this name, and evaluates it.

    evaluations: the flags of each evaluation, by the name of the folder for its results.
    """
    folder = f"{{models}}/{name}"
    commands = [f"train {run} --model {model} --output {folder} {flags} [{ONE_CORE} --set amp=false]"]
    for results, more in evaluations.items():
        what = f"evaluate {folder} {run} --split {{split}} --limit {{limit}}"
        commands.append(f"{what} --output {folder}/{results} {more} [{ONE_CORE}]")
    return PapersJob(name, commands)


def _training_jobs(
    names: Iterable[str], recipes: Iterable[str] = ("house",), seeds: int = 1, *, grid: bool = False
) -> Jobs:
    """The jobs that train models by each recipe and with each seed; grid: also models that need features of regions."""
    for recipe, seed, name in product(recipes, range(seeds), names):
        model, flags, evaluation = PAPERS["models"][name]
        # A model with flags is a variant of negcap's recipe (house): other recipes train only models without flags.
        is_variant_of_house = recipe != "house" and flags
        if is_variant_of_house or ("grid" in flags and not grid):
            continue
        rates = HALVED if model == "univse" else FALLING  # how the learning rate falls
        size = f"{SMALL[recipe]} {rates[recipe]}"
        evaluations = {"evaluation": evaluation}
        if name == "univse":
            for components, component_flags in PAPERS["of_sentence"].items():
                evaluations[components] = f"{component_flags} {FEW}"
        all_flags = f"--recipe {recipe} --seed {seed} {flags} {size}"
        yield _training_job(f"{name}@{recipe}-{seed}", model, all_flags, evaluations=evaluations)


def _ablation_jobs(settings: PapersConfig) -> Jobs:
    """The variants of UniVSE; the variant "dropped" is also evaluated with components left out."""
    for name, flags in PAPERS["ablations"].items():
        if "grid" in flags and not settings.has_grid:
            continue
        evaluations = {"evaluation": FEW}
        if name == "dropped":
            evaluations["both"] = f"--drop-components 0.3 {FEW}"
        all_flags = f"{flags} {SMALL['house']} {HALVED['house']} {FEWER}"
        yield _training_job(f"univse-{name}", "univse", all_flags, evaluations=evaluations)


def _probe_jobs(settings: PapersConfig, task: str, models: Iterable[str], flags: str) -> Jobs:
    """The jobs that train some models and then probe their words; none if the plan has no file of word vectors."""
    if settings.vectors is None:
        return
    trainings = list(_training_jobs(models))
    yield from trainings
    folders = " ".join(f"--model {{models}}/{training.name}" for training in trainings)
    where = f"--vectors {{vectors}} --split {{split}} --output {{output}}/{task}"
    yield PapersJob(task, [f"probe {task} {{run}} {where} {folders} [{flags}]"])


def _saliency_jobs(settings: PapersConfig) -> Jobs:
    """The trainings of two models and the saliency of their words."""
    trainings = list(_training_jobs(("vse++", "vse-c")))
    yield from trainings
    for training in trainings:
        model = f"{{models}}/{training.name}"
        # The plan at its full size drops what stands in [brackets]; the smaller sizes keep it, see OF_SIZES.
        command = f"probe saliency {{run}} --split {{split}} --limit 200 [{ONE_CORE}] --model {model}"
        yield PapersJob(f"saliency of {training.name}", [command])


def _augmented_jobs(settings: PapersConfig) -> Jobs:
    """The jobs that train captioners, write captions with them, and train models on these captions.

    The policy gradient ("gan") is left out of the size `short`. Each judge is a model that ranks written captions and
    was trained without half of the images, so that a caption is judged by the one that has not seen its image.
    """
    is_short = settings.size == "short"
    yield PapersJob("captions", PAPERS["captioner"]["captions"])
    yield PapersJob("captioner", PAPERS["captioner"]["commands"])
    if not is_short:
        yield PapersJob("gan", PAPERS["captioner"]["gan"])
    for part in (0, 1):
        flags = f"--set leave_out={part}/2 {SMALL['house']} {FALLING['house']} [--set warm_up=3|]"
        yield _training_job(f"judge-{part}", "vse++", flags, "{captions}")

    trainings = []  # the flags of each, which name the table of captions that it reads, and its job
    for seed, (name, (flags, short, epochs)) in product(range(settings.seeds), PAPERS["augmented"].items()):
        short_size = f"--epochs {short} --set decay_every={short} --set warm_up={short // 2}"
        size = f"--epochs {epochs} --set decay_every={4 * epochs // 5} --set warm_up={epochs // 2}"
        all_flags = f"--seed {seed} {flags} {SMALL['house']} [{short_size}|{size}]"
        trainings.append((flags, _training_job(f"{name}@house-{seed}", "vse++", all_flags, "{captions}")))
    # Trainings on captions of the second captioner, "few", come last, as all commands after its training wait for it.
    yield from (job for flags, job in trainings if "few" not in flags and not (is_short and "gan" in flags))
    if not is_short:
        yield PapersJob("few", PAPERS["captioner"]["few"])
        yield from (job for flags, job in trainings if "few" in flags)


def _order_jobs(settings: PapersConfig) -> Jobs:
    """Order-embeddings and their variants, on captions alone."""
    yield PapersJob("captions", PAPERS["captioner"]["captions"])
    for seed, (name, flags) in product(range(settings.seeds), PAPERS["order"].items()):
        all_flags = f"--recipe paper --seed {seed} {flags} {SMALL['paper']} [--epochs 6|--epochs 30]"
        yield _training_job(f"{name}@paper-{seed}", "order", all_flags, run="{captions}")


# MHA-D's sizes. At the size trained it leaves the plateau of the hardest negative after some 15 epochs of 197 steps, so
# it is trained for twice as many
HEADS = (
    "[--set word_dim=32 --set attention_dim=16 --epochs 2"
    "|--set word_dim=64 --set attention_dim=32 --epochs 36 --set decay_every=30]"
)


def _mha_d_jobs(settings: PapersConfig) -> Jobs:
    """MHA-D on images with captions in English and in the languages that the source has beside it, by negcap's recipe,
    at the size full by the paper's; left out of all parts if the source has no other language, or no regions.
    """
    if not (settings.has_languages and settings.has_grid) and "mha-d" not in settings.parts:
        return
    build = "build {source} --output {languages} --only ingest --language all"
    features = "features {source} --output {languages} --array grid --table features_grid"
    yield PapersJob("languages", [build, features])
    recipe = "paper" if settings.size == "full" else "house"
    for seed, (name, flags) in product(range(settings.seeds), PAPERS["mha-d"].items()):
        all_flags = f"--recipe {recipe} --seed {seed} --features grid {HEADS} {flags}"
        yield _training_job(f"{name}@{recipe}-{seed}", "mha-d", all_flags, run="{languages}")


PARTS: dict[str, Callable[[PapersConfig], Jobs]] = {
    "vse-c": lambda settings: _training_jobs(VSE_C, PAPERS["recipes"], settings.seeds),
    "univse": lambda settings: _training_jobs(UNIVSE, PAPERS["recipes"], settings.seeds, grid=settings.has_grid),
    "ablations": _ablation_jobs,
    "words": lambda settings: _probe_jobs(settings, "words", VSE_C, ONE_CORE),
    "blanks": lambda settings: _probe_jobs(
        settings, "blanks", ("vse++", "vse-c"), f"{ONE_CORE} --epochs 3 --hidden 64|{ONE_CORE}"
    ),
    "saliency": _saliency_jobs,
    "order": _order_jobs,
    "augmented": _augmented_jobs,
    "mha-d": _mha_d_jobs,
}


WITHOUT_NEGATIVES = ("augmented", "order", "mha-d")  # parts that train and evaluate on captions alone


def finished(steps: Iterable[PlanStep], source: Path, output: Path) -> set[str]:
    """The names of the steps that are done; `steps` has each after those that it needs.

    As with make, a step is done if its mark, a file, holds its command and is not older than the marks of the steps
    that it needs or, if it needs none, than the files of `source`. The code is not compared: after a change of it that
    matters, delete OUTPUT/done.
    """
    time_done: dict[str, int] = {}
    source_changed = max((file.stat().st_mtime_ns for file in source.glob("*")), default=0)
    for step in steps:
        mark = output / "done" / f"{step.name}.json"
        if not (step.needs <= time_done.keys() and mark.exists()):
            continue
        time_marked = mark.stat().st_mtime_ns
        time_needed = max((time_done[name] for name in step.needs), default=source_changed)
        if json.loads(mark.read_text("utf-8")) == list(step.command) and time_marked >= time_needed:
            time_done[step.name] = time_marked
    return set(time_done)
