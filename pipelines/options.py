"""The flags of the command line, each defined once and shared by the verbs that know it.

A flag is named as the field of the config it sets. Its default stands in the config: a flag that is not given sets
nothing. What may be chosen from (formats, operators) is checked by the configs, which list the valid names.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Names(click.ParamType):
    """Comma-separated names: `noun,shuffle`."""

    name = "a,b"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names as a tuple; an empty one is an error."""
        names = tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else tuple(value)
        if not all(names):
            self.fail(f"must be names between commas, was: {value}", param, ctx)
        return names


def together(*options: Decorator) -> Decorator:
    """Several flags as one decorator, shown in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


FOLDER = click.Path(path_type=Path)

run = click.argument("run", type=FOLDER)
output = click.option("--output", "run", type=FOLDER, required=True, metavar="RUN", help="Folder of the run.")

ingest = together(
    click.option("--format", help="coco, karpathy, flickr, multi30k, vsepp or table; default: told from the content."),
    click.option("--image-column", help="Column of the image in a CSV, TSV, JSONL or Parquet table."),
    click.option("--caption-column", help="Column of the caption in such a table."),
    click.option("--split-column", help="Column of the split in such a table, if it has one."),
    click.option("--language", help="ISO 639-1 code of the captions; default: en."),
    click.option("--source-name", help="First part of every caption_id; default: the format."),
    click.option("--limit", type=int, help="Only the first N images."),
    click.option("--shard-size", type=int, help="Captions a shard, at most, of whole images; default: 2500."),
    click.option("--strict", is_flag=True, default=None, help="Stop at the first bad record instead of rejecting it."),
)
parse = click.option("--spacy-model", help="An installed spaCy pipeline or its folder; default: the shipped parser.")
lexicon = together(
    click.option("--min-count", type=int, help="Occurrences that make a noun a replacement; default: by corpus size."),
    click.option("--theta", type=float, help="Least concreteness of a replacement noun; default: 0.6."),
    click.option("--concreteness", metavar="FILE", help="Norm list (word, tab, score) instead of the shipped score."),
)
seed = click.option("--seed", type=int, help="Another seed, another choice; default: 0.")
negatives = together(
    click.option("--operators", type=Names(), help="Operators to run, e.g. noun,shuffle; default: all."),
    click.option("--per-family", type=int, help="Negatives a caption and family, at most; default: 20."),
    seed,
)
blind = together(
    click.option("--operators", type=Names(), help="Only these operators; default: all."),
    click.option("--split", "splits", multiple=True, help="Only rows of this split; may be repeated."),
    click.option("--refined", "table", flag_value="refined", help="Measure what negcap refine kept."),
    click.option("--pick", help="Which negative of a caption: first (the fair draw) or random; default: first."),
    click.option("--limit", type=int, help="Pairs an operator at most, of random images; default: 100000."),
    click.option("--json", "as_json", is_flag=True, help="Everything as JSON, intervals and cues included."),
    seed,
)
refine = together(
    click.option("--operators", type=Names(), help="Only these operators; default: all."),
    click.option("--splits", type=Names(), help="Only rows of these splits; default: all."),
    click.option("--candidates", type=int, help="Draws of a caption and operator to choose from; default: 10."),
    click.option("--rounds", type=int, help="How often the blind models are fitted again, at most; default: 8."),
    seed,
)
quiet = click.option("--quiet", is_flag=True, help="No progress on stderr.")
overwrite = click.option("--overwrite", is_flag=True, help="Replace tables made with another config or input.")
workers = together(
    click.option("--workers", type=int, help="Worker processes; default: one a core."),
    click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, tcp://host:port; or synchronous."),
    overwrite,
    quiet,
)
