"""Commands that train and evaluate models."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from . import options
from .choices import FAMILIES, MODELS, OPERATORS, RECIPES
from .group import Command, negcap
from .options import FOLDER

COMMON = (
    *("epochs", "batch_size", "joint", "learning_rate", "negative_families", "negative_operators", "similarity"),
    *("features", "vectors", "languages", "seed", "device", "threads"),
)  # settings of a training that have flags of their own; the others are for --set
ATTACKS = ("split", "captions_per_image", "complete", "per_family", "per_attack")
FLAGS = {"negative_families": "--negative-family", "negative_operators": "--negative-operator"}
FLAGS |= {"languages": "--language", "components": "--component"}
WORDS = {"negative_families": FAMILIES, "negative_operators": OPERATORS}


def _training_flags(*names: str) -> list[click.Option]:
    from ..models.config import CONFIGS, DEFAULTS

    fields = {name: field for kind in CONFIGS.values() for name, field in kind.model_fields.items()}
    return [
        options.from_field(name, fields[name], FLAGS.get(name, ""), choices=WORDS.get(name, ()), of_models=DEFAULTS)
        for name in names
    ]


def _evaluation_flags(*names: str) -> list[click.Option]:
    from ..models.config import EvaluateConfig

    fields = EvaluateConfig.model_fields
    return [options.from_field(name, fields[name], FLAGS.get(name, "")) for name in names or fields]


class TrainCommand(Command):
    """The command train, whose help lists the settings of a model."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the flags, then the settings of the model that --model names before --help."""
        super().format_options(ctx, formatter)
        with formatter.section(f"Settings of {ctx.params.get('model') or 'vse++'} for --set"):
            formatter.write_dl(settings_of(ctx.params.get("model") or "vse++"))


def settings_of(model: str) -> list[tuple[str, str]]:
    """The settings that --set takes for a model: each as `name=default`, and its description."""
    from ..models.config import CONFIGS, configure

    made = vars(configure(Path(), Path(), model))
    fields = CONFIGS[model].model_fields
    names = [name for name in fields if name not in ("run", "output", "model", "threads", *COMMON)]
    return [(f"{name}={options.as_text(made[name])}", fields[name].description or "") for name in names]


