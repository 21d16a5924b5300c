"""Every field of every Settings class of the project: default, range, choices, type, help, flag."""

import importlib
import math
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Annotated, Literal, NamedTuple, get_args, get_origin

import click
import pytest
from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import SkipValidation
from pydantic.fields import FieldInfo

from negcap.augment.settings import Settings, plain_type
from negcap.pipelines.cli import negcap, options
from negcap.pipelines.cli.group import Command
from negcap.pipelines.models.config import CONFIGS
from negcap.pipelines.resources.__main__ import resources
from tests.conftest import LAYERS, ROOT

# Valid values of the fields that have no default, but for paths.
REQUIRED = {"model": "vse++", "format": "coco", "license": "MIT", "url": "http://localhost:1", "captions": ("A dog.",)}
# A text that is no number, no truth value and not one of any field's choices.
NO_WORD = "perhaps"
# Classes with described fields that are set by something else than a command: the page of the demo, a script.
WITHOUT_COMMAND = {"Question", "PapersConfig", "Judging"}


class Refusal(NamedTuple):
    """A value that a field must refuse, the rule that the message must state, and a value that this rule allows."""

    value: object
    rule: str
    allowed: object = None


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


def parts(annotation: object, metadata: list[object]) -> Iterator[tuple[object, list[object]]]:
    """The plain types in an annotation, each with the rules that stand beside it: `int`, [Ge(1)] of `AtLeastOne`."""
    if get_origin(annotation) is Annotated:
        inner, *rules = get_args(annotation)
        for rule in rules:
            metadata = [*metadata, *(rule.metadata if isinstance(rule, FieldInfo) else [rule])]
        yield from parts(inner, metadata)
    elif get_origin(annotation) in (None, Literal, tuple):
        yield annotation, metadata
    else:  # a union
        for part in get_args(annotation):
            yield from parts(part, metadata)


def outside(plain: object, rule: object) -> Iterator[Refusal]:
    """The value just outside a range; allowed is the one just inside."""

    def beside(bound: float, towards: float) -> float:
        return bound + int(math.copysign(1, towards)) if plain is int else math.nextafter(bound, towards)

    if isinstance(rule, Ge):
        yield Refusal(beside(rule.ge, -math.inf), f"must be >= {rule.ge:g}", rule.ge)
    elif isinstance(rule, Gt):
        yield Refusal(rule.gt, f"must be > {rule.gt:g}", beside(rule.gt, math.inf))
    elif isinstance(rule, Le):
        yield Refusal(beside(rule.le, math.inf), f"must be <= {rule.le:g}", rule.le)
    elif isinstance(rule, Lt):
        yield Refusal(rule.lt, f"must be < {rule.lt:g}", beside(rule.lt, -math.inf))
    elif isinstance(rule, MinLen):
        yield Refusal((), "must not be empty")


def refusals(field: FieldInfo) -> Iterator[Refusal]:
    """What the type and the rules of a field exclude."""
    types = list(parts(field.annotation, list(field.metadata)))
    if any(isinstance(rule, SkipValidation) for _, rules in types for rule in rules):
        return  # a path on a store, which pydantic does not check
    for plain, rules in types:
        for rule in rules:
            yield from outside(plain, rule)
    kinds = {plain for plain, _ in types}
    words = [str(word) for plain in kinds for word in choices(plain) if word]
    if words and kinds <= {NoneType, *(plain for plain in kinds if list(choices(plain)))}:
        listed = f"must be one of {', '.join(words)}, was: "
        yield Refusal(NO_WORD, listed + NO_WORD)
        yield Refusal(f"{words[0]}x", f"{listed}{words[0]}x; did you mean ")
    if kinds <= {int, NoneType}:
        yield from (Refusal(value, f"must be a whole number, was: {value}") for value in (NO_WORD, 1.5, "1.5"))
    if kinds <= {float, NoneType}:
        yield from (Refusal(value, f"must be a number, was: {value}") for value in (NO_WORD, "1,5"))
    if kinds == {bool}:
        yield from (Refusal(value, f"must be true or false, was: {value}") for value in (NO_WORD, 2))
    if NoneType not in kinds:
        yield Refusal(None, "")
    yield Refusal(object, "")  # no type of a field allows this


def choices(plain: object) -> Iterator[object]:
    """The words of a Literal, or of one in a tuple."""
    if get_origin(plain) is Literal:
        yield from get_args(plain)
    elif get_origin(plain) is tuple:
        for part in get_args(plain):
            yield from choices(part)


def test_every_class_of_settings_is_found():
    assert len(CLASSES) > 40 and sum(map(len, FIELDS.values())) > 400
    assert set(CONFIGS.values()) <= set(CLASSES)


@each_class
def test_defaults_are_valid_and_do_not_change(kind):
    settings = given(kind)
    for name in kind.model_fields:
        with pytest.raises(ValueError, match="frozen"):
            setattr(settings, name, getattr(settings, name))
    assert settings.changed() == settings
    first = next(iter(kind.model_fields))
    with pytest.raises(ValueError, match=rf"^{first}x is no setting of .*; did you mean "):
        given(kind, **{f"{first}x": 1})


def refusal(kind: type[Settings], name: str, value: object) -> str:
    """The message with which a field refuses a value; "" if it takes it."""
    try:
        given(kind, **{name: value})
    except ValueError as error:
        return str(error)
    return ""


@each_class
def test_a_field_refuses_what_is_outside_its_range_choices_and_type(kind):
    for name in FIELDS[kind]:
        for value, rule, allowed in refusals(kind.model_fields[name]):
            message = refusal(kind, name, value)
            assert message.startswith(name) and rule in message and "\n" not in message, f"{name} {value!r}: {message}"
            # a rule of several fields may refuse what this one allows
            assert allowed is None or rule not in refusal(kind, name, allowed)


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
