"""parses + lexicon + balance -> negatives, positives and rejections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import ceil
from typing import TYPE_CHECKING

from augment.caption import Caption, from_parses
from augment.context import Context, contexts
from augment.contradiction import check
from augment.edits import Candidate, apply
from augment.operators import OPERATORS, PRESETS, operator
from augment.rng import record_rng
from pipelines.engine.run import Stage, StageResult
from pipelines.engine.shards import WholeTable
from schemas.negatives import EDITS, NEGATIVES, POSITIVE, POSITIVES, REJECTIONS

if TYPE_CHECKING:
    import pyarrow as pa

    from augment.language.lexicon import Lexicon

DRAWS_PER_NEGATIVE = 4
SPARE_DRAWS = 16


@dataclass(frozen=True)
class NegativesConfig:
    """How negatives are made.

    Raises ValueError for an unknown operator, or per_family below 1.
    """

    seed: int = 0
    operators: tuple[str, ...] = PRESETS["vse-c"]
    per_family: int = 20

    def __post_init__(self) -> None:
        for name in self.operators:
            operator(name)
        if len(set(self.operators)) != len(self.operators):
            raise ValueError(f"operators must be distinct, were: {','.join(self.operators)}")
        if self.per_family < 1:
            raise ValueError(f"per_family must be >= 1, was: {self.per_family}")

    def quota(self, name: str) -> int:
        """The most negatives a caption gets from one operator: its share of the family, whatever else runs."""
        return ceil(self.per_family * OPERATORS[name].share)


@lru_cache(maxsize=2)
def load_lexicon(lexicon: WholeTable, balance: WholeTable) -> Lexicon:
    """The balanced lexicon of a run, once a process and content."""
    from augment.language.lexicon import Lexicon

    return Lexicon.from_table(lexicon.read(), balance.read())


def make(parses: pa.Table, config: NegativesConfig, lexicon: WholeTable, balance: WholeTable) -> StageResult:
    """The negatives, positives and rejections of one shard."""
    tables, counts = negatives(parses, load_lexicon(lexicon, balance), config)
    return StageResult(tables, counts)


class _Rows:
    """Columns of a table being filled; rows of a caption stand together, so its keys are stored once with a count."""

    def __init__(self) -> None:
        self.source: list[int] = []
        self.operator: list[str] = []
        self.label: list[str] = []
        self.text: list[str] = []
        self.edits: list[int] = [0]
        self.start: list[int] = []
        self.end: list[int] = []
        self.old: list[str] = []
        self.new: list[str] = []
        self.change: list[tuple[str, str, str | None, str | None]] = []

    def add(self, row: int, name: str, label: str, candidate: Candidate, caption: str, text: str) -> None:
        self.source.append(row)
        self.operator.append(name)
        self.label.append(label)
        self.text.append(text)
        for start, end, new in candidate.edits:
            self.start.append(start)
            self.end.append(end)
            self.old.append(caption[start:end])
            self.new.append(new)
        self.edits.append(len(self.start))
        self.change.append(candidate[3:7])

    def table(self, parses: pa.Table, schema: pa.Schema) -> pa.Table:
        """The rows as a table of `schema` (negatives, positives or rejections)."""
        import pyarrow as pa

        source = pa.array(self.source, pa.int32())
        item = EDITS.value_type
        values = [
            pa.array(self.start, pa.int32()),
            pa.array(self.end, pa.int32()),
            pa.array(self.old, pa.string()),
            pa.array(self.new, pa.string()),
        ]
        edits = pa.ListArray.from_arrays(
            pa.array(self.edits, pa.int32()),
            pa.StructArray.from_arrays(values, fields=list(item)),
            type=EDITS,
        )
        families = {name: OPERATORS[name].family for name in OPERATORS}
        changes = list(zip(*self.change, strict=True)) or [()] * 4
        columns: dict[str, pa.Array] = {
            "caption": parses["text"].take(source),
            "family": pa.array([families[name] for name in self.operator], pa.string()),
            "operator": pa.array(self.operator, pa.string()),
            "text": pa.array(self.text, pa.string()),
            "edits": edits,
            **dict.fromkeys(("negative_id", "positive_id", "reason"), pa.array(self.label, pa.string())),
        }
        for name in ("caption_id", "image_id", "split", "origin"):
            columns[name] = parses[name].take(source)
        for name, column in zip(
            ("replaced", "replacement", "replaced_synset", "replacement_synset"), changes, strict=True
        ):
            columns[name] = pa.array(column, pa.string())
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def negatives(
    parses: pa.Table, lexicon: Lexicon, config: NegativesConfig
) -> tuple[Mapping[str, pa.Table], Counter[str]]:
    """The negatives, positives and rejections of whole images, and counters of what was made.

    Counters: captions; per operator `<name>.captions` (with at least one), `<name>.rows`; per family
    `family.<name>.captions`, `.rows`; `rejected.<operator>.<reason>`; `captions.without` any negative.
    """
    false, true, refused = _Rows(), _Rows(), _Rows()
    counts: Counter[str] = Counter()
    captions = from_parses(parses)
    counts["captions"] = len(captions)
    row = 0
    for _, group in groupby(captions, key=lambda caption: caption.image_id):
        siblings = list(group)
        taken = {caption.text.lower() for caption in siblings}
        for caption, context in zip(siblings, contexts(siblings, lexicon), strict=True):
            made: Counter[str] = Counter()
            for name in config.operators:
                accepted = true if OPERATORS[name].family == POSITIVE else false
                made[name] = _propose(caption, context, name, config, row, taken, accepted, refused)
            for name, rows in made.items():
                family = OPERATORS[name].family
                counts[f"{name}.rows"] += rows
                counts[f"{name}.captions"] += rows > 0
                counts[f"family.{family}.rows"] += rows
            for family in {OPERATORS[name].family for name, rows in made.items() if rows}:
                counts[f"family.{family}.captions"] += 1
            counts["captions.without"] += not any(n for name, n in made.items() if OPERATORS[name].family != POSITIVE)
            row += 1
    for name, reason in zip(refused.operator, refused.label, strict=True):
        counts[f"rejected.{name}.{reason}"] += 1
    tables = {
        "rejections": refused.table(parses, REJECTIONS),
        "positives": true.table(parses, POSITIVES),
        "negatives": false.table(parses, NEGATIVES),
    }
    return tables, counts


def _propose(
    caption: Caption,
    context: Context,
    name: str,
    config: NegativesConfig,
    row: int,
    taken: set[str],
    accepted: _Rows,
    refused: _Rows,
) -> int:
    """Let one operator propose, judge every candidate, and keep up to its quota; the number kept."""
    quota = config.quota(name)
    rng = record_rng(config.seed, name, caption.caption_id)
    own: set[str] = set()
    usual = False
    for candidate in OPERATORS[name].propose(caption, context, rng, DRAWS_PER_NEGATIVE * quota + SPARE_DRAWS):
        if candidate.spare and usual:
            break
        reason = check(candidate, caption, context)
        text = ""
        if reason is None:
            text = apply(caption.text, candidate.edits)
            lower = text.lower()
            if lower in own:
                continue
            if lower in taken:
                reason = "sibling_says_so"
        if reason is not None:
            refused.add(row, name, reason, candidate, caption.text, "")
            continue
        own.add(lower)
        usual |= not candidate.spare
        accepted.add(row, name, f"{caption.caption_id}#{name}:{len(own) - 1}", candidate, caption.text, text)
        if len(own) == quota:
            break
    return len(own)


STAGE = Stage(
    name="negatives",
    input="parses",
    outputs={"rejections": REJECTIONS, "positives": POSITIVES, "negatives": NEGATIVES},
    apply=make,
    code=("augment", "pipelines.stages.negatives"),
    whole=("lexicon", "balance"),
)
