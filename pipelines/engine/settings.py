"""Settings whose fields state their range, choices and meaning, from which errors, flags and help are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from .bounds import word

AtLeastOne = Annotated[int, Field(ge=1)]
AtLeastTwo = Annotated[int, Field(ge=2)]
NotNegative = Annotated[int, Field(ge=0)]
NotNegativeNumber = Annotated[float, Field(ge=0)]
AboveZero = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
BelowOne = Annotated[float, Field(ge=0, lt=1)]
RULES = {"greater_than_equal": (">=", "ge"), "greater_than": (">", "gt"), "less_than_equal": ("<=", "le")}
RULES |= {"less_than": ("<", "lt")}


class Settings(BaseModel):
    """A frozen config. Values may also be texts, see `from_text`.

    Raises ValueError with one line that names the first wrong field, the rule and the value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **given: Any) -> None:
        fields = type(self).model_fields
        read = {n: from_text(fields[n], v) if n in fields and isinstance(v, str) else v for n, v in given.items()}
        try:
            super().__init__(**read)
        except ValidationError as error:
            raise ValueError(_first_error(type(self), error, given)) from None

    def changed(self, **given: Any) -> Any:
        """These settings with other values for some fields, which are checked."""
        return type(self)(**{**vars(self), **given})


def _first_error(kind: type[Settings], error: ValidationError, given: Mapping[str, Any]) -> str:
    first = error.errors()[0]
    name, value = str(first["loc"][0]) if first["loc"] else "", first["input"]
    if first["type"] == "value_error":  # a rule of several fields
        return str(first["ctx"]["error"])
    if first["type"] == "extra_forbidden":
        similar = get_close_matches(name, kind.model_fields, 1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        return f"{name} is no setting of {given.get('model', kind.__name__)}{hint}"
    annotation = kind.model_fields[name].annotation
    if first["type"] == "literal_error":
        try:
            word(name, str(value), words_of(annotation))
        except ValueError as message:
            return str(message)
    if first["type"] in RULES:
        sign, bound = RULES[first["type"]]
        return f"{name} must be {sign} {first['ctx'][bound]:g}, was: {value}"
    if first["type"] == "too_long" or (first["type"] == "missing" and len(first["loc"]) > 1):
        return f"{name} must have {len(get_args(plain_type(annotation)))} values, was: {value}"
    return f"{name}: {first['msg'][:1].lower()}{first['msg'][1:]}, was: {value!r:.80}"


def words_of(annotation: Any) -> Iterator[str]:
    """The words that a type allows: those of the Literals in it."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for part in get_args(annotation):
            yield from words_of(part)


def plain_type(annotation: Any) -> Any:
    """The type of a field without None and without its range: `int` of `Annotated[int, Field(ge=1)] | None`."""
    if get_origin(annotation) is Annotated:
        return plain_type(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (part for part in get_args(annotation) if part is not NoneType)
        return plain_type(annotation)
    return annotation


def from_text(field: FieldInfo, text: str) -> Any:
    """What a text gives to a field: one of several values takes them between commas; `none`: no value."""
    kind = plain_type(field.annotation)
    if get_origin(kind) is tuple:
        return () if text == "none" else tuple(part.strip() for part in text.split(","))
    return None if text == "none" and NoneType in get_args(field.annotation) else text
