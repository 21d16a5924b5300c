"""captions -> parses: tokens and noun chunks, made once and read by every later stage."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from negcap.pipelines.engine.stage import Stage, StageResult
from negcap.schemas.parses import PARSES

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ParseConfig:
    """Which parser: `spacy_model` None is the shipped one; `parser` is its name and version, part of the key."""

    spacy_model: str | None = None
    parser: str = ""


def parse(captions: pa.Table, config: ParseConfig) -> StageResult:
    """The parses of a shard's English captions; those in other languages are counted as skipped."""
    import pyarrow.compute as pc

    from negcap.augment.language.parse import parse_table

    english = captions.filter(pc.equal(captions["language"], "en"))
    counts = Counter({"captions": english.num_rows})
    for language in captions["language"].to_pylist():
        if language != "en":
            counts[f"skipped.{language}"] += 1
    return StageResult({"parses": parse_table(english, config.spacy_model)}, counts)


STAGE = Stage(
    name="parse",
    input="captions",
    outputs={"parses": PARSES},
    apply=parse,
    columns=("caption_id", "image_id", "split", "language", "origin", "text"),
)
