"""What is run for the tables of VSE-C, UniVSE and Augmented VSE: commands of negcap, grouped into jobs.

papers.toml has the flags of the many variants, the tables, and what the papers report.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ....augment.operators import PRESETS

SMALL = "--joint 128 --set word_dim=100 --epochs 6 --learning-rate 1e-3"
FALLING = "--set decay_every=5"  # the learning rate of 6 epochs without a schedule of their own
FEWER = "--set train_captions=2"  # of an image's five: what UniVSE's ablations are trained on at the small size
ONE_CORE = "--threads 1 --device cpu"  # as two commands are run at once
FEW = "--per-family 1"  # negatives of attacks that a table does not show
ETAS = ("0.1", "1", "2", "4", "8")
USUAL = {
    "comp": "0.5",
    "obj": "0.5",
    "attr": "0.5",
    "rel": "1",
}  # the weights of UniVSE's loss, in the order of `weights`
MAX = "univse+max"  # UniVSE with the sentence encoder that negcap's recipe has for the others
FAMILY_MODELS = ("vse-c+noun", "vse-c+numeral", "vse-c+relation")
HOUSE_ONLY = (*FAMILY_MODELS, MAX)  # by negcap's recipe only
VSE_C = ("vse", "vse++", "vse-c", *FAMILY_MODELS)
UNIVSE = ("vse", "vse++", "vse-c", "univse", MAX)
PAPERS = tomllib.loads(Path(__file__).with_name("papers.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Settings:
    """Where data is and what is run.

    source: a folder in the VSE++ layout. output: a folder for the run, the models and the results. parts: of PARTS.
    vectors: a file of word vectors, which the parts words and blanks need. seeds: trainings of each model of the parts
    vse-c and univse. split, limit: what is evaluated on. size: "small", or "full" for the papers' dimensions and
    epochs.
    """

    source: Path
    output: Path
    parts: Sequence[str] = ()
    vectors: Path | None = None
    seeds: int = 1
    split: str = "dev"
    limit: int = 400
    size: str = "small"

    def __post_init__(self) -> None:
        if unknown := [part for part in self.parts if part not in PARTS]:
            raise ValueError(f"part must be one of {', '.join(PARTS)}, was: {', '.join(unknown)}")
        if self.seeds < 1 or self.size not in ("small", "full"):
            raise ValueError(f"seeds must be >= 1 and size small or full, were: {self.seeds}, {self.size}")

    @property
    def run(self) -> Path:
        """The folder of the run."""
        return self.output / "run"

    @property
    def captions(self) -> Path:
        """The folder of a run with captions and features alone, which trainings with other words read faster."""
        return self.output / "captions"

    @property
    def has_grid(self) -> bool:
        """Whether the source has features of regions."""
        return (self.source / "train_grid.npy").exists()

    def model(self, name: str) -> Path:
        """The folder of a model by its name."""
        return self.output / "models" / name

    def if_small(self, flags: str) -> list[str]:
        """Flags at the small size, none at the full one."""
        return flags.split() if self.size == "small" else []


class Job(NamedTuple):
    """Commands of negcap that are run in turn, each a tuple of arguments.

    needs: the names of the jobs that must be done before.
    """

    name: str
    commands: list[tuple[str, ...]]
    needs: tuple[str, ...] = ()


def jobs(settings: Settings) -> list[Job]:
    """Everything that the parts of `settings` need, all parts if it names none; a job is behind those that it needs."""
    parts = settings.parts or tuple(PARTS)
    found: dict[str, Job] = {}
    if set(parts) != {"augmented"}:
        found["run"] = _run(settings, parts)
    for part in parts:
        for job in PARTS[part](settings):
            found.setdefault(job.name, job)
    return list(found.values())


def named(model: str, recipe: str, seed: int) -> str:
    """The name of a model of the parts vse-c and univse: `vse++@house-0`."""
    return f"{model}@{recipe}-{seed}"


def _run(settings: Settings, parts: Iterable[str]) -> Job:
    source, run = str(settings.source), str(settings.run)
    operators = (f"--operator={name}" for preset in ("vse-c-paper", "univse-paper") for name in PRESETS[preset])
    commands = [("build", source, "--output", run, *operators, "--components"), ("features", source, "--output", run)]
    if "ablations" in parts and settings.has_grid:
        commands.append((*commands[1], "--array", "grid", "--table", "features_grid"))
    return Job("run", commands)


def _trained(
    settings: Settings,
    name: str,
    model: str,
    flags: Iterable[str],
    *,
    small: str = "",
    run: Path | None = None,
    needs: Iterable[str] = ("run",),
    attacks: str = "",
    further: Mapping[str, str] = MappingProxyType({}),
) -> Job:
    """Train a model with `flags` and evaluate it.

    small: further flags at the small size. run: None: settings.run. needs: of `Job`. attacks: flags of the evaluation.
    further: flags of further evaluations, by the name of the folder for their results.
    """
    folder, run = settings.model(name), run or settings.run
    size = settings.if_small(f"{SMALL} {small} {ONE_CORE}")
    commands = [("train", str(run), "--model", model, "--output", str(folder), *flags, *size)]
    for to, more in {"evaluation": attacks, **further}.items():
        where = ("--split", settings.split, "--limit", str(settings.limit), "--output", str(folder / to))
        chosen = (*more.split(), *settings.if_small(ONE_CORE))
        commands.append(("evaluate", str(folder), str(run), *where, *chosen))
    return Job(name, commands, tuple(needs))


def _main(settings: Settings, names: Iterable[str]) -> list[Job]:
    made = []
    for recipe in PAPERS["recipes"]:
        for seed in range(settings.seeds):
            for name in names:
                if name in HOUSE_ONLY and recipe != "house":
                    continue
                model, _, family = name.partition("+") if name != "vse++" else (name, "", "")
                flags = ["--recipe", recipe, "--seed", str(seed)]
                if name == MAX:
                    flags += "--set bidirectional=true --set pooling=max".split()
                elif family:
                    flags += ["--negative-family", family]
                further = {"sentence": f"--component none {FEW}"} if name == "univse" else {}
                small, attacks = "" if model == "univse" else FALLING, FEW if name == MAX else ""
                job = named(name, recipe, seed)
                made.append(_trained(settings, job, model, flags, small=small, attacks=attacks, further=further))
    return made


def _house(settings: Settings, names: Iterable[str]) -> list[Job]:
    """The trainings of models by negcap's recipe and with the first seed, on which further measurements are made."""
    return [job for job in _main(settings, names) if job.name.endswith("@house-0")]


