"""Every field of every Settings class: default, text, help, flag; and what each kind of field refuses."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, get_origin

import click
import pytest
from pydantic import Field

from negcap.augment.settings import AtLeastOne, Settings, matching, plain_type
from negcap.pipelines.cli import negcap, options
from negcap.pipelines.cli.group import Command
from negcap.pipelines.models.config import CONFIGS
from negcap.pipelines.resources.__main__ import resources
from tests.conftest import LAYERS, ROOT

# Valid values of the fields that have no default, but for paths.
REQUIRED = {"model": "vse++", "format": "coco", "license": "MIT", "url": "http://localhost:1", "captions": ("A dog.",)}
# Classes with described fields that are set by something else than a command: the page of the demo, a script.
WITHOUT_COMMAND = {"Question", "PapersConfig", "Judging"}


def settings_classes() -> list[type[Settings]]:
    """All classes of settings in the package, by name, each after an import of every module."""
    for layer in LAYERS:
        for module in pkgutil.walk_packages([str(ROOT / layer)], f"negcap.{layer}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    classes: list[type[Settings]] = []
    below = [Settings]
    while below:
        children = below.pop().__subclasses__()
        classes += [child for child in children if child.__module__.startswith("negcap.")]
        below += children
    return sorted(set(classes), key=lambda kind: (kind.__module__, kind.__name__))


def own_fields(kind: type[Settings]) -> Iterator[str]:
    """The fields that a class states itself; it has the others, rules and all, from the class that it extends."""
    for name, field in kind.model_fields.items():
        inherited = [base.model_fields.get(name) for base in kind.__bases__ if issubclass(base, Settings)]
        if repr(field) not in map(repr, inherited):
            yield name


CLASSES = settings_classes()
FIELDS = {kind: list(own_fields(kind)) for kind in CLASSES}
each_class = pytest.mark.parametrize("kind", CLASSES)


def given(kind: type[Settings], **values: object) -> Settings:
    """Settings with these values, and examples of what has no default."""
    required: dict[str, object] = {}
    for name, field in kind.model_fields.items():
        if field.is_required():
            required[name] = Path(name) if plain_type(field.annotation) is Path else REQUIRED[name]
    return kind(**{**required, **values})


class Kinds(Settings):
    """A field of each kind."""

    number: AtLeastOne = 1
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    below: Annotated[float, Field(lt=1)] = 0.5
    flag: bool = False
    word: Literal["red", "blue"] = "red"
    words: tuple[Literal["red", "blue"], ...] = ()
    several: Annotated[tuple[int, ...], Field(min_length=1)] = (1,)
    text: Annotated[str, matching("[a-z]+", "letters")] = "a"


@pytest.mark.parametrize(("field", "value", "rule"), [
    ("number", 0, "must be >= 1, was: 0"),
    ("number", "1.5", "must be a whole number, was: 1.5"),
    ("number", 1.5, "must be a whole number, was: 1.5"),
    ("number", None, "must be a whole number, was: "),
    ("share", 0, "must be > 0, was: 0"),
    ("share", 1.1, "must be <= 1, was: 1.1"),
    ("share", "1,5", "must be a number, was: 1,5"),
    ("below", 1, "must be < 1, was: 1"),
    ("flag", "perhaps", "must be true or false, was: perhaps"),
    ("word", "green", "must be one of red, blue, was: green"),
    ("word", "redd", "must be one of red, blue, was: redd; did you mean red?"),
    ("words", "red,green", "must be one of red, blue, was: green"),
    ("several", (), "must not be empty"),
    ("text", "a1", "must be letters, was: a1"),
])  # fmt: skip
def test_a_field_refuses_what_is_outside_its_range_choices_and_type(field, value, rule):
    with pytest.raises(ValueError, match=f"^{field} {re.escape(rule)}.*$"):
        Kinds(**{field: value})
    with pytest.raises(ValueError, match=rf"^{field}x is no setting of Kinds; did you mean "):
        Kinds(**{f"{field}x": value})


def test_every_class_of_settings_is_found():
    assert len(CLASSES) > 40 and sum(map(len, FIELDS.values())) > 400
    assert set(CONFIGS.values()) <= set(CLASSES)


@each_class
def test_defaults_are_valid_and_nothing_is_allowed_everywhere(kind):
    settings = given(kind)
    assert settings.changed() == settings
    for name in FIELDS[kind]:
        if "SkipValidation" not in repr(kind.model_fields[name]):  # a path on a store, which pydantic does not check
            with pytest.raises(ValueError, match=f"^{name}[ :]"):
                given(kind, **{name: object})


@each_class
def test_a_default_is_read_from_its_text(kind):
    for name in FIELDS[kind]:
        field = kind.model_fields[name]
        default = getattr(given(kind), name)
        # `none` is the empty tuple there, and not what None is: "as trained", "all"
        is_none = default is None and get_origin(plain_type(field.annotation)) is tuple
        if not field.is_required() and not is_none:
            assert getattr(given(kind, **{name: options.as_text(default)}), name) == default


@each_class
def test_a_described_field_becomes_a_flag_that_reads_it(kind):
    for name in FIELDS[kind]:
        if kind.model_fields[name].description:
            check_flag(kind, name)


def check_flag(kind: type[Settings], name: str) -> None:
    """A flag has the description of its field as its help, and the field reads what the flag gives."""
    field = kind.model_fields[name]
    description = field.description or ""
    assert not description.endswith(".") and description.strip() == description
    flag = options.from_field(name, field)
    assert flag.name == name and flag.help and flag.help.lower().startswith(description.partition(";")[0].lower())
    default = getattr(given(kind), name)
    several_numbers = isinstance(default, tuple) and isinstance(next(iter(default), None), float)
    if default is None or default == "" or isinstance(default, Path) or several_numbers:
        return  # no text of a flag is these; numbers are read by --set alone, as a flag takes each value once
    texts = [] if isinstance(default, bool) else [options.as_text(default)]
    values: list[object] = []
    command = click.Command("x", params=[flag], callback=lambda **flags: values.append(flags[name]))
    command.main([flag.opts[0], *texts], standalone_mode=False)
    if isinstance(default, bool):
        assert values == [not default]
    else:
        assert getattr(given(kind, **{name: values[0]}), name) == default


COMMANDS = [command for group in (negcap, resources) for command in group.commands.values()]


def test_the_described_fields_of_a_class_are_settings_of_a_command():
    offered = [set(command.fields) for command in COMMANDS if isinstance(command, Command)]
    for kind in CLASSES:
        described = {name for name, field in kind.model_fields.items() if field.description}
        described -= {"run", "output", "model"}  # of training, whose command has arguments of its own for them
        assert kind.__name__ in WITHOUT_COMMAND or any(described <= names for names in offered), kind


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_help_of_a_command_lists_its_settings(command):
    flags = {parameter.name for parameter in command.params}
    by_set = command.fields.keys() - flags
    assert ("settings" in flags) == bool(by_set)
    context = click.Context(command, info_name=command.name)
    listed = {record.partition("=")[0] for record, _ in command.settings_without_flag(context)}
    assert listed == by_set or (command.name == "train" and listed < by_set)  # train lists those of one model
    shown = command.get_help(context)
    assert all(re.search(rf"^  {name}\b", shown, re.M) for name in listed)
