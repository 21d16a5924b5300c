"""proposals + parses + lexicon + truth -> negatives, rejections and judged: the end of `import` and `propose`."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from ...augment.caption import Caption, by_image, from_parses
from ...augment.evidence import batches, gather_evidence
from ...augment.language.parse import parse
from ...augment.recovery import FAMILIES_OF, Judging, Verdict, judge_negatives
from ...augment.rows import Row, RowCollector
from ...schemas.negatives import JUDGED, NEGATIVES, POSITIVES, REJECTIONS
from ..engine.stage import Stage, StageResult
from ..engine.tables import WholeTable
from ..tables.corpus import load_cloze, load_lexicon, load_truth

Record = dict[str, Any]  # a row of the table `proposals`, or one of `judged`
# the columns of `judged` that a proposal without a usable text has, too
NOT_JUDGED: Record = {"operator": "", "verdict": None, "negative_id": None, "p_true": None, "plausibility": None}


def judge_shard(
    parses: pa.Table, config: Judging, lexicon: WholeTable, truth: WholeTable, proposals: WholeTable
) -> StageResult:
    """Judge the proposals for a shard's captions: which are negatives that negcap's own checks accept.

    Args:
        parses: the parsed captions of the shard.
        config: of the checks; `max_true`: the highest accepted probability that another caption makes a negative true.
        lexicon, truth: the tables of the run that the checks need.
        proposals: the table of all proposals.

    Returns:
        The tables of negatives, rejections and judged proposals. Counters: `captions`; `proposals`; `problem.<name>`,
        the proposals without a usable text, by what is wrong; `<operator>.rows` that are kept, and
        `<operator>.captions` that have such; `captions.without`, those that have none; `rejected.<operator>.<reason>`.
    """
    cloze = load_cloze(config.cloze)
    entries = load_lexicon(lexicon, cloze)
    estimates = load_truth(lexicon, truth, config.max_true, cloze)
    captions = from_parses(parses)
    by_caption = _proposals_for({caption.image_id for caption in captions}, proposals)
    proposed = [by_caption.get(caption.caption_id, []) for caption in captions]  # of each caption
    # Of each caption, what it and the others of its image say; in the same order, as the captions of an image are
    # neighbours, and batches keep the order.
    evidence_of_each = [
        evidence
        for images in batches(by_image(captions))
        for evidence in gather_evidence(images, entries.cloze, estimates)
    ]
    verdicts = judge_negatives(evidence_of_each, _parse_proposals(proposed, config.spacy_model), entries, config)
    return _tables(parses, proposed, verdicts)


def _parse_proposals(proposed: list[list[Record]], spacy_model: str | None) -> list[list[Caption]]:
    """The proposals of each caption that have a text, parsed. They go to the parser together, which is faster."""
    usable = [[record for record in records if not record["problem"]] for records in proposed]
    parsed = iter(parse([record["text"] for records in usable for record in records], spacy_model))
    return [[next(parsed) for _ in records] for records in usable]


class JudgedCaption(NamedTuple):
    """The proposals for one caption, judged: as rows of `judged`, and those kept and refused, by operator."""

    records: list[Record]
    kept: dict[str, list[Row]]
    refused: dict[str, list[Row]]


def _sort_proposals(proposed: list[Record], verdicts: list[Verdict]) -> JudgedCaption:
    """Sort the proposals for one caption into kept and refused ones.

    verdicts: of those proposals that have a text (no `problem`), in order.
    """
    judged = JudgedCaption([], defaultdict(list), defaultdict(list))
    next_verdict = iter(verdicts)
    for proposal in proposed:
        record = proposal | NOT_JUDGED | {"reason": proposal["problem"]}
        judged.records.append(record)  # the `|=` below still change it
        if proposal["problem"]:
            continue
        operator, truth_value, row = next(next_verdict)
        record |= {"operator": operator, "verdict": truth_value, "reason": row.reason}
        record |= {"p_true": row.p_true, "plausibility": row.plausibility}
        if row.reason is None:
            record["negative_id"] = f"{proposal['caption_id']}#{operator}:{len(judged.kept[operator])}"
            judged.kept[operator].append(row)
        else:
            judged.refused[operator].append(row)
    return judged


def _tables(parses: pa.Table, proposed: list[list[Record]], verdicts: list[list[Verdict]]) -> StageResult:
    """The tables and counters of a shard of judged proposals.

    Args:
        parses: the captions of the shard.
        proposed: for each of them, its proposals.
        verdicts: for each of them, the verdicts on its proposals that have a text.
    """
    negatives = RowCollector(FAMILIES_OF.__getitem__)
    rejections = RowCollector(FAMILIES_OF.__getitem__)
    counts = Counter({"captions": len(proposed)})
    records: list[Record] = []
    for number, (proposals, verdicts_of_caption) in enumerate(zip(proposed, verdicts, strict=True)):
        judged = _sort_proposals(proposals, verdicts_of_caption)
        records += judged.records
        counts["proposals"] += len(proposals)
        counts.update(f"problem.{proposal['problem']}" for proposal in proposals if proposal["problem"])
        for operator in sorted({*judged.kept, *judged.refused}):
            kept = judged.kept[operator]
            refused = judged.refused[operator]
            negatives.add(number, operator, kept)
            rejections.add(number, operator, refused)
            counts[f"{operator}.rows"] += len(kept)
            counts[f"{operator}.captions"] += 1 if kept else 0
            counts.update(f"rejected.{operator}.{row.reason}" for row in refused)
        counts["captions.without"] += 0 if any(judged.kept.values()) else 1
    tables = {
        "rejections": rejections.table(parses, REJECTIONS),
        "positives": POSITIVES.empty_table(),
        "judged": pa.Table.from_pylist(records, JUDGED),
        "negatives": negatives.table(parses, NEGATIVES),
    }
    return StageResult(tables, counts)


def _proposals_for(images: set[str], proposals: WholeTable) -> dict[str, list[Record]]:
    """The proposals for the captions of some images, by caption_id, in order; reads only their shards."""
    by_caption: dict[str, list[Record]] = defaultdict(list)
    shard_of_image = _shard_of_image(proposals)
    for number in sorted({shard_of_image[image] for image in images if image in shard_of_image}):
        for record in _records_of_shard(proposals, number):
            if record["image_id"] in images:
                by_caption[record["caption_id"]].append(record)
    return by_caption


@lru_cache(maxsize=2)
def _shard_of_image(proposals: WholeTable) -> dict[str, int]:
    """The number of the shard that has the proposals for an image, by image_id."""
    shard_of_image: dict[str, int] = {}
    for number, shard in enumerate(proposals.shards()):
        shard_of_image |= dict.fromkeys(shard.read(["image_id"])["image_id"].unique().to_pylist(), number)
    return shard_of_image


@lru_cache(maxsize=2)
def _records_of_shard(proposals: WholeTable, number: int) -> list[Record]:
    """The rows of a shard of proposals. The last shards that were read are kept, as they are asked for again."""
    return proposals.shards()[number].read().to_pylist()


def judging(name: str) -> Stage:
    """The stage that judges proposals, under the name of the verb that made them."""
    outputs = {"rejections": REJECTIONS, "positives": POSITIVES, "judged": JUDGED, "negatives": NEGATIVES}
    return Stage(name, "parses", outputs, judge_shard, whole=("lexicon", "truth", "proposals"))
