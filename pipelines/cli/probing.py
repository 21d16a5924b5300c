"""Commands that show what a model has learned: pictures, saliency, word-level tasks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from . import options
from .choices import TASKS, Choice
from .group import negcap
from .options import FOLDER

tested_split = click.option("--split", metavar="NAME", help="Split to look at; default: test.")


@negcap.command()
@options.model
@options.run
@click.option("--output", type=FOLDER, metavar="DIR", help="Folder of the pictures; default: MODEL/pictures.")
@click.option(
    "--images", "photos", type=FOLDER, metavar="FOLDER", help="Folder of the photos, for relevance.png and heads.png."
)
@click.option(
    "--query", "queries", multiple=True, metavar="TEXT", help="What to look for, e.g. 'a black dog'. May be repeated."
)
@click.option("--best", type=int, help="Photos shown per query, or in heads.png; default: 6.")
@options.spacy_model
@click.option("--seed", type=int, help="Seed of t-SNE; default: 0.")
def picture(model: Path, run: Path, output: Path | None, photos: Path | None, **given: Any) -> None:
    """Draw pictures of what a UniVSE or MHA-D model has learned.

    UniVSE: relevance.png: the regions of photos that are relevant to an object, an attributed object or a relation;
    neighbours.png: the run's frequent nouns, attributed nouns and triples, projected to the plane by t-SNE. MHA-D:
    heads.png: the regions and words to which each head attends; views.png: images and captions in the plane.

    \b
    Example: negcap picture outputs/univse outputs/mine --images photos --query "a man on a bike"
    """
    from ..models.trainer.pictures import PictureConfig, draw_pictures

    given = options.only_set(given)
    for file in draw_pictures(model, run, photos, output or model / "pictures", PictureConfig(**given)):
        print(file)


@negcap.command()
@options.model
@options.run
@click.option("--output", type=FOLDER, metavar="DIR", help="Folder of the results; default: MODEL/saliency.")
@click.option(
    "--images", "photos", type=FOLDER, metavar="FOLDER", help="Folder of the photos, to draw beside the text."
)
@tested_split
@options.operators
@click.option("--limit", type=int, help="Use only the first N images of the split; default: 500.")
@click.option("--seed", type=int, help="Seed of the bootstrap; default: 0.")
@click.option("--threads", type=int, help="CPU threads; default: one per core.")
def saliency(model: Path, run: Path, output: Path | None, photos: Path | None, **given: Any) -> None:
    """Measure which words of a negative its score depends on.

    By operator: the share of the saliency (the gradient of the similarity to the vectors of the words, VSE-C's equation
    4) that is on the words put in by an edit, and the share that chance gives. Prints Markdown; writes it with JSON and
    saliency.png, some negatives with the shares of their words, and over the photos those of the regions of a grid.

    \b
    Example: negcap saliency outputs/vse-c outputs/mine --split test
    """
    given = options.only_set(given)
    from ..models.probe.saliency import SaliencyConfig
    from ..models.probe.saliency import saliency as measure

    print(measure(model, run, photos, output or model / "saliency", SaliencyConfig(**given)))


@negcap.command()
@click.argument("task", type=Choice(TASKS))
@options.run
@click.option("--vectors", type=FOLDER, required=True, metavar="FILE", help="Word vectors: GloVe's text form or npz.")
@click.option(
    "--model",
    "models",
    type=FOLDER,
    multiple=True,
    metavar="MODEL",
    help="Model whose word vectors are joined to those of FILE. May be repeated.",
)
@click.option("--output", type=FOLDER, required=True, metavar="DIR", help="Folder of the results.")
@tested_split
@options.train_splits
@click.option("--features", metavar="NAME", help="Use the table features_NAME; default: features.")
@click.option(
    "--min-count",
    type=int,
    help="Occurrences that an object (words) or a word (blanks) needs; default: by corpus size, and 4.",
)
@click.option("--epochs", type=int, help="Epochs of training; default: 15 (words), 10 (blanks).")
@click.option("--hidden", type=int, help="blanks: units of each GRU; default: 512.")
@options.seed
@click.option("--threads", type=int, help="CPU threads; default: one per core.")
@options.quiet
def probe(task: str, run: Path, output: Path, quiet: bool, **given: Any) -> None:
    """Test word vectors on tasks of single words.

    words: which objects does an image show (VSE-C's Table 6)? blanks: which noun or preposition is missing in a caption
    of the image (Table 7)? One row for the vectors of FILE, one for each model, whose learned word vectors are joined
    to them, and baselines. Prints Markdown; writes it with JSON to DIR.

    \b
    Example: negcap probe words outputs/mine --vectors glove.txt --model outputs/vse-c --output outputs/words
    """
    given = options.only_set(given)
    from ..models.probe import probe as run_task
    from ..models.probe.task import ProbeConfig

    say = lambda line: None if quiet else print(line, file=sys.stderr, flush=True)  # noqa: E731
    print(run_task(task, run, ProbeConfig(**given), output, say))
