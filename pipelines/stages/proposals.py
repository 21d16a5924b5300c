"""proposals + parses + lexicon + truth -> negatives, rejections and judged: texts of any origin, judged as negatives.

The stages `import` and `propose` end with this one; they differ only in where the proposals come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...augment.caption import by_image, from_parses
from ...augment.context import contexts_by_image
from ...augment.edits import Accepted
from ...augment.generate import Rows
from ...augment.language.parse import parse
from ...augment.recovery.judge import Judged, Judging, judge
from ...schemas.negatives import JUDGED, NEGATIVES, POSITIVES, REJECTIONS
from ..engine.stage import Stage, StageResult
from ..engine.tables import WholeTable
from ..models.scorer import load_scorer
from ..tables.corpus import load_cloze, load_lexicon, load_truth

if TYPE_CHECKING:
    import pyarrow as pa

    from ...augment.context import Context
    from ...augment.truth.estimates import ImageTruth

Row = Mapping[str, Any]


def make(
    parses: pa.Table, config: Judging, lexicon: WholeTable, truth: WholeTable, proposals: WholeTable
) -> StageResult:
    """Judge the proposals for the captions of a shard; the function of the stage.

    Counters: captions; proposals; `problem.<name>` of those without a text; `<operator>.rows` of the kept ones and
    `<operator>.captions` with at least one; `rejected.<operator>.<reason>`; `captions.without` a kept one.
    """
    cloze = load_cloze(config.cloze)
    entries, known = load_lexicon(lexicon, cloze), load_truth(lexicon, truth, config.max_true, cloze)
    captions = from_parses(parses)
    offered = _offered(proposals, {caption.image_id for caption in captions})
    own = [offered.get(caption.caption_id, []) for caption in captions]
    texts = [row for rows in own for row in rows if not row["problem"]]
    parsed = iter(parse([row["text"] for row in texts], config.spacy_model))
    negatives = [[next(parsed) for row in rows if not row["problem"]] for rows in own]
    images: list[ImageTruth] = []
    contexts: list[Context] = []
    for siblings, context in zip(by_image(captions), contexts_by_image(by_image(captions), entries), strict=True):
        image = known.of_image(siblings)
        images += [image] * len(siblings)
        contexts += context
    scorer = None if config.scorer is None else load_scorer(config.scorer)
    return _tables(parses, own, judge(contexts, images, negatives, config, scorer))


def _tables(parses: pa.Table, proposed: list[list[Row]], results: list[list[Judged]]) -> StageResult:
    """The tables of a shard. results: for each caption, those of its proposals that have a text."""
    import pyarrow as pa

    negatives, rejections = Rows(), Rows()
    counts = Counter({"captions": len(proposed)})
    records: list[dict[str, Any]] = []
    for row, (rows, judged) in enumerate(zip(proposed, results, strict=True)):
        drawn: Counter[str] = Counter()
        by_operator: dict[str, list[Judged]] = {}
        for record, one in _paired(rows, judged):
            found: dict[str, Any] = {"operator": "", "negative_id": None, "reason": record["problem"] or None}
            found |= {"p_true": None, "plausibility": None}
            if one is not None:
                found |= {"operator": one.operator, "p_true": one.outcome.p_true}
                found["plausibility"] = one.outcome.plausibility
                by_operator.setdefault(one.operator, []).append(one)
                if isinstance(one.outcome, Accepted):
                    found["negative_id"] = f"{record['caption_id']}#{one.operator}:{drawn[one.operator]}"
                    drawn[one.operator] += 1
                else:
                    found["reason"] = one.outcome.reason
                    counts[f"rejected.{one.operator}.{one.outcome.reason}"] += 1
            else:
                counts[f"problem.{record['problem']}"] += 1
            records.append({**record, **found})
        for operator, some in sorted(by_operator.items()):
            kept = [one.outcome for one in some if isinstance(one.outcome, Accepted)]
            refused = [one.outcome for one in some if not isinstance(one.outcome, Accepted)]
            negatives.add(row, operator, kept)
            rejections.add(row, operator, refused)
            counts[f"{operator}.rows"] += len(kept)
            counts[f"{operator}.captions"] += bool(kept)
        counts["proposals"] += len(rows)
        counts["captions.without"] += not drawn
    made = pa.Table.from_pylist([{name: record[name] for name in JUDGED.names} for record in records], schema=JUDGED)
    tables = {
        "rejections": rejections.table(parses, REJECTIONS),
        "positives": POSITIVES.empty_table(),
        "judged": made,
        "negatives": negatives.table(parses, NEGATIVES),
    }
    return StageResult(tables, counts)


def _paired(rows: list[Row], judged: list[Judged]) -> Iterator[tuple[Row, Judged | None]]:
    """Each proposal with its result; None for one without a text."""
    results = iter(judged)
    for row in rows:
        yield row, None if row["problem"] else next(results)


def _offered(proposals: WholeTable, images: set[str]) -> dict[str, list[Row]]:
    """The proposals for the captions of some images, by caption_id, in order; reads only their shards."""
    found: dict[str, list[Row]] = {}
    for number in sorted({at for image in images if (at := _shards(proposals).get(image)) is not None}):
        for row in _shard(proposals, number):
            if row["image_id"] in images:
                found.setdefault(row["caption_id"], []).append(row)
    return found


@lru_cache(maxsize=2)
def _shards(proposals: WholeTable) -> dict[str, int]:
    """The number of the shard that has the proposals for an image, by image_id."""
    found: dict[str, int] = {}
    for number, shard in enumerate(proposals.shards()):
        found |= dict.fromkeys(shard.read(["image_id"])["image_id"].unique().to_pylist(), number)
    return found


@lru_cache(maxsize=2)
def _shard(proposals: WholeTable, number: int) -> list[Row]:
    return proposals.shards()[number].read().to_pylist()


def judging(name: str) -> Stage:
    """The stage that judges proposals, under the name of the verb that made them."""
    return Stage(
        name=name,
        input="parses",
        outputs={"rejections": REJECTIONS, "positives": POSITIVES, "judged": JUDGED, "negatives": NEGATIVES},
        apply=make,
        whole=("lexicon", "truth", "proposals"),
    )