def _ablations(settings: Settings) -> list[Job]:
    made = []
    for name, flags in PAPERS["ablations"].items():
        if settings.has_grid or "grid" not in flags:
            both = {"both": f"--drop-components 0.3 {FEW}"} if name == "dropped" else {}
            name = f"univse-{name}"
            made.append(_trained(settings, name, "univse", flags.split(), small=FEWER, attacks=FEW, further=both))
    return made


def _weights(settings: Settings) -> list[Job]:
    weights = {"usual": USUAL, **{f"{term}-{eta}": {**USUAL, term: eta} for term in USUAL for eta in ETAS}}
    attacks = " ".join([FEW, *settings.if_small("--limit 200")])
    made = []
    for name, its in weights.items():
        flags = () if its is USUAL else ("--set", f"weights={','.join(its.values())}")
        small = f"{FEWER} --epochs 4"  # for twenty trainings
        made.append(_trained(settings, f"univse-{name}", "univse", flags, small=small, attacks=attacks))
    return made


def _probe(settings: Settings, task: str, models: Iterable[str], flags: str) -> list[Job]:
    if settings.vectors is None:
        return []
    trained = _house(settings, models)
    joined = [word for job in trained for word in ("--model", str(settings.model(job.name)))]
    where = ("--vectors", str(settings.vectors), "--split", settings.split, "--output", str(settings.output / task))
    probe = ("probe", task, str(settings.run), *where, *joined, *settings.if_small(flags))
    return [*trained, Job(task, [probe], tuple(job.name for job in trained))]


def _saliency(settings: Settings) -> list[Job]:
    trained = _house(settings, ("vse++", "vse-c"))
    probe = ("probe", "saliency", str(settings.run), *f"--split {settings.split} --limit 200 --threads 1".split())
    commands = {job.name: (*probe, "--model", str(settings.model(job.name))) for job in trained}
    return [*trained, *(Job(f"saliency of {name}", [command], (name,)) for name, command in commands.items())]


def _augmented(settings: Settings) -> list[Job]:
    captioner, run, source = str(settings.output / "captioner"), str(settings.captions), str(settings.source)
    likelihood = "--set discriminator_epochs=0 --gan-epochs 0 --set supervised_rate=1e-3 --threads 1".split()
    epochs = settings.if_small("--mle-epochs 6")
    write = ("caption", captioner, run, *"--phase mle --split train --workers 1 --n".split())
    commands: list[tuple[str, ...]] = [
        ("build", source, "--output", run, "--only", "ingest"),
        ("features", source, "--output", run),
        ("captioner", run, "--output", captioner, *epochs, *likelihood),
        (*write, "3"),
        (*write, "1", "--table", "generated_one"),
        (*write, "1", "--table", "generated_beam", "--decoding", "beam"),
    ]
    judges = []
    for part in ("0", "1"):
        flags, small = ("--set", f"leave_out={part}/2"), f"{FALLING} --set warm_up=3"
        its = _trained(
            settings, f"judge-{part}", "vse++", flags, small=small, run=settings.captions, needs=["captioner"]
        )
        judges.append(its)
    folders = ("--set", f"judges={','.join(str(settings.model(job.name)) for job in judges)}")
    made = [Job("captioner", commands), *judges]
    for name, (given, passes) in PAPERS["augmented"].items():
        judged = "judge_rank" in given
        needs = [job.name for job in judges] if judged else ["captioner"]
        chosen = [*given.split(), *(folders if judged else ())]
        small = f"--epochs {passes} --set decay_every={passes} --set warm_up={passes // 2}"
        made.append(_trained(settings, name, "vse++", chosen, small=small, run=settings.captions, needs=needs))
    return made


PARTS: dict[str, Callable[[Settings], list[Job]]] = {
    "vse-c": lambda settings: _main(settings, VSE_C),
    "univse": lambda settings: _main(settings, UNIVSE),
    "ablations": _ablations,
    "weights": _weights,
    "words": lambda settings: _probe(settings, "words", VSE_C, "--threads 1"),
    "blanks": lambda settings: _probe(settings, "blanks", ("vse++", "vse-c"), "--threads 1 --epochs 3 --hidden 64"),
    "saliency": _saliency,
    "augmented": _augmented,
}
