"""The data card: README.md of a published set, written from the template card.md.jinja."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from .facts import Facts
from .gate import LEAST_PAIRS
from .publication import Column, RecordSet

LISTED = 1000  # most files that the card's table lists; SHA256SUMS has all digests
SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
MARKDOWN = re.compile(r"([\\`*_{}\[\]()|~])")


def plain(text: object) -> str:
    """Escape a text for Markdown, also inside table cells, so that it is shown literally."""
    escaped = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKDOWN.sub(r"\\\1", " ".join(escaped.split()))


def code(text: object) -> str:
    """A text as Markdown code that is safe in a table cell: the bar in `a|b` is escaped, a backtick becomes `'`."""
    return "`" + " ".join(str(text).split()).replace("`", "'").replace("|", "\\|") + "`"


def yaml(value: object) -> str:
    """A value as YAML: its JSON, which is valid YAML."""
    return json.dumps(value, ensure_ascii=False)


def license_fields(license: str) -> dict[str, str]:
    """The card's licence fields as the Hugging Face hub expects them.

    A lower-case id if the text looks like an SPDX id, else `other` with the text as `license_name`.
    """
    if SPDX.fullmatch(license) and license.lower() != "other":
        return {"license": license.lower()}
    return {"license": "other", "license_name": license}


def distinct_layouts(facts: Facts) -> list[RecordSet]:
    """One record set per distinct set of columns, the first: `noun.json` represents the files of all operators."""
    found: dict[tuple[Column, ...], RecordSet] = {}
    for record in facts.records:
        found.setdefault(record.columns, record)
    return list(found.values())


def meaning(column: Column) -> str:
    """What a column holds, and where, if no column or key of the file has its name."""
    if column.property in ("filename", "fullpath"):
        return f"{column.description}: in the file's name, not in the file"
    place = column.path + (f"[*].{column.member}" if column.member else "")
    if column.path and re.findall(r"\w+", place)[-1] != column.name:
        return f"{column.description}: at {code(place)}"
    return column.description


def write_card(file: Path, facts: Facts) -> None:
    """Write the data card: description, how to read the set, counts, blind accuracies, provenance and digests."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=False,  # Markdown, not HTML: `plain` and `code` escape what comes from captions
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {"plain": plain, "code": code, "meaning": meaning, "yaml": yaml}
    template = environment.from_string(files(__package__).joinpath("card.md.jinja").read_text(encoding="utf-8"))
    head: dict[str, Any] = {**license_fields(facts.config.license), "language": ["en"], "pretty_name": facts.name}
    head |= facts.kind.card_fields(facts.splits_of)
    text = template.render(
        facts=facts,
        config=facts.config,
        head=head,
        shown=distinct_layouts(facts),
        listed=LISTED,
        least_pairs=LEAST_PAIRS,
    )
    file.write_text(text, encoding="utf-8", newline="\n")
