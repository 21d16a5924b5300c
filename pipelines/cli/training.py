"""Commands that train and evaluate models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from . import options
from .choices import FAMILIES, MODELS
from .group import negcap, one_line_errors
from .options import FOLDER
from .training_flags import attacks, composing, training

SHARED = ("device", "threads")
EVALUATED = ("split", "captions_per_image", "complete", "per_family", "per_attack", *SHARED)


@negcap.command()
@options.run
@options.one_of("--model", MODELS, "Kind of model; default: vse++.")
@click.option("--output", type=FOLDER, required=True, metavar="MODEL", help="Folder of the model to write.")
@options.several(
    "--negative-family",
    "negative_families",
    "vse-c, mha-d: train on negatives of this family; default: noun, numeral and relation, mha-d none.",
    choices=FAMILIES,
)
@options.seed
@training
@options.device
def train(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Train an embedding of images and captions.

    VSE, VSE++, VSE-C with negatives of the run, or UniVSE with components. Reads captions, features, and negatives or
    components. Writes weights, metrics.jsonl and curves.png to the folder MODEL. An interrupted training continues
    after its last complete epoch.

    \b
    Example: negcap train outputs/mine --model vse-c --output outputs/vse-c --negative-family noun
    """
    from ..models.config import configure

    given = options.only_set(given)
    with one_line_errors():
        config = configure(run, output, **given)
        from ..models.trainer.train import train as fit

        fit(config, overwrite=overwrite, say=lambda line: None if quiet else print(line, file=sys.stderr, flush=True))


@negcap.command()
@options.model
@options.run
@options.evaluation
@attacks
@options.limit_of_split
@composing
@click.option(
    "--spacy-model",
    metavar="NAME",
    help="Parser of negatives for UniVSE; needed if the run was parsed with one in a folder.",
)
@click.option(
    "--instances",
    type=FOLDER,
    metavar="FILE",
    help="COCO's instances_*.json: retrieve images also by the objects that have a box there (UniVSE's Table 3).",
)
@click.option("--seed", type=int, help="Seed of the bootstrap; default: 0.")
@options.device
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
    from ..models.evaluation.config import EvaluateConfig

    given = options.only_set(given)
    with one_line_errors():
        config = EvaluateConfig(**given)
        from ..models.trainer.evaluate import evaluate as measure

        print(measure(model, run, config, output))


@negcap.command()
@options.run
@click.option("--output", type=FOLDER, required=True, metavar="DIR", help="Folder of the models and the tables.")
@options.several(
    "--variant",
    "variants",
    "Model to train: vse, vse++, vse-c, univse, order or vse-c+FAMILY; then ~order: with this similarity; then @paper: "
    "its paper's recipe; default: vse, vse++ and vse-c with each family.",
)
@click.option("--seeds", type=int, help="Trainings per model, with seeds 0, 1, …; default: 1.")
@attacks
@click.option(
    "--readme",
    type=FOLDER,
    metavar="FILE",
    help="Markdown file into which the tables are inserted, between its markers.",
)
@training
@options.device
def compare(run: Path, output: Path, overwrite: bool, quiet: bool, readme: Path | None, **given: Any) -> None:
    """Train and evaluate several models, side by side.

    VSE, VSE++ and VSE-C with negatives of each family and of all families: retrieval, plain and under attack, as in the
    papers' tables. Trained models are kept. Prints Markdown; writes the models and the tables to DIR.

    \b
    Example: negcap compare outputs/mine --output outputs/models --variant vse++ --variant vse-c+noun --seeds 3
    """
    from ..models.evaluation.config import EvaluateConfig

    given = options.only_set(given)
    with one_line_errors():
        from ..models.trainer import compare as comparison

        chosen = {name: given.pop(name) for name in ("variants", "seeds") if name in given}
        evaluation = EvaluateConfig(**{name: given[name] for name in EVALUATED if name in given})
        for name in set(EVALUATED) - set(SHARED):
            given.pop(name, None)
        config = comparison.CompareConfig(**chosen, training=given, evaluation=evaluation)
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

    given = options.only_set(given)
    with one_line_errors():
        print(measure(model, pairs, SimilarityConfig(**given), output))
