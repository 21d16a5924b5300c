"""Flags that commands in several modules of negcap.pipelines.cli share.

The flags of a single command are at its definition; those of several commands in one module, at the top of the module.

A flag has the name of the config field that it sets. Its default is in the config: a flag that is not given sets
nothing. A flag with several values is repeated: `--split test --split val`; `--split test,val` is accepted, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, get_origin

import click

from ...augment.settings import word
from .choices import DEVICES, OPERATORS, RECOVERED, Choice

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

T = TypeVar("T")
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
LISTED = 12  # a flag with more valid words does not list them in help; the error for another word does


def one_of(flag: str, choices: Sequence[str], help: str, **more: Any) -> Decorator:
    """A flag whose value must be one of `choices`; `more` goes to click.option."""
    return click.option(flag, type=Choice(choices), help=help, **more)


def several(flag: str, field: str, help: str, *, choices: Sequence[str] = (), empty: str = "") -> Decorator:
    """A flag that may be repeated; the command gets a tuple as argument `field`, or None if the flag is not given.

    choices: the valid words; empty: any name is valid. empty: another word, which stands for an empty tuple.
    """
    words = Choice([*choices, *filter(None, [empty])]) if choices else None

    def collect(ctx: click.Context, flag: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...] | None:
        names = [name.strip() for value in values for name in value.split(",")]
        if not all(names):
            raise click.UsageError(f"{flag.opts[0]} must be names between commas, was: {','.join(values)}", ctx)
        if words is not None:
            names = [words.convert(name, flag, ctx) for name in names]
        if empty in names and len(names) > 1:
            raise click.UsageError(f"{flag.opts[0]} {empty} must stand alone, was: {','.join(names)}", ctx)
        return () if names == [empty] else tuple(dict.fromkeys(names)) or None

    def complete(ctx: click.Context, flag: click.Parameter, incomplete: str) -> list[Any]:
        return words.shell_complete(ctx, flag, incomplete) if words is not None else []

    metavar = f"[{'|'.join(words.choices)}]" if words is not None and len(words.choices) <= LISTED else "NAME"
    repeated = f"{help} May be repeated."
    return click.option(
        flag, field, multiple=True, callback=collect, shell_complete=complete, metavar=metavar, help=repeated
    )


def together(*options: Decorator) -> Decorator:
    """Several flags as one decorator; help shows them in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def section(heading: str, *options: Decorator) -> Decorator:
    """Several flags as one decorator, which help lists under a heading of their own."""
    flags = together(*options)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        before = len(getattr(command, "__click_params__", ()))
        flags(command)
        for parameter in command.__click_params__[before:]:  # type: ignore[attr-defined]
            parameter.section = heading
        return command

    return decorate


def settings(known: Mapping[str, str]) -> Decorator:
    """The flag --set NAME=VALUE, for settings without a flag of their own, which help lists with their descriptions.

    known: the description of each setting by name. The command gets those that are given as arguments of their names;
    the values are texts, which the config reads (see `negcap.pipelines.engine.settings.read_texts`).
    """

    def collect(ctx: click.Context, flag: click.Parameter, values: tuple[str, ...]) -> None:
        for value in values:
            name, sign, text = value.partition("=")
            try:
                name = word("--set", name.strip().replace("-", "_"), known)
            except ValueError as error:
                raise click.UsageError(str(error), ctx) from None
            if not sign:
                raise click.UsageError(f"--set must be NAME=VALUE, was: {value}", ctx)
            ctx.params[name] = text

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        help = "A rarer setting, listed below. May be repeated."
        option = click.option(
            "--set", multiple=True, expose_value=False, callback=collect, metavar="NAME=VALUE", help=help
        )
        option(command)
        command.__click_params__[-1].listed = known  # type: ignore[attr-defined]
        return command

    return decorate


