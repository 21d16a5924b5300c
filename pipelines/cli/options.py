"""Flags: made from the fields of configs, or shared by several commands; those of a single command are with it.

A flag has the name of the config field that it sets. Its default is in the config: a flag that is not given sets
nothing. A flag with several values is repeated: `--split test --split val`; `--split test,val` is accepted, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, get_origin

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from pydantic.fields import FieldInfo


FlagValue: TypeAlias = Any  # what a command gets of a flag: a text, number, path …; None if it is not given
Callback: TypeAlias = Callable[..., FlagValue]  # the function of a command
Decorator: TypeAlias = Callable[[Callback], Callback]
# The valid words of a flag, or what finds them when they are needed: finding them may import a library.
Words: TypeAlias = Sequence[str] | Callable[[], Sequence[str]]


def operator_words() -> Sequence[str]:
    """The operators that help and messages list. The operators of papers are valid too, but only presets name them."""
    from ...augment.operators import LISTED

    return LISTED


def operator_or_change_words() -> Sequence[str]:
    """The names of operators, and of the changes that are recognised in negatives that others wrote."""
    from ...augment.recovery import FAMILIES_OF

    return tuple(dict.fromkeys([*operator_words(), *FAMILIES_OF]))


def unlisted_words(words: Words) -> Sequence[str]:
    """The words that are accepted but left out of help and messages: for the two lists of operators, the operators that
    imitate a paper's script, such as uniform_noun; for all other lists none.
    """
    if words not in (operator_words, operator_or_change_words):
        return ()
    from ...augment.operators import UNCHECKED  # these operators: as papers' scripts, they do not check negatives

    return UNCHECKED


def family_words() -> Sequence[str]:
    """The families of operators."""
    from ...schemas.negatives import FAMILIES

    return FAMILIES


def reason_words() -> Sequence[str]:
    """The reasons of rejections."""
    from ...schemas.negatives import REASONS

    return tuple(REASONS)


# Valid words, written out so that help and completion need no imports; a test compares them with the library's.
STAGES = ("ingest", "parse", "lexicon", "components", "truth", "balance", "negatives")
PUBLISHED = (
    *("sugarcrepe", "sugarcrepe++", "aro", "negclip", "vse-c", "webdataset", "huggingface", "snli", "coco"),
    *("clip_benchmark", "lmms-eval", "negbench", "valse"),
)
PHASES = ("mle", "gan")
PROBES = ("words", "blanks", "saliency", "pictures", "lengths")
# Valid words of fields whose types do not have them, as their list is made when the library is imported.
WORDS: dict[str, Words] = {
    "operators": operator_or_change_words,
    "negative_families": family_words,
    "negative_operators": operator_words,
    "format": PUBLISHED,
}
# Flags of fields with several values that are not the field's name without its last letter, an s.
FLAGS = {
    "keep_columns": "--keep-columns",
    "negative_families": "--negative-family",
    "negative_operators": "--negative-operator",
    "similarities": "--similarity",
    "false_pairs": "--false-pairs",
}
# A flag with more valid words does not list them in help; the error for another word does.
LISTED = 12


class Choice(click.Choice):
    """A parameter type with a list of valid words. The error for any other lists them and the most similar one."""

    def __init__(self, words: Words, word_for_none: str = "") -> None:
        """words: the valid ones, or a function that is called when they are needed. word_for_none: another valid word,
        such as "none", that stands for no value; "": there is no such word.
        """
        # click.Choice.__init__ would set this, but is not called: it needs the words at once.
        self.case_sensitive = True
        self._words = words
        self._word_for_none = word_for_none

    @property
    def choices(self) -> Sequence[str]:  # type: ignore[override]
        """The words that are listed."""
        words = self._words() if callable(self._words) else self._words
        return (*words, self._word_for_none) if self._word_for_none else words

    @property
    def metavar(self) -> str:
        """The words, if they are few and known without calling a function, else `NAME`."""
        few = not callable(self._words) and len(self._words) <= LISTED
        return f"[{'|'.join(self.choices)}]" if few else "NAME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return a valid word; raise UsageError otherwise: `--phase must be one of mle, gan, was: mla; did …`."""
        from ...schemas.messages import word

        try:
            name = param.opts[0] if param is not None else "value"
            return word(name, str(value), self.choices, unlisted_words(self._words))
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from None


def one_of(flag: str, choices: Words, help: str, **more: FlagValue) -> Decorator:
    """A flag whose value must be one of `choices`; `more` goes to click.option."""
    return click.option(flag, type=Choice(choices), help=help, **more)


