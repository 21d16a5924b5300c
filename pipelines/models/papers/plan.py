"""What is run for the tables of VSE-C, UniVSE, Augmented VSE, order-embeddings and MHA-D: commands of negcap, and which
of them are done.

papers.toml has the flags of the many variants, the tables, and what the papers report.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from pydantic import Field

from ....augment.operators import PRESETS
from ....augment.settings import AtLeastOne, Settings

PAPERS = tomllib.loads(Path(__file__).with_name("papers.toml").read_text("utf-8"))
# In the text of a command, what is in brackets is for the sizes short and trained, [of short|of trained] if they
# differ; names of folders are in braces
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
ONE_CORE = "--threads 1 --device {device}"  # as two commands are run at once
FEW = "--per-family 1"  # negatives of attacks that a table does not show
ONCE = MappingProxyType({"evaluation": ""})
Jobs = Iterator[tuple[str, Sequence[str]]]  # names, and the commands that are run in turn
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


class Step(NamedTuple):
    """One command of negcap: its name, its arguments, and the names of the steps that must be done before."""

    name: str
    command: tuple[str, ...]
    needs: frozenset[str] = frozenset()


def steps(settings: PapersConfig) -> list[Step]:
    """Everything that the parts of `settings` need, all parts if it names none; a step is behind those that it needs. A
    step needs those before it that write to a folder that its command names; `caption` writes to a run.
    """
    jobs = dict[str, Sequence[str]]()
    for part in settings.parts or PARTS:
        for job, texts in (*(_run(settings) if part not in OF_CAPTIONS else ()), *PARTS[part](settings)):
            jobs.setdefault(job, texts)
    named = ("source", "output", "run", "captions", "languages", "split", "limit", "device")
    places = {name: getattr(settings, name) for name in named}
    places |= {"models": settings.output / "models", "vectors": settings.vectors}
    made = list[Step]()
    writers = dict[str, set[str]]()
    for job, texts in jobs.items():
        for number, text in enumerate(texts):
            name = f"{job}-{number}".replace(" ", "-")
            needs = {step for folder in FOLDER.findall(text) for step in writers.get(folder, ())}
            words = OF_SIZES.sub(lambda found: of_size(found[1], settings.size), text).split()
            if words[0] == "caption" or "--output" in words:
                output = words[2] if words[0] == "caption" else words[words.index("--output") + 1]
                writers.setdefault(output, set()).add(name)
            made.append(Step(name, tuple(word.format_map(places) for word in words), frozenset(needs)))
    return made


def of_size(flags: str, size: str) -> str:
    """What a size has of the flags in brackets: "of short|of trained", or the same for both."""
    short, bar, trained = flags.partition("|")
    return {"short": short, "trained": trained if bar else short, "full": ""}[size]


def _run(settings: PapersConfig) -> Jobs:
    operators = " ".join(f"--operator={name}" for of in ("vse-c-paper", "univse-paper") for name in PRESETS[of])
    if settings.size == "full":
        operators += " --per-family 1000"  # of an operator: the paper's pool of about 1,000 a caption
    features = "features {source} --output {run}"
    # Words of the train captions alone replace others: a model would read another one as <unk>
    commands = [f"build {{source}} --output {{run}} {operators} --components --set lexicon=own", features]
    if settings.has_grid and not {"ablations", "univse"}.isdisjoint(settings.parts or PARTS):
        commands.append(f"{features} --array grid --table features_grid")
    yield "run", commands


def _training(
    name: str, model: str, flags: str, run: str = "{run}", evaluations: Mapping[str, str] = ONCE
) -> tuple[str, list[str]]:
    """The job that trains a model and evaluates it; evaluations: flags by the name of the folder for the results."""
    folder = f"{{models}}/{name}"
    return name, [
        f"train {run} --model {model} --output {folder} {flags} [{ONE_CORE} --set amp=false]",
        *(
            f"evaluate {folder} {run} --split {{split}} --limit {{limit}} --output {folder}/{to} {more} [{ONE_CORE}]"
            for to, more in evaluations.items()
        ),
    ]


def _models(names: Iterable[str], recipes: Iterable[str] = ("house",), seeds: int = 1, *, grid: bool = False) -> Jobs:
    """The trainings of models by each recipe and seed; grid: also those that need features of regions."""
    for recipe, seed, name in product(recipes, range(seeds), names):
        model, flags, evaluation = PAPERS["models"][name]
        if (recipe == "house" or not flags) and (grid or "grid" not in flags):  # else a variant of negcap's recipe
            size = f"{SMALL[recipe]} {(HALVED if model == 'univse' else FALLING)[recipe]}"
            evaluations = {"evaluation": evaluation}
            if name == "univse":
                evaluations |= {its: f"{given} {FEW}" for its, given in PAPERS["of_sentence"].items()}
            given = f"--recipe {recipe} --seed {seed} {flags} {size}"
            yield _training(f"{name}@{recipe}-{seed}", model, given, evaluations=evaluations)


def _ablations(settings: PapersConfig) -> Jobs:
    for name, flags in PAPERS["ablations"].items():
        if settings.has_grid or "grid" not in flags:
            both = {"both": f"--drop-components 0.3 {FEW}"} if name == "dropped" else {}
            given = f"{flags} {SMALL['house']} {HALVED['house']} {FEWER}"
            yield _training(f"univse-{name}", "univse", given, evaluations={"evaluation": FEW, **both})


def _probe(settings: PapersConfig, task: str, models: Iterable[str], flags: str) -> Jobs:
    if settings.vectors is not None:
        trained = list(_models(models))
        joined = " ".join(f"--model {{models}}/{name}" for name, _ in trained)
        where = f"--vectors {{vectors}} --split {{split}} --output {{output}}/{task}"
        yield from (*trained, (task, [f"probe {task} {{run}} {where} {joined} [{flags}]"]))


def _saliency(settings: PapersConfig) -> Jobs:
    trained = list(_models(("vse++", "vse-c")))
    command = f"probe saliency {{run}} --split {{split}} --limit 200 [{ONE_CORE}] --model {{models}}"
    yield from (*trained, *((f"saliency of {name}", [f"{command}/{name}"]) for name, _ in trained))


def _augmented(settings: PapersConfig) -> Jobs:
    yield "captions", PAPERS["captioner"]["captions"]
    yield "captioner", PAPERS["captioner"]["commands"]
    if settings.size != "short":
        yield "gan", PAPERS["captioner"]["gan"]
    for part in (0, 1):
        flags = f"--set leave_out={part}/2 {SMALL['house']} {FALLING['house']} [--set warm_up=3|]"
        yield _training(f"judge-{part}", "vse++", flags, "{captions}")
    for few in (False, True):  # last, as all commands behind a captioner's wait for it
        if few and settings.size != "short":
            yield "few", PAPERS["captioner"]["few"]
        for seed, (name, (flags, short, epochs)) in product(range(settings.seeds), PAPERS["augmented"].items()):
            if ("few" in flags) == few and (settings.size != "short" or not (few or "gan" in flags)):
                small = f"--epochs {short} --set decay_every={short} --set warm_up={short // 2}"
                size = f"--epochs {epochs} --set decay_every={4 * epochs // 5} --set warm_up={epochs // 2}"
                given = f"--seed {seed} {flags} {SMALL['house']} [{small}|{size}]"
                yield _training(f"{name}@house-{seed}", "vse++", given, "{captions}")


def _order(settings: PapersConfig) -> Jobs:
    yield "captions", PAPERS["captioner"]["captions"]
    for seed, (name, flags) in product(range(settings.seeds), PAPERS["order"].items()):
        given = f"--recipe paper --seed {seed} {flags} {SMALL['paper']} [--epochs 6|--epochs 30]"
        yield _training(f"{name}@paper-{seed}", "order", given, "{captions}")


# At the size trained MHA-D leaves the plateau of the hardest negative after some 15 epochs of 197 steps, so that it has
# twice as many
HEADS = (
    "[--set word_dim=32 --set attention_dim=16 --epochs 2"
    "|--set word_dim=64 --set attention_dim=32 --epochs 36 --set decay_every=30]"
)


def _mha_d(settings: PapersConfig) -> Jobs:
    """MHA-D on images with captions in English and in the languages that the source has beside it, by negcap's recipe,
    at the size full by the paper's; left out of all parts if the source has no other language, or no regions.
    """
    if not (settings.has_languages and settings.has_grid) and "mha-d" not in settings.parts:
        return
    build = "build {source} --output {languages} --only ingest --language all"
    yield "languages", [build, "features {source} --output {languages} --array grid --table features_grid"]
    recipe = "paper" if settings.size == "full" else "house"
    for seed, (name, flags) in product(range(settings.seeds), PAPERS["mha-d"].items()):
        given = f"--recipe {recipe} --seed {seed} --features grid {HEADS} {flags}"
        yield _training(f"{name}@{recipe}-{seed}", "mha-d", given, "{languages}")


PARTS: dict[str, Callable[[PapersConfig], Jobs]] = {
    "vse-c": lambda settings: _models(VSE_C, PAPERS["recipes"], settings.seeds),
    "univse": lambda settings: _models(UNIVSE, PAPERS["recipes"], settings.seeds, grid=settings.has_grid),
    "ablations": _ablations,
    "words": lambda settings: _probe(settings, "words", VSE_C, ONE_CORE),
    "blanks": lambda settings: _probe(
        settings, "blanks", ("vse++", "vse-c"), f"{ONE_CORE} --epochs 3 --hidden 64|{ONE_CORE}"
    ),
    "saliency": _saliency,
    "order": _order,
    "augmented": _augmented,
    "mha-d": _mha_d,
}


OF_CAPTIONS = ("augmented", "order", "mha-d")  # parts without negatives


def finished(steps: Iterable[Step], source: Path, output: Path) -> set[str]:
    """The names of those of the steps that are done; a step is behind those that it needs. As with make, a step is done
    if its mark has its command, and is not older than the marks of the steps that it needs or, if it needs none, than
    the files of `source`. The code is not compared: after a change of it that matters, delete OUTPUT/done.
    """
    made = dict[str, int]()  # when a step was done
    newest = max((file.stat().st_mtime_ns for file in source.glob("*")), default=0)
    for step in steps:
        file = output / "done" / f"{step.name}.json"
        if step.needs <= made.keys() and file.exists() and json.loads(file.read_text("utf-8")) == list(step.command):
            at = file.stat().st_mtime_ns
            if at >= max((made[name] for name in step.needs), default=newest):
                made[step.name] = at
    return set(made)
