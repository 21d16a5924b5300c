"""Settings: classes whose fields state once their range, choices, default and meaning. Errors, flags of commands, help
and tables of the documentation are made from these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SkipValidation, ValidationError
from pydantic.fields import FieldInfo

from ..schemas.messages import no_setting, not_one_of

AtLeastOne = Annotated[int, Field(ge=1)]
AtLeastTwo = Annotated[int, Field(ge=2)]
NotNegative = Annotated[int, Field(ge=0)]
NotNegativeNumber = Annotated[float, Field(ge=0)]
AboveZero = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
ShareAboveZero = Annotated[float, Field(gt=0, le=1)]
BelowOne = Annotated[float, Field(ge=0, lt=1)]
Place = SkipValidation[Path]  # of a disk or a store: such paths are no pathlib.Path
# settings of several configs
Seed = Annotated[NotNegative, Field(description="seed of all random choices: equal seeds give equal rows")]
Splits = Annotated[tuple[str, ...], Field(description="only this split, e.g. test; none: all")]
Operators = Annotated[tuple[str, ...], Field(description="only this operator, e.g. noun; none: all")]
Refined = Annotated[bool, Field(description="only negatives that negcap refine kept")]
Vetted = Annotated[bool, Field(description="only negatives that negcap vet has rated and that no rater rejects")]
Photos = Annotated[Path | None, Field(description="folder of the image files")]
Device = Annotated[
    Literal["auto", "cpu", "cuda"], Field(description="where to compute; auto: a GPU where there is one")
]
Cloze = Annotated[
    Path | None,
    Field(
        description="file of a masked language model of your own, which rates words in their places; none: the shipped "
        "one"
    ),
]
MaxTrue = Annotated[
    Share,
    Field(
        description="reject candidates whose estimated probability of being true, by one more caption of the image, "
        "exceeds this"
    ),
]
MaxUnnatural = Annotated[
    Share,
    Field(
        description="fallback limit: if noun, preposition, object, attribute or shuffle would yield nothing, "
        "keep its best candidate up to this p_unnatural (p_compatible included); caps preferred_unnatural if lower"
    ),
]
PreferredUnnatural = Annotated[
    Share,
    Field(
        description="reject candidates with a p_unnatural above this (max_unnatural is the fallback); 1 turns it off"
    ),
]
MaxCompatible = Annotated[Share, Field(description="reject candidates with a p_compatible above this; 1 turns it off")]
SpacyModel = Annotated[
    str | None,
    Field(description="installed spaCy pipeline or its folder, e.g. en_core_web_sm; none: the shipped parser"),
]

# By pydantic's type of an error: the sign in the message, and what the error's context calls the bound.
RULES = {"greater_than_equal": (">=", "ge"), "greater_than": (">", "gt"), "less_than_equal": ("<=", "le")}
RULES |= {"less_than": ("<", "lt")}
# By the same: what the value must be.
KINDS = {"int_parsing": "a whole number", "int_from_float": "a whole number", "int_type": "a whole number"}
KINDS |= {"float_parsing": "a number", "float_type": "a number", "finite_number": "a finite number"}
KINDS |= {"bool_parsing": "true or false", "bool_type": "true or false"}


class Settings(BaseModel):
    """Base of all configs, whose instances do not change.

    Values may be texts: "3", "a,b" for several, "none" (see `from_text`). A field with a description is a setting of
    users, by a flag or --set; those without are set by the code that calls.

    Raises ValueError with one line that names the first wrong field, the rule and the value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **given: Any) -> None:
        fields = type(self).model_fields
        texts = {name: value for name, value in given.items() if name in fields and isinstance(value, str)}
        values = {**given, **{name: from_text(fields[name], text) for name, text in texts.items()}}
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ValueError(_first_error(type(self), error, given)) from None

    @classmethod
    def of(cls, given: Mapping[str, Any], **more: Any) -> Self:
        """The settings with those values of `given` that they have a field for and that are not None, and `more`."""
        known = {name: value for name, value in given_only(given).items() if name in cls.model_fields}
        return cls(**{**known, **more})

    def changed(self, **given: Any) -> Self:
        """These settings with other values for some fields, which are checked."""
        return type(self)(**{**vars(self), **given})


def given_only(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values that were given: without those that are None."""
    return {name: value for name, value in given.items() if value is not None}


def matching(pattern: str, rule: str) -> AfterValidator:
    """A check that a text matches a pattern; `rule` says in the message what it must be: `table must be <rule>`."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"must be {rule}, was: {text}")
        return text

    return AfterValidator(check)


def _first_error(kind: type[Settings], error: ValidationError, given: Mapping[str, Any]) -> str:
    """One line about the first wrong field: its name, the rule and the value; given: what the user gave."""
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    value = first["input"]
    if first["type"] == "value_error":  # a rule of several fields, or one of `matching`
        return f"{name} {first['ctx']['error']}".lstrip()
    if first["type"] == "extra_forbidden":
        return no_setting(name, str(given.get("model", kind.__name__)), kind.model_fields)
    annotation = kind.model_fields[name].annotation
    if first["type"] == "literal_error":
        return not_one_of(name, value, words_of(annotation))
    if first["type"] in RULES:
        sign, bound = RULES[first["type"]]
        return f"{name} must be {sign} {first['ctx'][bound]:g}, was: {value}"
    if first["type"] in KINDS:
        return f"{name} must be {KINDS[first['type']]}, was: {value}"
    # Too many or too few values of a tuple; "missing" with a path of several names is one of its elements.
    if first["type"] == "too_long" or (first["type"] == "missing" and len(first["loc"]) > 1):
        return f"{name} must have {len(get_args(plain_type(annotation)))} values, was: {value}"
    if first["type"] == "too_short":
        return f"{name} must not be empty"
    if first["type"] == "missing":
        return f"{name} must be given"
    return f"{name}: {first['msg'][:1].lower()}{first['msg'][1:]}, was: {value!r:.80}"


def words_of(annotation: Any) -> Iterator[str]:
    """The words that a type allows: those of the Literals in it, except ""."""
    if get_origin(annotation) is Literal:
        yield from filter(None, get_args(annotation))
    else:
        for part in get_args(annotation):
            yield from words_of(part)


def plain_type(annotation: Any) -> Any:
    """A field's type without None and range, the first if there are several: `Annotated[int, …] | None` -> `int`."""
    if get_origin(annotation) is Annotated:
        return plain_type(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return plain_type(next(part for part in get_args(annotation) if part is not NoneType))
    return annotation


def from_text(field: FieldInfo, text: str) -> Any:
    """The value of a field that a text on the command line means: "a,b" -> ("a", "b") for a tuple, "none" -> None."""
    kind = plain_type(field.annotation)
    if get_origin(kind) is tuple:
        return () if text == "none" else tuple(part.strip() for part in text.split(","))
    return None if text == "none" and NoneType in get_args(field.annotation) else text