def columns(roles: Sequence[str], help: str, *, repeated: Sequence[str] = ()) -> Decorator:
    """The flag --columns: `image=photo,caption=text` are the arguments image_column="photo", caption_column=("text",).

    Args:
        roles: what columns can be for.
        help: of the flag.
        repeated: those of `roles` that may have several columns; their arguments are tuples.
    """

    def collect(ctx: click.Context, flag: click.Parameter, values: tuple[str, ...]) -> None:
        """Set the argument of each role that the flag names: `image=photo` sets image_column to "photo".

        Raises UsageError for what is no role=name, and for several columns of a role that may have only one.
        """
        names: dict[str, list[str]] = {}  # of the columns of each role
        for part in ",".join(values).split(",") if values else ():
            role, _, name = part.partition("=")
            if role not in roles or not name:
                raise click.UsageError(f"--columns must be {'|'.join(roles)}=NAME between commas, was: {part}", ctx)
            names.setdefault(role, []).append(name)
        for role, given in names.items():
            if role in repeated:
                ctx.params[f"{role}_column"] = tuple(dict.fromkeys(given))
                continue
            if len(given) > 1:
                rule = f"only {' and '.join(repeated)} may be of several columns" if repeated else "give one"
                raise click.UsageError(f"--columns {role} must be one column, were: {', '.join(given)}; {rule}", ctx)
            ctx.params[f"{role}_column"] = given[0]

    return click.option(
        "--columns", multiple=True, expose_value=False, callback=collect, metavar="ROLE=NAME", help=help
    )


