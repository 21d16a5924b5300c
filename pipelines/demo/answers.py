"""What the page of the demo asks, and the answer: negatives, rejections, scene graphs, and code that gives the same."""

from __future__ import annotations

import csv
import io
import warnings
from typing import Annotated, Any

from pydantic import Field

from ...augment.judgement import MAX_P_BOTH, MAX_P_ODD
from ...augment.operators import PRESETS
from ...augment.settings import MaxBoth, MaxOdd, MaxTrue, Settings
from ...augment.truth.estimates import MAX_P_TRUE
from ...schemas.negatives import REASONS
from ..report.rows import Row, summary

LEXICON = "reference"  # the captions of a visitor are too few to count
PYTHON = """\
import negcap
import pandas as pd

captions = pd.DataFrame({{"image": "photo", "caption": {captions!r}}})
negatives, rejections = negcap.negatives(captions, {arguments}, rejections=True)
"""
COMMANDS = """\
cat > captions.csv <<'END'
{rows}END
negcap build captions.csv --output outputs/demo {flags}
negcap show outputs/demo --n 100
negcap show outputs/demo --n 100 --rejections
"""


class Question(Settings):
    """Captions of one image, and how negatives are to be made of them. operators: a preset, or operators by name."""

    captions: Annotated[tuple[str, ...], Field(min_length=1)]
    operators: Annotated[str | tuple[str, ...], Field(min_length=1)] = "vse-c"
    max_true: MaxTrue = MAX_P_TRUE
    max_odd: MaxOdd = MAX_P_ODD
    max_both: MaxBoth = MAX_P_BOTH


LIMITS = ("max_true", "max_odd", "max_both")


def answer(question: Question) -> dict[str, Any]:
    """The rows of each caption, notes for the visitor, and code for the same rows, as values that JSON can represent:
    `captions`, each with `caption`, `graph`, `negatives` and `rejections` (by reason; see `reasons`), rows as
    `report.rows.summary` gives them; `notes`; `python`; `commands`. Raises ValueError for a setting or captions that
    cannot be used.
    """
    import pandas as pd

    from ... import graph, negatives  # as the code that is shown

    captions = [text for text in question.captions if text.strip()]
    if not captions:
        raise ValueError("captions must have one that is not blank")
    default = {name: Question.model_fields[name].default for name in LIMITS}
    limits = {name: value for name in LIMITS if (value := getattr(question, name)) != default[name]}
    chosen = question.operators if isinstance(question.operators, str) else list(question.operators)
    arguments = {"operators": chosen, "lexicon": LEXICON, "excluded": True, **limits}
    frame = pd.DataFrame({"image": "photo", "caption": captions})
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        made, rejected = negatives(frame, rejections=True, **arguments)
    found: dict[str, dict[str, Any]] = {}
    for row in _rows(pd.concat([rejected, made])):  # every operator has made something of a caption, or rejected it
        found.setdefault(row["caption_id"], {"caption": row["caption"], "negatives": [], "rejections": {}})
    for row in _rows(made):
        found[row["caption_id"]]["negatives"].append(summary(row))
    for row in _rows(rejected):
        found[row["caption_id"]]["rejections"].setdefault(row["reason"], []).append(summary(row))
    for one in found.values():
        one["graph"] = graph(one["caption"])._asdict()
    is_preset = isinstance(chosen, str) and chosen in PRESETS
    named = [f"--preset {chosen}"] if is_preset else [f"--operator {name}" for name in question.operators]
    rows = io.StringIO()
    csv.writer(rows, lineterminator="\n").writerows([("image", "caption"), *(("photo", text) for text in captions)])
    sets = [f"--set {name}={value}" for name, value in arguments.items() if name != "operators"]
    return {
        "captions": [found[caption_id] for caption_id in sorted(found, key=lambda name: int(name.rpartition(":")[2]))],
        "reasons": {reason: REASONS[reason] for one in found.values() for reason in one["rejections"]},
        "notes": [str(one.message) for one in noted if issubclass(one.category, UserWarning)],
        "python": PYTHON.format(
            captions=captions, arguments=", ".join(f"{name}={value!r}" for name, value in arguments.items())
        ),
        "commands": COMMANDS.format(rows=rows.getvalue(), flags=" ".join([*named, *sets, "--scheduler synchronous"])),
    }


def _rows(frame: Any) -> list[Row]:
    """The rows of a frame, with None for what is missing."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")
