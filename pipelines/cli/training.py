"""Verbs that train and evaluate models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from negcap.pipelines.cli import options
from negcap.pipelines.cli.group import negcap, one_line_errors
from negcap.pipelines.cli.options import FOLDER, Names

SHARED = ("device", "threads")
EVALUATED = ("split", "per_family", "per_attack", *SHARED)

attacks = options.together(
    click.option("--split", help="What to evaluate on; default: test."),
    click.option("--per-family", type=int, help="Negatives a caption and family (VSE-C's attack); default: 20."),
    click.option("--per-attack", type=int, help="Negatives a caption and operator (UniVSE's attack); default: 5."),
)
composing = options.together(
    click.option("--components", type=Names("none"), help="UniVSE: of a caption, of obj,attr,rel; none; default: all."),
    click.option("--alpha", type=float, help="UniVSE: share of the sentence in a caption; default: 0.75."),
)
training = options.together(
    click.option("--epochs", type=int, help="How many, those done before included; default: 30; univse: 13."),
    click.option("--batch-size", type=int, help="Pairs of image and caption at a time; default: 128."),
    options.train_splits,
    click.option("--validation-split", help="Whose rsum selects the epoch; default: val."),
    options.validation_images,
    click.option("--extra", metavar="TABLE", help="Captions to train on too, as negcap caption writes: generated."),
    click.option("--negatives", type=int, help="Negatives a caption, drawn afresh each time (vse-c); default: 8."),
    click.option("--negative-operators", type=Names(), help="By these operators; default: those of preset vse-c."),
    click.option("--joint", type=int, help="Size of the joint space; default: 1024."),
    click.option("--word-dim", type=int, help="Size of the word vectors; default: 300."),
    click.option("--bidirectional/--forward", default=None, help="Of the GRU; default: both; univse: forward."),
    click.option("--pooling", help="Of its states: max or last; default: max; univse: last."),
    options.transform,
    click.option("--features", help="Their table: features, or NAME for features_NAME; default: features."),
    click.option("--image-pooling", help="Of a grid: average, max or max-k; default: average; univse: max-k."),
    click.option("--vectors", type=FOLDER, metavar="FILE", help="Word vectors to begin with, GloVe's text or npz."),
    click.option("--tune-vectors/--keep-vectors", default=None, help="Train on them; default: yes."),
    options.min_count,
    click.option("--learning-rate", type=float, help="Of Adam; default: 1e-3."),
    click.option("--constant", type=int, help="Epochs before it falls; default: as --decay-every; univse: 6."),
    click.option("--decay", type=float, help="What it is multiplied with when it falls; default: 0.1; univse: 0.5."),
    click.option("--decay-every", type=int, help="Epochs between two falls; default: 15; univse: 1."),
    click.option("--warm-up", type=int, help="First epochs with the sum of hinges; default: 1."),
    click.option("--margin", type=float, help="Of the hinges; default: 0.2."),
    click.option("--clip", type=float, help="Norm that gradients are clipped to; default: 2."),
    click.option("--dropout", type=float, help="Share of an image's features that is 0 in training; default: 0.2."),
    click.option(
        "--average", type=float, help="Share that stays in the mean of the weights at a step; default: 0.998."
    ),
    composing,
    click.option("--contrast", type=Names("none"), help="UniVSE: trained beside captions, likewise; default: all."),
    click.option("--temperature", type=float, help="UniVSE: of the relevance of regions; default: 1."),
    click.option("--composition", help="UniVSE: of a caption's components: average, sum or max; default: average."),
    click.option("--amp/--no-amp", default=None, help="bf16 on a GPU; default: yes."),
    click.option("--overwrite", is_flag=True, help="Replace a model that was trained otherwise."),
    options.quiet,
)


@negcap.command()
@options.run
@click.option("--model", help="vse, vse++, vse-c or univse; default: vse++.")
@click.option("--output", type=FOLDER, required=True, metavar="MODEL", help="Folder of the model.")
@click.option("--negative-families", type=Names(), help="Of these families; default: noun,numeral,relation.")
@options.seed
@training
@options.device
def train(run: Path, output: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Train an embedding of images and captions.

    VSE, VSE++, VSE-C with negatives of the run, or UniVSE with components. Reads captions, features, and negatives or
    components. The folder MODEL gets weights, metrics.jsonl and curves.png. An interrupted training goes on after its
    last whole epoch.
    """
    from negcap.pipelines.models.config import configure

    given = options.only_set(given)
    with one_line_errors():
        config = configure(run, output, **given)
        from negcap.pipelines.models.trainer.train import train as fit

        fit(config, overwrite=overwrite, say=lambda line: None if quiet else print(line, file=sys.stderr, flush=True))


