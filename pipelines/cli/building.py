"""The command that makes a run's tables, from captions to negatives."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from . import options
from .choices import OPERATORS, PRESETS, READ, STAGES
from .group import CHECK_FAILED, negcap, warn, with_workers

COLUMNS = ("image", "caption", "split", "id", "language")
READING = {
    "source_name": "first part of every caption_id; default: the format",
    "shard_size": "captions per Parquet file, at most, of whole images",
    "shard_mb": "MB of text per Parquet file, instead; default: 1000 captions, or up to 1 MB where there would be more "
    "than 2048 files",
    "languages": "reject captions that seem to be in another language than these (ISO 639-1)",
    "boilerplate": "true: reject file names, web addresses and stock phrases",
    "duplicates": "true: reject captions that repeat an earlier one, of any image",
    "near_duplicates": "true: reject also what differs from an earlier caption in a few letters",
}
COUNTING = {
    "simple": "true: simplify components as UniVSE does: one word per name, only the first attribute of an object",
    "min_count": "occurrences that a replacement noun needs; default: by corpus size",
    "theta": "minimum concreteness of a replacement noun; default: 0.6",
    "attributes": "file of the attributes that may come in, one per line; default: the frequent ones",
    "concreteness": "norm list (word, tab, score) to use instead of the shipped scores",
    "truth_sample": "captions from which it is estimated what is true although no caption says so; default: 15000",
    "sample": "captions on which the weights that balance words are fitted; default: 10000",
}
JUDGING = {
    "spacy_model": "installed spaCy pipeline or its folder, e.g. en_core_web_sm; default: the shipped parser",
    "lexicon": "where replacements come from: own: the counts of these captions; reference: the lexicon shipped with "
    "negcap; the folder of another run; default: own counts, plus those of the reference with the weight of 5,000 "
    "captions",
    "max_true": "reject what one more caption of the image would make true with a higher estimated probability than "
    "this, except lower numbers; default: 0.025",
    "min_plausibility": "reject negatives of a lower plausibility (log-odds to the caption, in nats); default: only "
    "the limits of each operator",
    "cloze": "file of a cloze model of your own that says which words are likely where; default: the shipped one",
    "scorer": "folder of a Hugging Face language model, causal or masked, that says how plausible negatives are; "
    "default: the cloze model does",
}
MAX_LOSS = {
    "max_loss": "reject negatives that make the other words of the caption less likely by more than this in all, in "
    "nats; default: 1 to 4, by operator; 2 leaves fewer and less odd ones",
}


def _columns(ctx: click.Context, flag: click.Parameter, values: tuple[str, ...]) -> None:
    """Give `image=photo,caption=text` to the command as `image_column="photo"` and `caption_column="text"`."""
    for part in (part for value in values for part in value.split(",")):
        role, _, name = part.partition("=")
        if role not in COLUMNS or not name:
            raise click.UsageError(f"--columns must be {'|'.join(COLUMNS)}=NAME between commas, was: {part}", ctx)
        ctx.params[f"{role}_column"] = name


@negcap.command()
@click.argument("captions", required=False)
@options.output
@options.several("--only", "only", "Make the tables of this stage only.", choices=STAGES)
@options.section(
    "What is read",
    options.one_of("--format", READ, "Format of CAPTIONS; default: recognised from the content."),
    click.option(
        "--columns",
        multiple=True,
        expose_value=False,
        callback=_columns,
        metavar="ROLE=NAME",
        help="Columns of a CSV, TSV, JSONL or Parquet table, e.g. image=photo,caption=sentence; ROLE: image, caption, "
        "split, id (identifies the images, e.g. one of URLs) or language; default: by their usual names.",
    ),
    options.several("--keep-columns", "keep_columns", "Column to keep, in the table source_columns."),
    click.option("--language", metavar="CODE", help="ISO 639-1 code of the captions' language; default: en."),
    options.limit,
    options.strict,
)
@options.section(
    "What is made",
    options.one_of(
        "--preset",
        PRESETS,
        "Operators of a paper; -paper: drawn as the paper does, unchecked; all: all that are checked; default: vse-c.",
    ),
    options.several(
        "--operator", "operators", f"Operator to run, instead of a preset: {', '.join(OPERATORS)}.", choices=OPERATORS
    ),
    click.option("--per-family", type=int, help="Negatives per caption and family, at most; default: 20."),
    click.option("--components", is_flag=True, help="Also make the tables of scene graph components."),
    options.seed,
)
@options.settings(READING | COUNTING | JUDGING | MAX_LOSS)
@options.workers
def build(captions: str | None, run: Path, only: tuple[str, ...] | None, overwrite: bool, **given: Any) -> int:
    """Make negatives of a caption file, folder or URL.

    CAPTIONS: COCO, Karpathy, Flickr, Multi30K or VSE++ files; CSV, TSV, JSONL or Parquet tables, also a folder or a
    pattern of them ('parts/*.parquet'); WebDataset tars; or a text file with one caption per line; plain or compressed,
    local or by URL. Without it, those in RUN are used.

    The stages: ingest reads the captions (bad records go to rejected_records); parse finds words, tags, dependencies
    and noun phrases; lexicon counts which words captions use, and where; components (with --components or a preset of
    UniVSE) extracts objects, attributes and relations; truth estimates what is true although no caption says so;
    balance weights replacements so that no word is typical of negatives; negatives makes negatives, positives (true
    texts, as controls) and rejections (with reasons). Then coverage, yield, rejections and examples are printed.
    Finished stages are kept: after an interruption, the same command continues.

    \b
    Example: negcap build captions.json --output outputs/mine --operator noun --operator verb
    """
    from ..report.info import write_page
    from ..report.summary import component_lines, corpus_lines, operator_errors, print_summary
    from ..stages import build as verbs

    with with_workers(given) as (executor, progress):
        made, warnings = verbs.build(captions, run, given, executor, progress, overwrite, only or ())
        warn(warnings)
        write_page(run)
        if "negatives" not in made:
            print("\n".join(component_lines(run) if "components" in made else corpus_lines(run)))
            return 0
        print_summary(run, progress.timings, sys.stdout)
        failed = operator_errors(run)
        if failed:
            listed = f"negcap show {run} --reason operator_error lists them"
            warn([f"operators failed on captions, {failed:,} in all: {listed}"])
        return CHECK_FAILED if failed and given["strict"] else 0