def _settings(ctx: click.Context, flag: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """The texts of --set NAME=VALUE by name."""
    for value in values:
        if "=" not in value:
            raise click.UsageError(f"--set must be NAME=VALUE, was: {value}", ctx)
    return {name.strip().replace("-", "_"): text for name, _, text in (value.partition("=") for value in values)}


recipe = options.one_of(
    "--recipe", RECIPES, "Settings of those that are not given: negcap's, or the paper's of the model; default: house."
)
sets = click.option(
    "--set",
    "settings",
    multiple=True,
    callback=_settings,
    metavar="NAME=VALUE",
    help="Any other setting; negcap train --model NAME --help lists them. May be repeated.",
)
overwrite = click.option(
    "--overwrite", is_flag=True, help="Replace a model that was trained with other data or settings."
)


@negcap.command(cls=TrainCommand, fields=lambda: _training_flags(*COMMON))
@options.run
@options.one_of("--model", MODELS, "Kind of model; default: vse++.", is_eager=True)
@click.option("--output", type=FOLDER, required=True, metavar="MODEL", help="Folder of the model to write.")
@recipe
@sets
@overwrite
@options.quiet
def train(run: Path, output: Path, settings: dict[str, str], overwrite: bool, quiet: bool, **given: Any) -> None:
    """Train an embedding of images and captions.

    VSE, VSE++, VSE-C with negatives of the run, or UniVSE with components. Reads captions, features, and negatives or
    components. Writes weights, metrics.jsonl and curves.png to the folder MODEL. An interrupted training continues
    after its last complete epoch.

    \b
    Example: negcap train outputs/mine --model vse-c --output outputs/vse-c --negative-family noun --set margin=0.1
    """
    from ..models.config import configure

    config = configure(run, output, **{**settings, **options.only_set(given)})
    from ..models.trainer.train import train as fit

    fit(config, overwrite=overwrite, say=lambda line: None if quiet else print(line, file=sys.stderr, flush=True))


@negcap.command(fields=_evaluation_flags)
@options.model
@options.run
@options.evaluation
def evaluate(model: Path, run: Path, output: Path | None, **given: Any) -> None:
    """Measure retrieval, plain and under attack.

    Recalls, ranks and 95 % intervals: without negatives; with the negatives of each image's own captions (VSE-C's
    protocol) or of all captions (UniVSE's) among the candidates; on captions with a number above one; and how often a
    caption scores above its negative. If the run has components, also retrieval by objects, attributes and relations;
    for UniVSE also by alpha, and how well the image tells which components belong together. Prints Markdown, and writes
    it with JSON and the ranks (Parquet) to --output.

    \b
    Example: negcap evaluate outputs/vse-c outputs/mine --split test
    """
    from ..models.config import EvaluateConfig

    config = EvaluateConfig(**options.only_set(given))
    from ..models.trainer.evaluate import evaluate as measure

    print(measure(model, run, config, output))


def _compared() -> Sequence[click.Option]:
    return [*_evaluation_flags(*ATTACKS), *_training_flags(*(name for name in COMMON if name not in NOT_COMPARED))]


NOT_COMPARED = ("negative_families", "seed")  # which the variants and --seeds say


@negcap.command(fields=_compared)
@options.run
@click.option("--output", type=FOLDER, required=True, metavar="DIR", help="Folder of the models and the tables.")
@options.several(
    "--variant",
    "variants",
    "Model to train: vse, vse++, vse-c, univse, order or vse-c+FAMILY; then ~order: with this similarity; then @paper: "
    "its paper's recipe; default: vse, vse++ and vse-c with each family.",
)
@click.option("--seeds", type=int, help="Trainings per model, with seeds 0, 1, …; default: 1.")
@click.option(
    "--readme",
    type=FOLDER,
    metavar="FILE",
    help="Markdown file into which the tables are inserted, between its markers.",
)
@recipe
@sets
@overwrite
@options.quiet
def compare(
    run: Path, output: Path, settings: dict[str, str], overwrite: bool, quiet: bool, readme: Path | None, **given: Any
) -> None:
    """Train and evaluate several models, side by side.

    VSE, VSE++ and VSE-C with negatives of each family and of all families: retrieval, plain and under attack, as in the
    papers' tables. Trained models are kept. A setting is for those models that have it. Prints Markdown; writes the
    models and the tables to DIR.

    \b
    Example: negcap compare outputs/mine --output outputs/models --variant vse++ --variant vse-c+noun --seeds 3
    """
    from ..models.config import EvaluateConfig

    given = {**settings, **options.only_set(given)}
    from ..models.trainer import compare as comparison

    chosen = {name: given.pop(name) for name in ("variants", "seeds") if name in given}
    evaluation = {name: given.pop(name) for name in ATTACKS if name in given}
    evaluation |= {name: given[name] for name in ("device", "threads") if name in given}
    config = comparison.CompareConfig(**chosen, training=given, evaluation=EvaluateConfig(**evaluation))
    if readme:
        comparison.insert_tables(readme.read_text("utf-8"), "")  # raises before anything is trained
    text = comparison.compare(
        run,
        output,
        config,
        overwrite=overwrite,
        say=lambda line: None if quiet else print(line, file=sys.stderr, flush=True),
    )
    if readme:
        readme.write_text(comparison.insert_tables(readme.read_text("utf-8"), text), "utf-8")
    print(text)


@negcap.command()
@options.model
@click.argument("pairs", type=FOLDER)
@click.option("--output", type=FOLDER, metavar="DIR", help="Folder of the table as Markdown and JSON; default: none.")
@click.option("--language", metavar="CODE", help="Language of the sentences, one of the model's; default: en.")
@click.option("--seed", type=int, help="Seed of the bootstrap; default: 0.")
@options.device
def similarity(model: Path, pairs: Path, output: Path | None, **given: Any) -> None:
    """Compare a model's similarity of sentences with people's.

    Prints Pearson's r of the model's cosines with the scores in PAIRS, by part of the data, with 95 % intervals. PAIRS
    is a tab-separated file: the STS benchmark, SICK, or one with the columns score, sentence1 and sentence2.

    \b
    Example: negcap similarity outputs/vse-c sts-dev.tsv
    """
    from ..models.trainer.sentence_similarity import SimilarityConfig
    from ..models.trainer.sentence_similarity import similarity as measure

    print(measure(model, pairs, SimilarityConfig(**options.only_set(given)), output))
