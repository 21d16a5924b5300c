"""The flags that verbs of several modules of negcap.pipelines.cli take alike.

A verb's own flags stand at its command there; those that several verbs of one module take, at the head of the module.

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
    """Comma-separated names: `noun,shuffle`; `empty` stands for no name at all."""

    name = "a,b"

    def __init__(self, empty: str | None = None) -> None:
        self.empty = empty

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names as a tuple; an empty one is an error."""
        names = tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else tuple(value)
        if names == (self.empty,):
            return ()
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


def only_set(given: dict[str, Any]) -> dict[str, Any]:
    """The flags that were given, by the fields that they set."""
    return {name: value for name, value in given.items() if value is not None}


FOLDER = click.Path(path_type=Path)

run = click.argument("run", type=FOLDER)
model = click.argument("model", type=FOLDER)
output = click.option("--output", "run", type=FOLDER, required=True, metavar="RUN", help="Folder of the run.")

seed = click.option("--seed", type=int, help="Another seed, another choice; default: 0.")
limit = click.option("--limit", type=int, help="Only the first N images.")
overwrite = click.option("--overwrite", is_flag=True, help="Replace tables made with another config or input.")
quiet = click.option("--quiet", is_flag=True, help="No progress on stderr.")
workers = together(
    click.option("--workers", type=int, help="Worker processes; default: one a core."),
    click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, tcp://host:port; or synchronous."),
    overwrite,
    quiet,
)
spacy_model = click.option(
    "--spacy-model", help="An installed spaCy pipeline or its folder; default: the shipped parser."
)

# of a model: where it runs, what it is trained on, where it is measured
device = together(
    click.option("--device", help="auto, cpu or cuda; default: auto."),
    click.option("--threads", type=int, help="Of the CPU; default: one a core."),
)
train_splits = click.option("--train-split", "train_splits", type=Names(), help="To train on; default: train,restval.")
validation_images = click.option(
    "--validation-images", type=int, help="Held out where there is no such split; default: 500."
)
transform = click.option("--transform", help="Of the image features: root (then length 1) or none; default: root.")
min_count = click.option(
    "--min-count", type=int, help="Occurrences in the train captions that make a word; default: 4."
)
evaluation = click.option(
    "--output", type=FOLDER, metavar="DIR", help="Where the tables go; default: MODEL/evaluation."
)
limit_of_split = click.option("--limit", type=int, help="Only the first N images of the split.")
