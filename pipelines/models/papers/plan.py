"""What is run for the tables of VSE-C, UniVSE and Augmented VSE: commands of negcap, grouped into jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....augment.operators import PRESETS

SMALL = ("--joint", "128", "--set", "word_dim=100", "--epochs", "6", "--learning-rate", "1e-3")
FALLING = ("--set", "decay_every=5")  # the learning rate of 6 epochs without a schedule of their own
FEWER = ("--set", "train_captions=2")  # of an image's five: what UniVSE's ablations are trained on at the small size
ONE_CORE = ("--threads", "1", "--device", "cpu")  # as two commands are run at once
FEW = ("--per-family", "1")  # negatives of attacks that a table does not show
FEWEST = (*FEWER, "--epochs", "4")  # the same for the twenty trainings of its weights
ETAS = ("0.1", "1", "2", "4", "8")
TERMS = ("comp", "obj", "attr", "rel")  # of UniVSE's loss, in the order of weights
USUAL = ("0.5", "0.5", "0.5", "1")
FAMILY_MODELS = tuple(f"vse-c+{family}" for family in ("noun", "numeral", "relation"))
MAX = "univse+max"  # UniVSE with the sentence encoder that negcap's recipe has for the others
# The models of the parts vse-c and univse.
MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{name: (name, ()) for name in ("vse", "vse++", "vse-c", "univse")},
    **{name: ("vse-c", ("--negative-family", name.removeprefix("vse-c+"))) for name in FAMILY_MODELS},
    MAX: ("univse", ("--set", "bidirectional=true", "--set", "pooling=max")),
}
HOUSE_ONLY = (*FAMILY_MODELS, MAX)  # by negcap's recipe only
RECIPES = ("house", "paper")
ABLATIONS: dict[str, tuple[str, ...]] = {
    "average": (),
    "sum": ("--set", "composition=sum"),
    "max": ("--set", "composition=max"),
    "self-attention": ("--set", "composition=self-attention"),
    "gru": ("--set", "composition=gru"),
    "regions-average": ("--features", "grid", "--set", "image_pooling=average"),
    "regions-max": ("--features", "grid", "--set", "image_pooling=max"),
    "regions-max-k": ("--features", "grid", "--set", "image_pooling=max-k"),
    "without-comp": ("--set", f"weights={','.join(('0', *USUAL[1:]))}"),
    "learned-alpha": ("--set", "learn_alpha=true"),
    "dropped": ("--set", "drop_components=0.3"),
    "only-obj": ("--set", "contrast=obj"),
    "only-attr": ("--set", "contrast=attr"),
    "only-rel": ("--set", "contrast=rel"),
    "obj-mean": ("--set", "reduce_obj=mean"),
    "attr-rel-sum": ("--set", "reduce_attr=sum", "--set", "reduce_rel=sum"),
}
ONE = ("--set", "train_captions=1")
THREE = ("--set", "extra=generated")
LSTM = ("--set", "text_encoder=lstm")  # as in the paper
# Trainings on captions by people and generated ones, and the epochs at the small size: about 900 steps, half of them
# with the sum of hinges, as the hardest negative alone learns nothing for most of so few steps.
AUGMENTED: dict[str, tuple[tuple[str, ...], int]] = {
    "people-5": ((), 4),
    "people-5-generated-1": (("--set", "extra=generated_one"), 4),
    "people-5-judged-1": ((*THREE, "--set", "judge_rank=1"), 4),
    "people-5-lstm": (LSTM, 4),
    "people-5-generated-3-lstm": ((*THREE, *LSTM), 3),
    "people-1": (ONE, 20),
    "people-1-generated-1": ((*ONE, "--set", "extra=generated_one"), 10),
    "people-1-beam-1": ((*ONE, "--set", "extra=generated_beam"), 10),
    "people-1-generated-3": ((*ONE, *THREE), 5),
    "people-1-share-0.3": ((*ONE, *THREE, "--set", "extra_share=0.3"), 11),
    "people-1-judged-1": ((*ONE, *THREE, "--set", "judge_rank=1"), 20),
    "people-1-judged-10": ((*ONE, *THREE, "--set", "judge_rank=10"), 18),
}


PARTS = ("vse-c", "univse", "ablations", "weights", "words", "blanks", "saliency", "augmented")
OPERATORS = (*PRESETS["vse-c-paper"], *PRESETS["univse-paper"])


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
    parts: tuple[str, ...] = PARTS
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

    def model(self, name: str) -> Path:
        """The folder of a model by its name."""
        return self.output / "models" / name


@dataclass(frozen=True)
class Job:
    """Commands of negcap that are run in turn, each a tuple of arguments.

    needs: the names of the jobs that must be done before.
    """

    name: str
    commands: list[tuple[str, ...]] = field(repr=False)
    needs: tuple[str, ...] = ()


def jobs(settings: Settings) -> list[Job]:
    """Everything that the parts of `settings` need; a job is behind those that it needs."""
    found: dict[str, Job] = {}
    needs_negatives = set(settings.parts) != {"augmented"}
    for part in (*(("run",) if needs_negatives else ()), *settings.parts):
        for job in _JOBS[part](settings):
            found.setdefault(job.name, job)
    return list(found.values())


def _run(settings: Settings) -> list[Job]:
    source, run = str(settings.source), str(settings.run)
    commands: list[tuple[str, ...]] = [
        ("build", source, "--output", run, *(f"--operator={name}" for name in OPERATORS), "--components"),
        ("features", source, "--output", run),
    ]
    if "ablations" in settings.parts and (settings.source / "train_grid.npy").exists():
        commands.append(("features", source, "--output", run, "--array", "grid", "--table", "features_grid"))
    return [Job("run", commands)]


def _trained(
    settings: Settings,
    name: str,
    model: str,
    *flags: str,
    small: tuple[str, ...] = (),
    run: Path | None = None,
    attacks: tuple[str, ...] = (),
    needs: tuple[str, ...] = ("run",),
) -> Job:
    """Train a model and evaluate it.

    small: further flags at the small size. run: None: settings.run. attacks: flags of the evaluation. needs: of `Job`.
    """
    folder, run = str(settings.model(name)), run or settings.run
    size = (*SMALL, *small, *ONE_CORE) if settings.size == "small" else ()
    train = ("train", str(run), "--model", model, "--output", folder, *flags, *size)
    return Job(name, [train, _evaluate(settings, name, run, attacks)], needs)


def _evaluate(
    settings: Settings, name: str, run: Path, more: tuple[str, ...] = (), to: str = "evaluation"
) -> tuple[str, ...]:
    folder = settings.model(name)
    where = ("--split", settings.split, "--limit", str(settings.limit), "--output", str(folder / to))
    one = ONE_CORE if settings.size == "small" else ()
    return ("evaluate", str(folder), str(run), *where, *more, *one)


def named(model: str, recipe: str, seed: int) -> str:
    """The name of a model of the parts vse-c and univse: `vse++@house-0`."""
    return f"{model}@{recipe}-{seed}"


def _main(settings: Settings, names: tuple[str, ...]) -> list[Job]:
    made = []
    for recipe in RECIPES:
        for seed in range(settings.seeds):
            for name in names:
                if name in HOUSE_ONLY and recipe != RECIPES[0]:
                    continue
                model, own = MODELS[name]
                flags = ("--recipe", recipe, "--seed", str(seed), *own)
                less: dict[str, Any] = {"attacks": FEW} if name == MAX else {}
                small = () if model == "univse" else FALLING
                job = _trained(settings, named(name, recipe, seed), model, *flags, small=small, **less)
                if name == "univse":
                    sentence = ("--component", "none", *FEW)
                    job.commands.append(_evaluate(settings, job.name, settings.run, sentence, "sentence"))
                made.append(job)
    return made


def _ablations(settings: Settings) -> list[Job]:
    grid = (settings.source / "train_grid.npy").exists()
    made = []
    for name, flags in ABLATIONS.items():
        if grid or "grid" not in flags:
            job = _trained(settings, f"univse-{name}", "univse", *flags, small=FEWER, attacks=FEW)
            if name == "dropped":
                more = ("--drop-components", "0.3", *FEW)
                job.commands.append(_evaluate(settings, job.name, settings.run, more, "both"))
            made.append(job)
    return made


def _weights(settings: Settings) -> list[Job]:
    limit = ("--limit", "200") if settings.size == "small" else ()
    less: dict[str, Any] = {"small": FEWEST, "attacks": (*FEW, *limit)}
    made = [_trained(settings, "univse-usual", "univse", **less)]
    for place, term in enumerate(TERMS):
        for eta in ETAS:
            weights = [eta if n == place else usual for n, usual in enumerate(USUAL)]
            made.append(
                _trained(settings, f"univse-{term}-{eta}", "univse", "--set", f"weights={','.join(weights)}", **less)
            )
    return made


def _probe(settings: Settings, task: str, models: tuple[str, ...], *flags: str) -> list[Job]:
    if settings.vectors is None:
        return []
    trained = [job for job in _main(settings, models) if job.name.endswith("@house-0")]
    joined = [word for job in trained for word in ("--model", str(settings.model(job.name)))]
    where = ("--vectors", str(settings.vectors), "--split", settings.split, "--output", str(settings.output / task))
    small = ("--threads", "1", *flags) if settings.size == "small" else ()
    probe = ("probe", task, str(settings.run), *where, *joined, *small)
    return [*trained, Job(task, [probe], tuple(job.name for job in trained))]


def _saliency(settings: Settings) -> list[Job]:
    trained = [job for job in _main(settings, ("vse++", "vse-c")) if job.name.endswith("@house-0")]
    where = (str(settings.run), "--split", settings.split, "--limit", "200", "--threads", "1")
    made = [
        Job(f"saliency of {job.name}", [("saliency", str(settings.model(job.name)), *where)], (job.name,))
        for job in trained
    ]
    return [*trained, *made]


def _augmented(settings: Settings) -> list[Job]:
    captioner, run, source = str(settings.output / "captioner"), str(settings.captions), str(settings.source)
    epochs = ("--mle-epochs", "6") if settings.size == "small" else ()
    likelihood = ("--discriminator-epochs", "0", "--gan-epochs", "0", "--supervised-rate", "1e-3")
    write = ("caption", captioner, run, "--phase", "mle", "--split", "train", "--workers", "1")
    commands: list[tuple[str, ...]] = [
        ("ingest", source, "--output", run),
        ("features", source, "--output", run),
        ("captioner", run, "--output", captioner, *epochs, *likelihood, "--threads", "1"),
        (*write, "--n", "3"),
        (*write, "--n", "1", "--table", "generated_one"),
        (*write, "--n", "1", "--table", "generated_beam", "--decoding", "beam"),
    ]
    there: dict[str, Any] = {"run": settings.captions, "needs": ("captioner",)}
    half = (*FALLING, "--set", "warm_up=3")
    judges = [
        _trained(settings, f"judge-{n}", "vse++", "--set", f"leave_out={n}/2", small=half, **there) for n in (0, 1)
    ]
    by = ("--set", f"judges={','.join(str(settings.model(job.name)) for job in judges)}")
    made = []
    for name, (flags, passes) in AUGMENTED.items():
        chosen = by if any("judge_rank" in flag for flag in flags) else ()
        its = {**there, "needs": tuple(job.name for job in judges)} if chosen else there
        small = ("--epochs", str(passes), "--set", f"decay_every={passes}", "--set", f"warm_up={passes // 2}")
        made.append(_trained(settings, name, "vse++", *flags, *chosen, small=small, **its))
    return [Job("captioner", commands), *judges, *made]


_JOBS = {
    "run": _run,
    "vse-c": lambda settings: _main(settings, ("vse", "vse++", "vse-c", *FAMILY_MODELS)),
    "univse": lambda settings: _main(settings, ("vse", "vse++", "vse-c", "univse", MAX)),
    "ablations": _ablations,
    "weights": _weights,
    "words": lambda settings: _probe(settings, "words", ("vse", "vse++", "vse-c", *FAMILY_MODELS)),
    "blanks": lambda settings: _probe(settings, "blanks", ("vse++", "vse-c"), "--epochs", "3", "--hidden", "64"),
    "saliency": _saliency,
    "augmented": _augmented,
}
