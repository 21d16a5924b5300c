"""Commands that make a run's tables, from captions to negatives."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from . import options
from .choices import OPERATORS, PRESETS, READ
from .group import CHECK_FAILED, negcap, one_line_errors, warn, with_workers
from .options import FOLDER

READ_FROM, COME_IN = "What is read", "Which words may come in"
SAMPLES, MADE = "How many captions are studied", "What is made and rejected"

concreteness = click.option(
    "--concreteness",
    type=FOLDER,
    metavar="FILE",
    help="Norm list (word, tab, score) to use instead of the shipped scores.",
)
reading = options.section(
    READ_FROM,
    options.one_of("--format", READ, "Format of CAPTIONS; default: recognised from the content."),
    click.option("--image-column", metavar="NAME", help="Column of the image in a CSV, TSV, JSONL or Parquet table."),
    click.option("--caption-column", metavar="NAME", help="Column of the caption in such a table."),
    click.option("--split-column", metavar="NAME", help="Column of the split in such a table, if it has one."),
    click.option(
        "--id-column",
        metavar="NAME",
        help="Column that identifies the images, e.g. one of URLs; default: uid or key beside a column of URLs, "
        "or else the images' file names.",
    ),
    options.several("--keep-columns", "keep_columns", "Column to keep, in the table source_columns."),
    click.option("--language", metavar="CODE", help="ISO 639-1 code of the captions' language; default: en."),
    click.option("--language-column", metavar="NAME", help="Column of each caption's language in such a table."),
    click.option("--source-name", metavar="NAME", help="First part of every caption_id; default: the format."),
    options.limit,
    click.option("--shard-size", type=int, help="Captions per Parquet file, at most, of whole images."),
    click.option(
        "--shard-mb",
        type=float,
        help="MB of text per Parquet file, instead of --shard-size; default: 1000 captions, or up to 1 MB where "
        "there would be more than 2048 files.",
    ),
    options.several(
        "--languages", "languages", "Reject captions that seem to be in another language than this (ISO 639-1)."
    ),
    click.option(
        "--boilerplate", is_flag=True, default=None, help="Reject file names, web addresses and stock phrases."
    ),
    click.option(
        "--duplicates", is_flag=True, default=None, help="Reject captions that repeat an earlier one, of any image."
    ),
    click.option(
        "--near-duplicates",
        is_flag=True,
        default=None,
        help="Reject also what differs from an earlier caption in a few letters.",
    ),
    options.strict,
)
counting = options.section(
    COME_IN,
    click.option("--min-count", type=int, help="Occurrences that a replacement noun needs; default: by corpus size."),
    click.option("--theta", type=float, help="Minimum concreteness of a replacement noun; default: 0.6."),
    click.option(
        "--attributes",
        type=FOLDER,
        metavar="FILE",
        help="Attributes that may come in, one per line; default: the frequent ones.",
    ),
    concreteness,
)
lexicon_choice = options.section(
    COME_IN,
    click.option(
        "--lexicon",
        metavar="own|reference|RUN",
        help="Where replacements come from: own: the counts of these captions; reference: the lexicon shipped with "
        "negcap; RUN: the lexicon of another run. Default: own counts, plus those of the reference with the weight of "
        "5,000 captions.",
    ),
)
simple = click.option(
    "--simple",
    is_flag=True,
    default=None,
    help="Simplify as UniVSE does: one word per name, only the first attribute of an object.",
)
truth_sample = options.section(
    SAMPLES,
    click.option(
        "--truth-sample",
        type=int,
        help="Captions from which it is estimated what is true although no caption says so; default: 15000.",
    ),
)
max_true = options.section(
    MADE,
    click.option(
        "--max-true",
        type=float,
        help="Reject what one more caption of the image would make true with a higher estimated probability than this, "
        "except lower numbers; default: 0.025.",
    ),
)
scorer = options.section(
    MADE,
    click.option(
        "--scorer",
        type=FOLDER,
        metavar="FOLDER",
        help="Folder of a Hugging Face language model, causal or masked, that says how plausible negatives are; "
        "default: the cloze model does.",
    ),
)
min_plausibility = options.section(
    MADE,
    click.option(
        "--min-plausibility",
        type=float,
        help="Reject negatives of a lower plausibility (log-odds to the caption, in nats); default: only the limits of "
        "each operator.",
    ),
)
max_loss = options.section(
    MADE,
    click.option(
        "--max-loss",
        type=float,
        help="Reject negatives that make the other words of the caption less likely by more than this in all, in nats; "
        "default: 1 to 4, by operator. 2 leaves fewer and less odd ones.",
    ),
)
cloze = options.section(
    MADE,
    click.option(
        "--cloze",
        type=FOLDER,
        metavar="FILE",
        help="Cloze model of your own that says which words are likely where; default: the one shipped with negcap.",
    ),
)
balance_sample = options.section(
    SAMPLES,
    click.option(
        "--sample", type=int, help="Captions on which the weights that balance words are fitted; default: 10000."
    ),
)
choosing = options.section(
    MADE,
    options.one_of(
        "--preset",
        PRESETS,
        "Operators of a paper; -paper: drawn as the paper does, unchecked; all: all that are checked; default: vse-c.",
    ),
    options.several(
        "--operator", "operators", f"Operator to run, instead of a preset: {', '.join(OPERATORS)}.", choices=OPERATORS
    ),
    click.option("--per-family", type=int, help="Negatives per caption and family, at most; default: 20."),
    options.seed,
)


@negcap.command()
@click.argument("captions", required=False)
@options.output
@reading
@options.spacy_model
@counting
@lexicon_choice
@click.option("--components", is_flag=True, help="Also make the tables of scene graph components.")
@simple
@choosing
@max_true
@min_plausibility
@max_loss
@cloze
@scorer
@truth_sample
@balance_sample
@options.workers
def build(captions: str | None, run: Path, overwrite: bool, **given: Any) -> int:
    """Make negatives of a caption file, folder or URL.

    CAPTIONS: COCO, Karpathy, Flickr, Multi30K or VSE++ files, tables (CSV, TSV, JSONL, Parquet), WebDataset tars, or a
    text file with one caption per line; without it, those in RUN are used. Runs ingest, parse, lexicon, truth, balance
    and negatives (with --preset univse or all also components), and prints coverage, yield, rejections and examples.
    Finished steps are kept: after an interruption, the same command continues.

    \b
    Example: negcap build captions.json --output outputs/mine --operator noun --operator verb
    """
    from ..report.statistics import write_page
    from ..report.summary import print_summary
    from ..stages import build as verbs

    with with_workers(given) as (executor, progress):
        warn(verbs.build(captions, run, given, executor, progress, overwrite))
        print_summary(run, progress.timings, sys.stdout)
        write_page(run)
        return _status(run, given)


@negcap.command()
@click.argument("captions")
@options.output
@reading
@options.workers
def ingest(captions: str, run: Path, overwrite: bool, **given: Any) -> None:
    """Read captions of any known format into the table captions.

    Formats: COCO annotation JSON, Karpathy dataset JSON, Flickr token files, Multi30K folders, VSE++ caption files,
    CSV, TSV, JSONL or Parquet tables, and text files with one caption per line; plain or compressed, local or by URL;
    of tables also a folder or a pattern (quoted): 'parts/*.parquet', '{000..127}.parquet'. Many files are read by many
    workers, and a shard ends where a file ends. Bad records go to rejected_records.

    \b
    Example: negcap ingest captions.csv --output outputs/mine --image-column photo --caption-column sentence
    """
    from ..report.summary import corpus_lines
    from ..stages import build as verbs

    with with_workers(given) as (executor, progress):
        config = verbs.configure("ingest", given)
        warn(verbs.ingest(captions, run, config, progress, overwrite, executor).warnings)
        print("\n".join(corpus_lines(run)[:1]))


@negcap.command()
@options.run
@options.spacy_model
@options.workers
def parse(run: Path, **given: Any) -> None:
    """Parse the captions: words, tags, dependencies, noun phrases.

    Writes the table parses, which all later steps read.

    \b
    Example: negcap parse outputs/mine --workers 8
    """
    _make("parse", run, given)


@negcap.command()
@options.run
@counting
@lexicon_choice
@options.workers
def lexicon(run: Path, **given: Any) -> None:
    """Count which words the captions use, and in which contexts.

    Writes the table lexicon: counts of nouns, prepositions, numerals, attributes and verbs, by the word that governs
    them. Replacements are sampled from these counts. Only train splits are counted, if there are any.

    \b
    Example: negcap lexicon outputs/mine --min-count 10 --overwrite
    """
    from ..report.summary import corpus_lines

    _make("lexicon", run, given)
    print("\n".join(corpus_lines(run)[-1:]))


@negcap.command()
@options.run
@simple
@click.option("--min-count", type=int, help="Occurrences that a frequent word needs; default: by corpus size.")
@click.option("--theta", type=float, help="Minimum concreteness of a noun; default: 0.6.")
@concreteness
@options.workers
def components(run: Path, **given: Any) -> None:
    """Extract the objects, attributes and relations of every caption.

    Writes the table components, and two tables from which UniVSE samples negative components: component_vocabulary, and
    component_exclusions, with the components that may be true of each image.

    \b
    Example: negcap components outputs/mine --simple
    """
    from ..report.summary import component_lines

    _make("components", run, given)
    print("\n".join(component_lines(run)))


@negcap.command()
@options.run
@truth_sample
@lexicon_choice
@cloze
@options.workers
def truth(run: Path, **given: Any) -> None:
    """Estimate which replacements are true although no caption says so.

    Writes the table truth: how often, where one caption of an image says one thing, another one says another, and how
    probable that makes a replacement. Only train splits are read, if there are any.

    \b
    Example: negcap truth outputs/mine
    """
    _make("truth", run, given)


@negcap.command()
@options.run
@balance_sample
@max_true
@lexicon_choice
@cloze
@options.workers
def balance(run: Path, **given: Any) -> None:
    """Weight replacements so that no word is typical of negatives.

    A word that edits insert more often than they remove it (or the reverse) tells which caption is true. Writes the
    table balance: weights fitted on a sample of the captions (of train splits, if there are any).

    \b
    Example: negcap balance outputs/mine --sample 40000 --overwrite
    """
    _make("balance", run, given)


@negcap.command()
@options.run
@choosing
@max_true
@min_plausibility
@max_loss
@cloze
@scorer
@options.strict
@options.workers
def negatives(run: Path, **given: Any) -> int:
    """Make the negatives of the parsed captions.

    Writes the tables negatives, positives (true texts, as controls) and rejections (every rejected candidate, with the
    reason), and prints coverage, yield, rejections and examples. To change settings give --overwrite; other tables are
    kept.

    \b
    Example: negcap negatives outputs/mine --preset all --seed 1 --overwrite
    """
    from ..report.summary import print_summary

    timings = _make("negatives", run, given)
    with one_line_errors():
        print_summary(run, timings, sys.stdout)
        return _status(run, given)


def _status(run: Path, given: dict[str, Any]) -> int:
    """The exit status of a command that made a run's negatives: with --strict CHECK_FAILED if an operator failed."""
    from ..report.summary import operator_errors

    failed = operator_errors(run)
    if failed:
        warn([f"operators failed on captions, {failed:,} in all: negcap show {run} --reason operator_error lists them"])
    return CHECK_FAILED if failed and given["strict"] else 0


def _make(verb: str, run: Path, given: dict[str, Any]) -> Any:
    """Run the step of a command on a run with these flags; returns its timings."""
    from ..report.statistics import write_page
    from ..stages import build as verbs

    with with_workers(given) as (executor, progress):
        overwrite = given.pop("overwrite")
        verbs.make(verb, run, verbs.configure(verb, given), executor, progress, overwrite)
        write_page(run)
        return progress.timings
