"""proposals + parses + lexicon + truth -> negatives, rejections and judged: the end of `import` and `propose`."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import lru_cache
from typing import Any

import pyarrow as pa

from ...augment.caption import by_image, from_parses
from ...augment.evidence import batches, gather_evidence
from ...augment.language.parse import parse
from ...augment.recovery import FAMILIES_OF, Judging, Verdict, judge
from ...augment.rows import Row, RowCollector
from ...schemas.negatives import JUDGED, NEGATIVES, POSITIVES, REJECTIONS
from ..engine.stage import Stage, StageResult
from ..engine.tables import WholeTable
from ..tables.corpus import load_cloze, load_lexicon, load_truth

Record = dict[str, Any]


def make(
    parses: pa.Table, config: Judging, lexicon: WholeTable, truth: WholeTable, proposals: WholeTable
) -> StageResult:
    """Judge the proposals for a shard's captions. Counters: captions; proposals; `problem.<name>` of those without a
    text; `<operator>.rows` kept and `<operator>.captions` with one; `rejected.<operator>.<reason>`; `captions.without`.
    """
    cloze = load_cloze(config.cloze)
    entries = load_lexicon(lexicon, cloze)
    known = load_truth(lexicon, truth, config.max_true, cloze)
    captions = from_parses(parses)
    offered = _offered(proposals, {caption.image_id for caption in captions})
    own = [offered.get(caption.caption_id, []) for caption in captions]
    parsed = iter(parse([row["text"] for rows in own for row in rows if not row["problem"]], config.spacy_model))
    negatives = [[next(parsed) for row in rows if not row["problem"]] for rows in own]
    evidence = [one for images in batches(by_image(captions)) for one in gather_evidence(images, entries.cloze, known)]
    return _tables(parses, own, judge(evidence, negatives, entries, config))


def _tables(parses: pa.Table, proposed: list[list[Record]], results: list[list[Verdict]]) -> StageResult:
    """The tables of a shard. results: for each caption, those of its proposals that have a text."""
    negatives = RowCollector(FAMILIES_OF.__getitem__)
    rejections = RowCollector(FAMILIES_OF.__getitem__)
    counts = Counter({"captions": len(proposed)})
    records: list[Record] = []
    for row, (rows, judged) in enumerate(zip(proposed, results, strict=True)):
        kept: dict[str, list[Row]] = defaultdict(list)  # by operator, as refused
        refused: dict[str, list[Row]] = defaultdict(list)
        waiting = iter(judged)
        for record in rows:
            record |= {"operator": "", "verdict": None, "negative_id": None, "p_true": None, "plausibility": None}
            records.append(record | {"reason": record["problem"]})
            if record["problem"]:
                counts[f"problem.{record['problem']}"] += 1
                continue
            operator, verdict, made = next(waiting)
            found: Record = {"operator": operator, "verdict": verdict}
            found |= {"p_true": made.p_true, "plausibility": made.plausibility}
            if made.reason is None:
                found |= {"negative_id": f"{record['caption_id']}#{operator}:{len(kept[operator])}", "reason": None}
                kept[operator].append(made)
            else:
                found["reason"] = made.reason
                refused[operator].append(made)
                counts[f"rejected.{operator}.{made.reason}"] += 1
            records[-1] |= found
        for operator in sorted({*kept, *refused}):
            negatives.add(row, operator, kept[operator])
            rejections.add(row, operator, refused[operator])
            counts[f"{operator}.rows"] += len(kept[operator])
            counts[f"{operator}.captions"] += bool(kept[operator])
        counts["proposals"] += len(rows)
        counts["captions.without"] += not any(kept.values())
    tables = {
        "rejections": rejections.table(parses, REJECTIONS),
        "positives": POSITIVES.empty_table(),
        "judged": pa.Table.from_pylist(records, JUDGED),
        "negatives": negatives.table(parses, NEGATIVES),
    }
    return StageResult(tables, counts)


def _offered(proposals: WholeTable, images: set[str]) -> dict[str, list[Record]]:
    """The proposals for the captions of some images, by caption_id, in order; reads only their shards."""
    found: dict[str, list[Record]] = defaultdict(list)
    of_image = _shards(proposals)
    for number in sorted({of_image[image] for image in images if image in of_image}):
        for row in _shard(proposals, number):
            if row["image_id"] in images:
                found[row["caption_id"]].append(row)
    return found


@lru_cache(maxsize=2)
def _shards(proposals: WholeTable) -> dict[str, int]:
    """The number of the shard that has the proposals for an image, by image_id."""
    found: dict[str, int] = {}
    for number, shard in enumerate(proposals.shards()):
        found |= dict.fromkeys(shard.read(["image_id"])["image_id"].unique().to_pylist(), number)
    return found


@lru_cache(maxsize=2)
def _shard(proposals: WholeTable, number: int) -> list[Record]:
    return proposals.shards()[number].read().to_pylist()


def judging(name: str) -> Stage:
    """The stage that judges proposals, under the name of the verb that made them."""
    outputs = {"rejections": REJECTIONS, "positives": POSITIVES, "judged": JUDGED, "negatives": NEGATIVES}
    return Stage(name, "parses", outputs, make, whole=("lexicon", "truth", "proposals"))