def several(
    flag: str, field: str, help: str, *, choices: Words = (), word_for_none: str = "", **more: FlagValue
) -> Decorator:
    """A flag that may be repeated: a tuple as argument `field`, or None if not given.

    Args:
        flag: its name, such as --split.
        field: the argument of the command.
        help: its help, without a hint that it may be repeated.
        choices: the valid words; all words if empty.
        word_for_none: another valid word, which stands for an empty tuple; "": there is no such word.
        **more: goes to click.option.
    """
    words = Choice(choices, word_for_none) if choices else None

    def collect(ctx: click.Context, flag: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...] | None:
        """The names in all values of the flag, each once; None if it was not given. Raises UsageError."""
        names = [name.strip() for value in values for name in value.split(",")]
        if not all(names):  # an extra comma: more likely a name was forgotten
            raise click.UsageError(f"{flag.opts[0]} must be names between commas, was: {','.join(values)}", ctx)
        if words is not None:
            names = [words.convert(name, flag, ctx) for name in names]
        if word_for_none in names and len(names) > 1:
            raise click.UsageError(f"{flag.opts[0]} {word_for_none} must stand alone, was: {','.join(names)}", ctx)
        return () if names == [word_for_none] else tuple(dict.fromkeys(names)) or None

    def complete(ctx: click.Context, flag: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """What the shell offers when a user presses Tab after the flag."""
        return words.shell_complete(ctx, flag, incomplete) if words is not None else []

    metavar = "NAME" if words is None else words.metavar
    repeated = f"{help} May be repeated."
    return click.option(
        flag, field, multiple=True, callback=collect, shell_complete=complete, metavar=metavar, help=repeated, **more
    )


def section(heading: str, *options: Decorator) -> Decorator:
    """One decorator that adds several flags to a command, listed in its help under a heading of their own."""

    def decorate(command: Callback) -> Callback:
        """Add the options to a command, and note their heading."""
        # click collects the options of a function in this list until the command is made.
        before = len(getattr(command, "__click_params__", ()))
        for option in reversed(options):  # as decorators are applied, the last first
            option(command)
        for parameter in command.__click_params__[before:]:  # type: ignore[attr-defined]
            parameter.section = heading
        return command

    return decorate


def sets(command: str | None, fields: Mapping[str, FieldInfo]) -> click.Option:
    """The flag --set NAME=VALUE of a command, for these fields. Help lists those without a flag; values are texts."""
    from ...schemas.messages import no_setting

    def collect(ctx: click.Context, flag: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
        """The text given for each setting, by its name. Raises UsageError for no setting, or one given twice."""
        for value in values:
            if "=" not in value:
                raise click.UsageError(f"--set must be NAME=VALUE, was: {value}", ctx)
        texts: dict[str, str] = {}
        for name, _, text in (value.partition("=") for value in values):
            name = name.strip().replace("-", "_")
            if name not in fields:
                raise click.UsageError(no_setting(name, f"negcap {command}", fields), ctx)
            if name in texts:
                raise click.UsageError(f"--set {name} takes one value, was given twice: {texts[name]}, {text}", ctx)
            texts[name] = text
        return texts

    help = "Any setting, also one listed below. May be repeated."
    return click.Option(["--set", "settings"], multiple=True, callback=collect, metavar="NAME=VALUE", help=help)


def from_field(
    name: str, field: FieldInfo, *, of_models: Mapping[str, Mapping[str, FlagValue]] = MappingProxyType({})
) -> click.Option:
    """The flag of a config's field, whose type, help and default it states.

    Args:
        name: of the field.
        field: a field with a description.
        of_models: by model, its own defaults: {"vse-c": {"margin": 0.2}}; help shows them beside that of the field.
    """
    from ...augment.settings import plain_type, words_of

    kind = plain_type(field.annotation)
    words = tuple(words_of(field.annotation)) or WORDS.get(name, ())
    flag = FLAGS.get(name) or f"--{name.replace('_', '-')}"
    help = _help_with_default(name, field, of_models)
    if get_origin(kind) is tuple:
        singular = flag if name in FLAGS else flag.removesuffix("s")
        option = several(singular, name, help, choices=words, word_for_none="none")
    elif words:
        option = one_of(flag, words, help)
    elif kind is bool:
        # A switch away from the default: --refined, --no-browser. Not given it is None, and sets nothing.
        negative = flag if flag.startswith("--no-") else f"--no-{flag[2:]}"
        switch = negative if field.default else flag
        option = click.option(switch, name, flag_value=not field.default, is_flag=True, default=None, help=help)
    else:
        metavars = {int: "N", float: "NUMBER", Path: "PATH", str: "NAME"}
        option = click.option(flag, name, type=FOLDER if kind is Path else kind, metavar=metavars[kind], help=help)

    def command() -> None: ...

    # click's decorator leaves the option in an attribute of the function, from which it is taken.
    (parameter,) = vars(option(command))["__click_params__"]
    return parameter


def _help_with_default(name: str, field: FieldInfo, of_models: Mapping[str, Mapping[str, FlagValue]]) -> str:
    """The description of a field as help, with its default and those of single models."""
    defaults = []
    is_plain = isinstance(field.default, (int, float, str, tuple)) and not isinstance(field.default, bool)
    if is_plain and field.default not in ("", ()):
        defaults.append(_shorten_default(field.default))
    defaults += [f"{model} {as_text(settings[name])}" for model, settings in of_models.items() if name in settings]
    text = field.description or ""
    if not field.default:  # "none: all" in the description of an optional field is what happens without the flag
        text = text.replace("; none: ", "; default: ")
    if defaults:
        # A tuple is shown as "train,val": here a space follows every comma, also those between the defaults.
        listed = ", ".join(defaults).replace(",", ", ").replace(",  ", ", ")
        text += f"; default: {listed}"
    return f"{text[:1].upper()}{text[1:]}."


def _shorten_default(value: object) -> str:
    """A default as help shows it: `uniform_*` in place of the operators of papers, which have those names."""
    if not isinstance(value, tuple):
        return as_text(value)
    names = [name for name in value if not str(name).startswith("uniform_")]
    return as_text((*names, "uniform_*") if len(names) < len(value) else value)


def as_text(value: object) -> str:
    """A value of a setting as --set takes it: `cosine`, `noun,numeral`, `true`, `none`."""
    if isinstance(value, (tuple, list)):
        return ",".join(map(as_text, value)) or "none"
    return {"None": "none", "True": "true", "False": "false"}.get(str(value), str(value))


class Location(click.Path):
    """A path or URL as Path, on any store. local: only on a disk, where URLs except file:// would become folders."""

    def __init__(self, local: bool) -> None:
        super().__init__()
        self.local = local

    def convert(self, value: FlagValue, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path that a user gave for a flag or argument, on a local disk if `local`; else raises UsageError."""
        from ..engine.places import local_path, place

        try:
            given = os.fsdecode(super().convert(value, param, ctx))
            flag = param.opts[0] if param is not None else "path"
            return local_path(given, flag) if self.local else place(given, flag)
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from None


FOLDER = Location(local=True)
PLACE = Location(local=False)


def no_file(ctx: click.Context, parameter: click.Parameter, path: Path) -> Path:
    """Return the path that a user gave for a folder; raise UsageError if it is a file. A callback of click."""
    if isinstance(path, Path) and path.is_file():
        if isinstance(parameter, click.Option):
            raise click.UsageError(f"{path}: the output must be a folder, is a file", ctx)
        help_line = f"if it has captions, negcap build {path} --output RUN makes a run of them"
        raise click.UsageError(f"{path}: a run must be a folder, is a file; {help_line}", ctx)
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

overwrite = click.option("--overwrite", is_flag=True, help="Replace what was made with other settings or input.")
quiet = click.option("--quiet", is_flag=True, help="Show no progress on stderr.")
workers = section(
    "How it runs",
    click.option(
        "--workers", type=int, help="Number of worker processes; default: one per core, or none for a single shard."
    ),
    click.option(
        "--scheduler",
        metavar="WHERE",
        help="Dask cluster to use: tcp://host:port, a scheduler file, or module:function that returns a cluster; "
        "synchronous: this process alone, without Dask.",
    ),
    overwrite,
    quiet,
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
refined = click.option("--refined", "table", flag_value="refined", help="Only negatives that negcap refine kept.")
operators = several(
    "--operator", "operators", "Only this operator, e.g. noun; default: all.", choices=WORDS["operators"]
)
splits = several("--split", "splits", "Only this split, e.g. test; default: all.")
seed = click.option("--seed", type=int, help="Seed of all random choices: equal seeds give equal rows; default: 0.")


def folder(what: str, *, required: bool = True, metavar: str = "DIR") -> Decorator:
    """The flag --output: a folder on a local disk."""
    return click.option("--output", type=FOLDER, required=required, metavar=metavar, help=what)
