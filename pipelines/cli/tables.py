"""Verbs that make a run's tables, from captions to negatives."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from negcap.pipelines.cli import options
from negcap.pipelines.cli.group import at_work, negcap, one_line_errors, warn
from negcap.pipelines.cli.options import Names

concreteness = click.option(
    "--concreteness", metavar="FILE", help="Norm list (word, tab, score) instead of the shipped score."
)
reading = options.together(
    click.option("--format", help="coco, karpathy, flickr, multi30k, vsepp or table; default: told from the content."),
    click.option("--image-column", help="Column of the image in a CSV, TSV, JSONL or Parquet table."),
    click.option("--caption-column", help="Column of the caption in such a table."),
    click.option("--split-column", help="Column of the split in such a table, if it has one."),
    click.option("--language", help="ISO 639-1 code of the captions; default: en."),
    click.option("--source-name", help="First part of every caption_id; default: the format."),
    options.limit,
    click.option("--shard-size", type=int, help="Captions a shard, at most, of whole images; default: 1000."),
    click.option("--strict", is_flag=True, default=None, help="Stop at the first bad record instead of rejecting it."),
)
counting = options.together(
    click.option("--min-count", type=int, help="Occurrences that make a noun a replacement; default: by corpus size."),
    click.option("--theta", type=float, help="Least concreteness of a replacement noun; default: 0.6."),
    click.option("--attributes", metavar="FILE", help="The attributes to use, one a line; default: the frequent ones."),
    concreteness,
)
lexicon_choice = click.option(
    "--lexicon",
    metavar="own|reference|RUN",
    help="Where replacements come from: own counts these captions, reference is the one shipped with negcap, RUN takes "
    "that of another run. Default: own, but the reference for fewer than 5,000 captions.",
)
simple = click.option(
    "--simple", is_flag=True, default=None, help="As UniVSE trains: names of one word, a thing's first attribute only."
)
truth_sample = click.option("--truth-sample", type=int, help="Captions that truth is estimated on; default: 15000.")
max_true = click.option("--max-true", type=float, help="Most that a negative may be likely true; default: 0.025.")
balance_sample = click.option("--sample", type=int, help="Captions that the balance is fitted on; default: 10000.")
choosing = options.together(
    click.option("--preset", help="The operators of a paper: vse-c or univse; or all. Default: vse-c."),
    click.option("--operators", type=Names(), help="Operators to run, e.g. noun,shuffle, instead of a preset."),
    click.option("--per-family", type=int, help="Negatives a caption and family, at most; default: 20."),
    options.seed,
)


@negcap.command()
@click.argument("captions", required=False)
@options.output
@reading
@options.spacy_model
@counting
@lexicon_choice
@click.option("--components", is_flag=True, help="Make the tables of components, too.")
@simple
@truth_sample
@max_true
@balance_sample
@choosing
@options.workers
def build(captions: str | None, run: Path, overwrite: bool, **given: Any) -> None:
    """Everything: from a caption file, folder or URL to negatives.

    Ingest, parse, lexicon, truth, balance, negatives, and a table of what came out; components too for --preset univse
    or all. What is done already is kept: after an interruption, the same command again goes on. Without CAPTIONS, of
    those that RUN holds.
    """
    from negcap.pipelines.stages import build as verbs
    from negcap.pipelines.tables.summary import print_summary

    with at_work(given) as (executor, progress):
        warn(verbs.build(captions, run, given, executor, progress, overwrite))
        print_summary(run, progress.timings, sys.stdout)


@negcap.command()
@click.argument("captions")
@options.output
@reading
@options.overwrite
@options.quiet
def ingest(captions: str, run: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Read captions of any known format into the table captions.

    Formats: COCO annotation JSON, Karpathy dataset JSON, Flickr token files, Multi30K folders, VSE++ caption files,
    and CSV, TSV, JSONL or Parquet tables; plain or compressed, local or by URL. Bad records go to rejected_records.
    """
    from negcap.pipelines.engine.progress import report
    from negcap.pipelines.stages import build as verbs
    from negcap.pipelines.tables.summary import opening

    with one_line_errors():
        config = verbs.configure("ingest", given)
        warn(verbs.ingest(captions, run, config, report(quiet), overwrite).warnings)
        print("\n".join(opening(run)[:1]))


@negcap.command()
@options.run
@options.spacy_model
@options.workers
def parse(run: Path, **given: Any) -> None:
    """Parse the captions once, for all later verbs."""
    _make("parse", run, given)


@negcap.command()
@options.run
@counting
@lexicon_choice
@options.workers
def lexicon(run: Path, **given: Any) -> None:
    """Count what the corpus says, and where.

    The counts decide which replacements it allows in which place.
    """
    from negcap.pipelines.tables.summary import opening

    _make("lexicon", run, given)
    print("\n".join(opening(run)[-1:]))


@negcap.command()
@options.run
@simple
@click.option("--min-count", type=int, help="Occurrences that make a word frequent; default: by corpus size.")
@click.option("--theta", type=float, help="Least concreteness of a noun; default: 0.6.")
@concreteness
@options.workers
def components(run: Path, **given: Any) -> None:
    """Read objects, attributes and relations off the parses.

    Also what may stand for them as negative components: a vocabulary, and what may be true of each image.
    """
    from negcap.pipelines.tables.summary import reading

    _make("components", run, given)
    print("\n".join(reading(run)))


@negcap.command()
@click.argument("caption")
@simple
@options.spacy_model
@click.option("--dot", is_flag=True, help="As Graphviz source instead.")
def graph(caption: str, simple: bool | None, spacy_model: str | None, dot: bool) -> None:
    """Print the scene graph of a sentence."""
    from negcap.pipelines.tables.graph import print_graph

    with one_line_errors():
        print_graph(caption, sys.stdout, simple=bool(simple), spacy_model=spacy_model, dot=dot)


@negcap.command()
@options.run
@truth_sample
@lexicon_choice
@options.workers
def truth(run: Path, **given: Any) -> None:
    """Estimate what is true though no caption says so.

    Of every replacement, whether the image shows it all the same: from how often captions of one image say this and
    that, calibrated on captions held out of other images; of train splits where there are any.
    """
    _make("truth", run, given)


@negcap.command()
@options.run
@balance_sample
@max_true
@lexicon_choice
@options.workers
def balance(run: Path, **given: Any) -> None:
    """Weigh the replacements so that no word tells.

    A word that leaves captions more often than it enters them tells a reader which caption is true. The weights are
    fitted on a sample of the captions, of train splits where there are any.
    """
    _make("balance", run, given)


@negcap.command()
@options.run
@choosing
@max_true
@options.workers
def negatives(run: Path, **given: Any) -> None:
    """Make negatives of the parsed captions with the lexicon.

    Every candidate that was refused goes to rejections, with its reason.
    """
    from negcap.pipelines.tables.summary import print_summary

    timings = _make("negatives", run, given)
    with one_line_errors():
        print_summary(run, timings, sys.stdout)


def _make(verb: str, run: Path, given: dict[str, Any]) -> Any:
    """One verb on a run; the timings."""
    from negcap.pipelines.stages import build as verbs

    with at_work(given) as (executor, progress):
        overwrite = given.pop("overwrite")
        if verb in verbs.LEARNED:
            given["lexicon"] = verbs.choose_lexicon(given, verbs.count_captions(run))
        verbs.make(verb, run, verbs.configure(verb, given), executor, progress, overwrite)
        return progress.timings