@negcap.command()
@options.model
@options.run
@options.evaluation
@attacks
@options.limit_of_split
@composing
@click.option("--spacy-model", help="For components of negatives, where the run was parsed by one in a folder.")
@click.option("--seed", type=int, help="Of the bootstrap; default: 0.")
@options.device
def evaluate(model: Path, run: Path, output: Path | None, **given: Any) -> None:
    """Measure retrieval, plain and under attack.

    Recalls, ranks and 95 % intervals without negatives; with each image's own (VSE-C's protocol) and with all in one
    set (UniVSE's); on captions that count; and how often a caption scores above its negative. With components in the
    run, retrieval by objects, attributes and relations; of UniVSE the curve of alpha and parsing by the image. Prints
    Markdown; JSON and the ranks as Parquet lie beside the model.
    """
    from negcap.pipelines.models.config import EvaluateConfig

    given = options.only_set(given)
    with one_line_errors():
        config = EvaluateConfig(**given)
        from negcap.pipelines.models.trainer.evaluate import evaluate as measure

        print(measure(model, run, config, output))


@negcap.command()
@options.model
@options.run
@click.option("--output", type=FOLDER, metavar="DIR", help="Where they go; default: MODEL/pictures.")
@click.option("--images", "photos", type=FOLDER, metavar="FOLDER", help="Photos of the run's images, for the maps.")
@click.option("--query", "queries", multiple=True, help="What to look for: a black dog; may be repeated.")
@click.option("--best", type=int, help="Photos a query; default: 6.")
@options.spacy_model
@click.option("--seed", type=int, help="Of t-SNE; default: 0.")
def picture(model: Path, run: Path, output: Path | None, photos: Path | None, **given: Any) -> None:
    """Draw what a UniVSE model sees.

    relevance.png: where in photos it sees an object, an attributed object or a relation. neighbours.png: the run's
    frequent nouns, attributed nouns and triples in the plane, by t-SNE.
    """
    from negcap.pipelines.models.trainer.pictures import PictureConfig, draw_pictures

    given = options.only_set(given)
    with one_line_errors():
        for file in draw_pictures(model, run, photos, output or model / "pictures", PictureConfig(**given)):
            print(file)


@negcap.command()
@options.run
@click.option("--output", type=FOLDER, required=True, metavar="DIR", help="Folder of the models and the tables.")
@click.option(
    "--variants", type=Names(), help="Models, +family for negatives of it alone: vse,vse++,vse-c+noun,vse-c …"
)
@click.option("--seeds", type=int, help="Trainings of each, with seeds 0, 1 …; default: 1.")
@attacks
@click.option("--readme", type=FOLDER, metavar="FILE", help="A Markdown file to put the tables into, too.")
@training
@options.device
def compare(run: Path, output: Path, overwrite: bool, quiet: bool, readme: Path | None, **given: Any) -> None:
    """Train and evaluate several models, side by side.

    VSE, VSE++ and VSE-C with negatives of each family and of all: retrieval plain and under attack, as the papers'
    tables have it. What is trained already is kept. Prints Markdown; DIR holds the models and the tables.
    """
    from negcap.pipelines.models.config import EvaluateConfig

    given = options.only_set(given)
    with one_line_errors():
        from negcap.pipelines.models.trainer import compare as comparison

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
