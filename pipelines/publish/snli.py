"""SNLI (Bowman et al. 2015): one JSONL file per split. A caption is the premise of two hypotheses: itself, cut to one
of its relations ("A dog runs on the grass"), which it entails, and the same part of a negative ("A dog runs on the
sand"), which it contradicts. Both are cut alike, and as many of each, so that neither length nor frequency tells the
label without the premise. A cut is contiguous and shorter than the caption.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...augment.reproducible import record_rng
from ..engine.tables import has_table, read_table
from ..tables.examples import Row
from .layout import Column, Format, JsonFile, Publication, Rows

COLUMNS = (
    Column("gold_label", "entailment or contradiction"),
    Column("sentence1", "the premise, a true caption"),
    Column("sentence2", "the hypothesis, a part of the caption or of its negative"),
    Column("captionID", "the caption_id of the premise"),
    Column("pairID", "identifies the pair"),
    Column("operator", "what made the negative of this pair or, of an entailed one, of its counterpart"),
)


class Span(NamedTuple):
    """A part of a text, from one character to another."""

    start: int
    end: int


def rows(publication: Publication) -> Rows:
    """`{split}.jsonl`: the pairs of each caption. ValueError without parses, components, or negatives in relations."""
    run = publication.run
    for table, verb in (("parses", "parse"), ("components", "components")):
        if not has_table(run, table):
            made = f"negcap build --only {verb} makes it"
            raise ValueError(f"format snli needs the table {table}, {run} has none: {made}")
    cuts_of_shards = _cuts_of_run(run)
    known: Mapping[str, list[Span]] = {}
    found = False
    for negatives in publication.by_caption():
        caption_id = negatives[0].caption_id
        if caption_id != negatives[0].text_id:
            continue  # a denial, which has no parse
        while caption_id not in known:
            known = next(cuts_of_shards, {})
            if not known:
                raise ValueError(f"components must have the captions in their order, lack: {caption_id}")
        for row in _pairs(negatives, known[caption_id]):
            found = True
            yield f"{negatives[0].split}.jsonl", row
    if not found:
        raise ValueError(f"format snli needs negatives within a relation of their caption, {run} has none")


def _pairs(negatives: list[Row], cuts: list[Span]) -> Iterator[dict[str, str]]:
    """For each cut an entailed pair, and one with a negative drawn from those that change only this part, if any."""
    caption_id = negatives[0].caption_id
    text = negatives[0].text
    for cut in cuts:
        fitting = [row for row in negatives if _changed(text, row.negative, cut)]
        if not fitting:
            continue
        drawn = record_rng(0, "snli", f"{caption_id}#{cut.start}").choice(fitting)
        end = cut.end + len(drawn.negative) - len(text)
        parts = {"entailment": text[cut.start : cut.end], "contradiction": drawn.negative[cut.start : end]}
        for label, part in parts.items():
            yield {
                "gold_label": label,
                "sentence1": text,
                "sentence2": _sentence(part, text),
                "captionID": caption_id,
                "pairID": f"{caption_id}#{cut.start}-{cut.end}{label[0]}",
                "operator": drawn.operator,
            }


def _changed(caption: str, negative: str, cut: Span) -> bool:
    """Whether a negative differs from its caption within a part of it only."""
    outside = len(caption) - cut.end
    same = negative[: cut.start] == caption[: cut.start]
    return same and (not outside or negative[-outside:] == caption[-outside:]) and len(negative) > cut.start + outside


def _sentence(part: str, caption: str) -> str:
    """A part as a sentence in the manner of its caption: with a capital first letter and a full stop if it has them."""
    first = part[0].upper() if caption[0].isupper() else part[0]
    ending = caption[len(caption.rstrip(" .!")) :]
    return first + part[1:] + (ending if not part.endswith(ending) else "")


def _cuts_of_run(run: Path) -> Iterator[Mapping[str, list[Span]]]:
    parses = read_table(run, "parses", ["caption_id", "text", "tokens", "chunks"])
    components = read_table(run, "components", ["caption_id", "relations"])
    for parsed, found in zip(parses, components, strict=True):
        relations = dict(zip(found["caption_id"].to_pylist(), found["relations"].to_pylist(), strict=True))
        yield {row["caption_id"]: cuts(row, relations.get(row["caption_id"], [])) for row in parsed.to_pylist()}


def cuts(parse: Mapping[str, Any], relations: list[dict[str, Any]]) -> list[Span]:
    """The parts of a parse's caption, shorter than it, with one of its relations (of components) and noun phrases."""
    tokens = parse["tokens"]
    text = parse["text"]
    chunk = {}
    for phrase in parse["chunks"]:
        chunk.update(dict.fromkeys(range(phrase["start"], phrase["end"]), phrase))
    found: dict[Span, None] = {}
    for relation in relations:
        ends = [relation["subject_token"], relation["object_token"]]
        phrases = [chunk[token] for token in ends if token in chunk]
        inside = [*ends, *relation["tokens"], *(p["start"] for p in phrases), *(p["end"] - 1 for p in phrases)]
        span = Span(tokens[min(inside)]["start"], tokens[max(inside)]["end"])
        if span.end - span.start < len(text.rstrip(" .!")):
            found[span] = None
    return list(found)


SNLI = Format(
    rows,
    partial(JsonFile, head="", foot="", between=""),
    "SNLI, one JSONL file per split: captions with what they entail and contradict",
    "`pd.read_json('$file', lines=True)`: a premise `sentence1`, a hypothesis `sentence2` and a `gold_label`, "
    "`entailment` or `contradiction`, as often the one as the other. `negcap entail` reads it.",
    "captions and what they entail or contradict",
    COLUMNS,
    ordered=True,
)
