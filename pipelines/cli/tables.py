"""Verbs that make a run's tables, from captions to negatives."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from pipelines import options
from pipelines.cli.group import at_work, negcap, one_line_errors, warn


@negcap.command()
@click.argument("captions", required=False)
@options.output
@options.ingest
@options.parse
@options.lexicon
@options.with_components
@options.components
@options.truth
@options.max_true
@options.balance
@options.negatives
@options.workers
def build(captions: str | None, run: Path, overwrite: bool, **given: Any) -> None:
    """Everything: from a caption file, folder or URL to negatives.

    Ingest, parse, lexicon, truth, balance, negatives, and a table of what came out; components too for --preset univse
    or all. What is done already is kept: after an interruption, the same command again goes on. Without CAPTIONS, of
    those that RUN holds.
    """
    from pipelines import build as verbs
    from pipelines.engine.shards import list_shards
    from pipelines.summary import print_summary

    with at_work(given) as (executor, progress):
        configs = {verb: verbs.configure(verb, given) for verb in verbs.planned(run, given)}
        if captions is None and not list_shards(run / "captions"):
            raise ValueError(f"CAPTIONS must be given: {run} holds none")
        if not verbs.is_built(run):
            executor.start()
        if captions is not None:
            warn(verbs.ingest(captions, run, configs["ingest"], progress, overwrite).warnings)
        for verb, config in configs.items():
            if verb != "ingest":
                verbs.make(verb, run, config, executor, progress, overwrite)
        print_summary(run, progress.timings, sys.stdout)


@negcap.command()
@click.argument("captions")
@options.output
@options.ingest
@options.overwrite
@options.quiet
def ingest(captions: str, run: Path, overwrite: bool, quiet: bool, **given: Any) -> None:
    """Read captions of any known format into the table captions.

    Formats: COCO annotation JSON, Karpathy dataset JSON, Flickr token files, Multi30K folders, VSE++ caption files,
    and CSV, TSV, JSONL or Parquet tables; plain or compressed, local or by URL. Bad records go to rejected_records.
    """
    from pipelines import build as verbs
    from pipelines.progress import report
    from pipelines.summary import opening

    with one_line_errors():
        config = verbs.configure("ingest", given)
        warn(verbs.ingest(captions, run, config, report(quiet), overwrite).warnings)
        print("\n".join(opening(run)[:1]))


@negcap.command()
@options.run
@options.parse
@options.workers
def parse(run: Path, **given: Any) -> None:
    """Parse the captions once, for all later verbs."""
    _make("parse", run, given)


@negcap.command()
@options.run
@options.lexicon
@options.workers
def lexicon(run: Path, **given: Any) -> None:
    """Count what the corpus says, and where.

    The counts decide which replacements it allows in which place.
    """
    from pipelines.summary import opening

    _make("lexicon", run, given)
    print("\n".join(opening(run)[-1:]))


@negcap.command()
@options.run
@options.components
@options.frequent
@options.workers
def components(run: Path, **given: Any) -> None:
    """Read objects, attributes and relations off the parses.

    Also what may stand for them as negative components: a vocabulary, and what may be true of each image.
    """
    from pipelines.summary import reading

    _make("components", run, given)
    print("\n".join(reading(run)))


@negcap.command()
@click.argument("caption")
@options.components
@options.parse
@click.option("--dot", is_flag=True, help="As Graphviz source instead.")
def graph(caption: str, simple: bool | None, spacy_model: str | None, dot: bool) -> None:
    """Print the scene graph of a sentence."""
    from pipelines.quality.graph import print_graph

    with one_line_errors():
        print_graph(caption, sys.stdout, simple=bool(simple), spacy_model=spacy_model, dot=dot)


@negcap.command()
@options.run
@options.truth
@options.workers
def truth(run: Path, **given: Any) -> None:
    """Estimate what is true though no caption says so.

    Of every replacement, whether the image shows it all the same: from how often captions of one image say this and
    that, calibrated on captions held out of other images; of train splits where there are any.
    """
    _make("truth", run, given)


@negcap.command()
@options.run
@options.balance
@options.max_true
@options.workers
def balance(run: Path, **given: Any) -> None:
    """Weigh the replacements so that no word tells.

    A word that leaves captions more often than it enters them tells a reader which caption is true. The weights are
    fitted on a sample of the captions, of train splits where there are any.
    """
    _make("balance", run, given)


@negcap.command()
@options.run
@options.negatives
@options.max_true
@options.workers
def negatives(run: Path, **given: Any) -> None:
    """Make negatives of the parsed captions with the lexicon.

    Every candidate that was refused goes to rejections, with its reason.
    """
    from pipelines.summary import print_summary

    timings = _make("negatives", run, given)
    with one_line_errors():
        print_summary(run, timings, sys.stdout)


def _make(verb: str, run: Path, given: dict[str, Any]) -> Any:
    """One verb on a run; the timings."""
    from pipelines import build as verbs

    with at_work(given) as (executor, progress):
        overwrite = given.pop("overwrite")
        verbs.make(verb, run, verbs.configure(verb, given), executor, progress, overwrite)
        return progress.timings
