"""Commands for order-embeddings: hypernyms and entailment, which read no run, and lengths of captions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from . import options
from .choices import HYPERNYM_ROWS, SIMILARITIES
from .group import negcap
from .options import FOLDER

output = click.option("--output", type=FOLDER, required=True, metavar="DIR", help="Folder of the results.")
seeds = click.option("--seeds", type=int, help="Trainings of each, with seeds 0, 1, …; default: 1.")
threads = click.option("--threads", type=int, help="CPU threads; default: one per core.")


def _say(quiet: bool) -> Callable[[str], None]:
    """Print a line of progress on stderr, or nothing."""
    return lambda line: None if quiet else print(line, file=sys.stderr, flush=True)


@negcap.command()
@output
@options.several("--row", "rows", "Row of the table to make; default: all.", choices=HYPERNYM_ROWS)
@seeds
@click.option("--epochs", type=int, help="Passes over the true pairs; default: 12.")
@options.several("--concept", "concepts", "Concept in the picture, such as dog.n.01; default: twenty.")
@threads
@options.quiet
@options.settings(
    {
        "wordnet": "taxonomy in Parquet; default: the shipped WordNet 3.0",
        "held_out": "true pairs in each of the held-out parts; default: 4000",
        "dim": "dimensions of a concept's vector; default: 50",
        "batch_size": "true pairs per batch, each with a false one; default: 500",
        "learning_rate": "learning rate of Adagrad; default: 0.3",
        "margin": "margin of false pairs; default: 1, word2gauss 7",
        "root": "true: order: take the root of the penalty, as the released code",
        "absolute": "true: order: absolute coordinates instead of clamped ones",
    }
)
def hypernyms(output: Path, quiet: bool, **given: Any) -> None:
    """Predict hypernyms of WordNet's nouns by order-embeddings.

    Table 1 of Vendrov et al. (2016): the transitive closure of the known pairs, word2gauss, a symmetric and a bilinear
    model, and order-embeddings, on held-out pairs. Prints Markdown; writes it to DIR with JSON, the vectors of all
    concepts, and hypernyms.png, some concepts in two dimensions.

    \b
    Example: negcap hypernyms --output outputs/hypernyms --seeds 3
    """
    from ..models.order.config import HypernymConfig

    config = options.config_of(HypernymConfig, given)
    from ..models.order.hypernyms import predict_hypernyms

    print(predict_hypernyms(config, output, _say(quiet)))


@negcap.command()
@click.argument("train", type=FOLDER)
@click.argument("validation", type=FOLDER, metavar="DEV")
@click.argument("test", type=FOLDER)
@output
@options.several(
    "--similarity", "similarities", "How sentences are compared; default: order and cosine.", choices=SIMILARITIES
)
@seeds
@click.option("--epochs", type=int, help="Passes over the pairs; default: 10.")
@options.device
@options.quiet
@options.settings(
    {
        "margin": "margin of pairs that are not entailed; default: the best of four on DEV",
        "batch_size": "pairs per batch; default: 128",
        "learning_rate": "learning rate of Adam; default: 1e-3",
        "clip": "maximum norm of the gradients (clipping); default: 2",
        "joint": "dimensions of a sentence's vector; default: 1024",
        "word_dim": "dimensions of the word vectors; default: 300",
        "vectors": "word vectors to start from: GloVe's text form or npz",
        "min_count": "occurrences in TRAIN that a word of the vocabulary needs; default: 1",
    }
)
def entail(train: Path, validation: Path, test: Path, output: Path, quiet: bool, **given: Any) -> None:
    """Train and test textual entailment by order-embeddings.

    Table 3 of Vendrov et al. (2016): is a hypothesis entailed by its premise? TRAIN, DEV and TEST are files of SNLI
    (.jsonl, .txt), of SICK, or of `negcap publish --format snli`. Pairs whose gold label is "-" are left out. Prints
    Markdown; writes it to DIR with JSON and the weights.

    \b
    Example: negcap entail snli_1.0_train.jsonl snli_1.0_dev.jsonl snli_1.0_test.jsonl --output outputs/entailment
    """
    from ..models.order.config import EntailConfig

    config = options.config_of(EntailConfig, given)
    from ..models.order.entailment import entail as fit

    print(fit(train, validation, test, config, output, _say(quiet)))


@negcap.command()
@options.model
@options.run
@click.option("--output", type=FOLDER, metavar="DIR", help="Folder of the results; default: MODEL/lengths.")
@click.option("--split", metavar="NAME", help="Split on which to measure; default: test.")
@click.option("--limit", type=int, help="Use only the first N images of the split; default: 1000.")
@click.option("--pairs", type=int, help="Pairs of captions that differ most in length; default: 100.")
@click.option("--min-images", type=int, help="Images that must have both objects of a composition; default: 5.")
@options.device
def lengths(model: Path, run: Path, output: Path | None, **given: Any) -> None:
    """Measure what a model knows of how general a caption is.

    Vendrov et al. (2016), section 4.6: of the captions that differ most in length, the mean rank of their image, and of
    the longer one where the shorter one is the query. If the run has components, also retrieval by two objects at once:
    the maximum of their vectors, or their sum under the cosine. Prints Markdown; writes it to --output with JSON.

    \b
    Example: negcap lengths outputs/order outputs/mine --split test
    """
    from ..models.order.config import LengthConfig

    config = options.config_of(LengthConfig, given)
    from ..models.order.lengths import measure_lengths

    print(measure_lengths(model, run, config, output or model / "lengths"))
