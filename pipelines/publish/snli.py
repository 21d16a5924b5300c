"""SNLI (Bowman et al. 2015): one JSONL file per split.

A caption is the premise of two hypotheses: itself, cut to one of its relations ("A dog runs on the grass"), which it
entails, and the same part of a negative ("A dog runs on the sand"), which it contradicts. Both are cut alike, and as
many of each, so that neither length nor frequency tells the label without the premise. A cut is contiguous and shorter
than the caption.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ...augment.reproducible import record_rng
from ..engine.tables import has_table, read_table
from ..tables.examples import Row
from .layout import Addition, Column, Format, Json, JsonFile, Publication, Rows

COLUMNS = (
    Column("gold_label", "entailment or contradiction"),
    Column("sentence1", "the premise, a true caption"),
    Column("sentence2", "the hypothesis, a part of the caption or of its negative"),
    Column("captionID", "the caption_id of the premise"),
    Column("pairID", "identifies the pair"),
    Column("operator", "what made the negative of this pair or, of an entailed one, of its counterpart"),
)


class TextSpan(NamedTuple):
    """A part of a text, from one character to another."""

    start: int
    end: int


# By caption_id: the parts of the caption that hold one of its relations, such as "A dog runs on the grass".
Cuts = Mapping[str, list[TextSpan]]


def rows(publication: Publication) -> Rows:
    """`{split}.jsonl`: the pairs of each caption. ValueError without parses, components, or negatives in relations."""
    run = publication.run
    for table, verb in (("parses", "parse"), ("components", "components")):
        if not has_table(run, table):
            advice = f"negcap build --only {verb} makes it"
            raise ValueError(f"format snli needs the table {table}, {run} has none: {advice}")
    # A cut is a part of a caption that holds one of its relations.
    cuts_of_shards = _cuts_of_run(run)
    cuts_of_shard: Cuts = {}
    is_empty = True
    for negatives in publication.by_caption():
        caption_id = negatives[0].caption_id
        if caption_id != negatives[0].text_id:
            # The true text is a denial that was made of the caption, and has no parse.
            continue
        # Captions come in the order of the shards, so that only the cuts of one shard are held in memory.
        while caption_id not in cuts_of_shard:
            cuts_of_shard = next(cuts_of_shards, {})
            if not cuts_of_shard:
                raise ValueError(f"components must have the captions in their order, lack: {caption_id}")
        for pair in _labelled_pairs(negatives, cuts_of_shard[caption_id]):
            is_empty = False
            yield Addition(f"{negatives[0].split}.jsonl", pair)
    if is_empty:
        raise ValueError(f"format snli needs negatives within a relation of their caption, {run} has none")


def _labelled_pairs(negatives: Sequence[Row], cuts: Sequence[TextSpan]) -> Iterator[dict[str, str]]:
    """For each cut, an entailed pair and a contradicted one, with a negative drawn from those that change only this
    part; none for a cut without such a negative.
    """
    caption_id = negatives[0].caption_id
    text = negatives[0].text
    for cut in cuts:
        fitting = [row for row in negatives if _changes_only(cut, text, row.negative)]
        if not fitting:
            continue
        chosen = record_rng(0, "snli", f"{caption_id}#{cut.start}").choice(fitting)
        # Only the cut differs, so its end in the negative is shifted by how much longer the negative is.
        end_in_negative = cut.end + len(chosen.negative) - len(text)
        hypotheses = {
            "entailment": text[cut.start : cut.end],
            "contradiction": chosen.negative[cut.start : end_in_negative],
        }
        for label, hypothesis in hypotheses.items():
            yield {
                "gold_label": label,
                "sentence1": text,
                "sentence2": _as_sentence(hypothesis, text),
                "captionID": caption_id,
                "pairID": f"{caption_id}#{cut.start}-{cut.end}{label[0]}",
                "operator": chosen.operator,
            }


def _changes_only(cut: TextSpan, caption: str, negative: str) -> bool:
    """Whether a negative changes nothing but one part of its caption, and has some words in the place of that part."""
    before = caption[: cut.start]
    after = caption[cut.end :]
    return negative.startswith(before) and negative.endswith(after) and len(negative) > len(before) + len(after)


def _as_sentence(part: str, caption: str) -> str:
    """A part as a sentence in the manner of its caption: with a capital first letter and a full stop if it has them."""
    first = part[0].upper() if caption[0].isupper() else part[0]
    ending = caption[len(caption.rstrip(" .!")) :]
    return first + part[1:] + (ending if not part.endswith(ending) else "")


def _cuts_of_run(run: Path) -> Iterator[Cuts]:
    """The cuts of the captions of each shard."""
    parses = read_table(run, "parses", ["caption_id", "text", "tokens", "chunks"])
    components = read_table(run, "components", ["caption_id", "relations"])
    for parses_of_shard, components_of_shard in zip(parses, components, strict=True):
        caption_ids = components_of_shard["caption_id"].to_pylist()
        relations = dict(zip(caption_ids, components_of_shard["relations"].to_pylist(), strict=True))
        parsed = parses_of_shard.to_pylist()
        yield {parse["caption_id"]: cuts(parse, relations.get(parse["caption_id"], [])) for parse in parsed}


def cuts(parse: Json, relations: Sequence[Json]) -> list[TextSpan]:
    """The parts that a caption can be cut to: each has one relation, with the noun phrases of its subject and object.

    Args:
        parse: the caption's row of the table parses.
        relations: those of its row of the table components.

    Returns:
        The parts, in characters of the caption, that are shorter than the whole caption.
    """
    tokens = parse["tokens"]
    text = parse["text"]
    phrase_of_token = {}
    for phrase in parse["chunks"]:
        phrase_of_token.update(dict.fromkeys(range(phrase["start"], phrase["end"]), phrase))
    spans: dict[TextSpan, None] = {}  # without repeats, in order
    for relation in relations:
        # The words of the relation, and the whole noun phrases of its subject and object.
        inside = list(relation["tokens"])
        for token in (relation["subject_token"], relation["object_token"]):
            inside.append(token)
            if token in phrase_of_token:
                phrase = phrase_of_token[token]
                inside += [phrase["start"], phrase["end"] - 1]
        span = TextSpan(tokens[min(inside)]["start"], tokens[max(inside)]["end"])
        # A hypothesis that repeats the premise would tell its label by that.
        if span.end - span.start < len(text.rstrip(" .!")):
            spans[span] = None
    return list(spans)


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