def only_set(given: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that were given (not None), by config field."""
    return {name: value for name, value in given.items() if value is not None}


def from_field(
    name: str,
    field: FieldInfo,
    flag: str = "",
    *,
    choices: Sequence[str] = (),
    of_models: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> click.Option:
    """The flag of a config's field, whose type, help and default it states.

    flag: another name than the field's. choices: the valid words, if the field's type does not have them. of_models:
    by model, its defaults of fields.
    """
    from ...augment.settings import plain_type, words_of

    kind, words = plain_type(field.annotation), tuple(choices) or tuple(words_of(field.annotation))
    flag, help = flag or f"--{name.replace('_', '-')}", _with_default(name, field, of_models)
    if get_origin(kind) is tuple:
        made = several(flag, name, help, choices=words, empty="none")
    elif words:
        made = one_of(flag, words, help)
    elif kind is bool:
        made = click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=help)
    else:
        metavars = {int: "N", float: "NUMBER", Path: "FILE", str: "NAME"}
        made = click.option(flag, name, type=FOLDER if kind is Path else kind, metavar=metavars[kind], help=help)

    def command() -> None: ...

    (option,) = vars(made(command))["__click_params__"]
    return option


def _with_default(name: str, field: FieldInfo, of_models: Mapping[str, Mapping[str, Any]]) -> str:
    """The description of a field as help, with its default and those of single models."""

    def listed(value: Any) -> str:
        return as_text(value).replace(",", ", ")

    own = {model: settings[name] for model, settings in of_models.items() if name in settings}
    known = [] if field.default is None or field.is_required() or field.default_factory else [listed(field.default)]
    known += [f"{model} {listed(value)}" for model, value in own.items()]
    text, default = field.description or "", f"; default: {', '.join(known)}" if known else ""
    return f"{text[:1].upper()}{text[1:]}{default}."


def as_text(value: Any) -> str:
    """A value of a setting as --set takes it: `cosine`, `noun,numeral`, `true`, `none`."""
    if isinstance(value, (tuple, list)):
        return ",".join(map(as_text, value)) or "none"
    return {"None": "none", "True": "true", "False": "false"}.get(str(value), str(value))


def config_of(kind: Callable[..., T], given: Mapping[str, Any]) -> T:
    """A config from the flags and settings that were given (not None). Raises ValueError as `read_texts`."""
    from ...augment.settings import read_texts

    return kind(**read_texts(kind, only_set(given)))


class LocalPath(click.Path):
    """A parameter type: a path, or a file:// URL, as Path. Other URLs are errors, since they would become folders."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; raises UsageError for the URL of something that is not on a local disk."""
        from ..engine import places

        try:
            given = os.fsdecode(super().convert(value, param, ctx))
            return self._path(places, given, param.opts[0] if param is not None else "path")
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from None

    def _path(self, places: ModuleType, given: str, what: str) -> Path:
        return places.local_path(given, what)


class Place(LocalPath):
    """A parameter type: a folder on a local disk or on any store, as a path or URL (see engine.places)."""

    def _path(self, places: ModuleType, given: str, what: str) -> Path:
        return places.place(given, what)


FOLDER, PLACE = LocalPath(), Place()


def no_file(ctx: click.Context, parameter: click.Parameter, path: Path) -> Path:
    """A callback that refuses a path of a file where a folder is asked for."""
    if isinstance(path, Path) and path.is_file():
        what = "the output" if isinstance(parameter, click.Option) else "a run"
        raise click.UsageError(f"{path}: {what} must be a folder, is a file", ctx)
    return path


run = click.argument("run", type=PLACE, callback=no_file)
model = click.argument("model", type=FOLDER)
output = click.option(
    "--output",
    "run",
    type=PLACE,
    callback=no_file,
    required=True,
    metavar="RUN",
    help="Folder of the run to write, on a disk or a store (s3://bucket/run …).",
)

seed = click.option("--seed", type=int, help="Seed of all random choices: equal seeds give equal rows; default: 0.")
limit = click.option("--limit", type=int, help="Read only the first N images; default: all.")
overwrite = click.option("--overwrite", is_flag=True, help="Replace what was made from other input or settings.")
strict = click.option(
    "--strict",
    is_flag=True,
    default=None,
    help="Stop at the first bad record instead of rejecting it; exit with status 1 if an operator failed on a caption.",
)
quiet = click.option("--quiet", is_flag=True, help="Show no progress on stderr.")
workers = section(
    "How it runs",
    click.option("--workers", type=int, help="Number of worker processes; default: one per core."),
    click.option(
        "--scheduler",
        metavar="WHERE",
        help="Dask cluster to use: tcp://host:port, a scheduler file, or module:function that returns a cluster; "
        "synchronous: use this process only, without Dask.",
    ),
    click.option("--dashboard", is_flag=True, help="Print the address of Dask's page about its workers and tasks."),
    overwrite,
    quiet,
)
spacy_model = click.option(
    "--spacy-model",
    metavar="NAME",
    help="Installed spaCy pipeline or its folder, e.g. en_core_web_sm; default: the shipped parser.",
)
operators = several(
    "--operator",
    "operators",
    "Only this operator, e.g. noun; default: all.",
    choices=tuple(dict.fromkeys(OPERATORS + RECOVERED)),
)
vetted = click.option(
    "--vetted", is_flag=True, default=None, help="Only negatives that negcap vet read and that no reader rejects."
)
splits = several("--split", "splits", "Only this split, e.g. test; default: all.")

# flags of models: the device, the training data, the evaluation
device = together(
    one_of("--device", DEVICES, "Where to compute; default: auto (a GPU where there is one)."),
    click.option("--threads", type=int, help="CPU threads; default: one per core."),
)
train_splits = several("--train-split", "train_splits", "Split to train on; default: train and restval.")
evaluation = click.option(
    "--output", type=FOLDER, metavar="DIR", help="Folder of the results; default: MODEL/evaluation."
)
limit_of_split = click.option("--limit", type=int, help="Use only the first N images of the split; default: all.")
