"""From a caption to its negatives: operators propose candidates, each is checked, and edits of accepted ones are
applied.

Uses no files and no processes: both the stage `negatives` and the Python API call it.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas.negatives import NEGATIVES, POSITIVE, POSITIVES, REJECTIONS
from .caption import MAX_TOKENS, Caption, by_image, from_parses
from .cloze.threads import single_threaded
from .context import Context, contexts_by_image, parts
from .edits import NOTHING, Accepted, Generated, Rejected, apply
from .implausible import reject_implausible
from .operators import OPERATORS, PRESETS, operator
from .rng import record_rng
from .rows import Rows
from .truth.contradiction import assess
from .truth.estimates import MAX_P_TRUE, Truth, check_max_p_true

if TYPE_CHECKING:
    import pyarrow as pa

    from .lexicon.lexicon import Lexicon
    from .plausibility import SentenceScorer

# An operator proposes at most DRAWS_PER_NEGATIVE * quota + EXTRA_DRAWS candidates for a caption.
DRAWS_PER_NEGATIVE = 4
EXTRA_DRAWS = 16
OPERATOR_ERROR, TOO_LONG = "operator_error", "too_long"


@dataclass(frozen=True)
class Settings:
    """How negatives are made.

    seed: seed of the random choices. operators: names in `negcap.augment.operators.OPERATORS`. per_family: each
    operator makes at most its `share` times this number of negatives per caption. max_true: the highest estimated
    probability that one more caption of the image would make a negative true, lower numbers excepted. min_plausibility:
    the lowest plausibility of a negative, in nats; None: only the operators' own limits hold. max_loss: the most that
    the words which a negative shares with its caption may lose in log probability, in nats (see
    `negcap.augment.plausibility.Change`); None: only the operators' own limits hold. scorer: the folder of a language
    model that gives the plausibility of negatives, loaded by the caller; None: the cloze model does. cloze: the file of
    the cloze model that the caller gave the lexicon; None: the shipped one. Raises ValueError for an unknown or
    repeated operator, per_family below 1, max_true not between 0 and 1, or max_loss below 0.
    """

    seed: int = 0
    operators: tuple[str, ...] = PRESETS["vse-c"]
    per_family: int = 20
    max_true: float = MAX_P_TRUE
    min_plausibility: float | None = None
    max_loss: float | None = None
    scorer: Path | None = None
    cloze: Path | None = None

    def __post_init__(self) -> None:
        for name in self.operators:
            operator(name)
        if len(set(self.operators)) != len(self.operators):
            raise ValueError(f"operators must be distinct, were: {','.join(self.operators)}")
        if self.per_family < 1:
            raise ValueError(f"per_family must be >= 1, was: {self.per_family}")
        check_max_p_true(self.max_true)
        if self.max_loss is not None and not self.max_loss >= 0:
            raise ValueError(f"max_loss must be >= 0, was: {self.max_loss}")

    def quota(self, name: str) -> int:
        """The maximum number of negatives per caption from the operator `name`, whatever other operators run."""
        return ceil(self.per_family * OPERATORS[name].share)


def generate_tables(
    parses: pa.Table,
    lexicon: Lexicon,
    settings: Settings,
    truth: Truth | None = None,
    scorer: SentenceScorer | None = None,
) -> tuple[Mapping[str, pa.Table], Counter[str]]:
    """The tables negatives, positives and rejections for a `parses` table, by name, and counters.

    The captions of an image must be consecutive. Replacements come from `lexicon`; with `truth`, candidates that are
    too likely true are rejected too. Counters: captions; for each operator `<name>.captions` (with at least one result)
    and `<name>.rows`; for each family `family.<name>.captions` and `family.<name>.rows`;
    `rejected.<operator>.<reason>`; `captions.without` (captions without any negative).
    """
    negatives, positives, rejections = Rows(), Rows(), Rows()
    counts: Counter[str] = Counter()
    captions = from_parses(parses)
    counts["captions"] = len(captions)
    row = 0
    for part in parts(by_image(captions)):
        for generated in generate_for_images(part, lexicon, settings, truth, scorer):
            for name, (accepted, rejected) in generated.items():
                made = positives if OPERATORS[name].family == POSITIVE else negatives
                made.add(row, name, accepted)
                rejections.add(row, name, rejected)
            _count(generated, counts)
            row += 1
    tables = {
        "rejections": rejections.table(parses, REJECTIONS),
        "positives": positives.table(parses, POSITIVES),
        "negatives": negatives.table(parses, NEGATIVES),
    }
    reasons = tables["rejections"].group_by(["operator", "reason"]).aggregate([([], "count_all")])
    for name, reason, rows in zip(*reasons.to_pydict().values(), strict=True):
        counts[f"rejected.{name}.{reason}"] += rows
    return tables, counts


@single_threaded()
def generate_for_images(
    images: Sequence[Sequence[Caption]],
    lexicon: Lexicon,
    settings: Settings,
    truth: Truth | None = None,
    scorer: SentenceScorer | None = None,
) -> list[dict[str, Generated]]:
    """For each caption of some images, the results of the operators in the settings by name; see `generate_tables`."""
    every: list[Context] = []
    made: list[dict[str, Generated]] = []
    for siblings, own in zip(images, contexts_by_image(images, lexicon, truth), strict=True):
        every += own
        made += [
            {name: try_operator(name, caption, context, settings) for name in settings.operators}
            for caption, context in zip(siblings, own, strict=True)
        ]
    return reject_implausible(every, made, scorer, settings.min_plausibility, settings.max_loss)


def try_operator(name: str, caption: Caption, context: Context, settings: Settings) -> Generated:
    """As `apply_operator`, but no caption raises an error, other than MemoryError: it is rejected whole instead.

    An error of the operator is a fault of negcap. It is rejected as `operator_error`, with the error in the detail, and
    a RuntimeWarning says so, which Python prints once a process. A caption that is too long is rejected as `too_long`.
    """
    if caption.too_long:
        return _rejected_whole(TOO_LONG, f"caption must be <= {MAX_TOKENS} tokens")
    try:
        return apply_operator(name, caption, context, settings)
    except MemoryError:  # says something of the machine, not of the caption
        raise
    except Exception as error:
        said = " ".join(f"operator {name} raised {type(error).__name__}: {error}".split())
        warnings.warn(f"{said}; its caption is rejected as {OPERATOR_ERROR}", RuntimeWarning, stacklevel=2)
        return _rejected_whole(OPERATOR_ERROR, said)


def _rejected_whole(reason: str, detail: str) -> Generated:
    return Generated([], [Rejected(NOTHING, reason, None, detail=detail)])


def apply_operator(name: str, caption: Caption, context: Context, settings: Settings) -> Generated:
    """Check the candidates of one operator for a caption, in order, until its quota is accepted.

    Those of an unchecked operator are accepted as they are. A candidate whose text equals a caption of the image is
    rejected (`sibling_says_so`). The random stream depends only on the seed, the operator and the caption's id, so
    neither order nor other operators change the result.
    """
    quota = settings.quota(name)
    rng = record_rng(settings.seed, name, caption.caption_id)
    made, own = Generated([], []), set[str]()
    operator = OPERATORS[name]
    for propose in (operator.propose, operator.fallback):
        for candidate in propose(caption, context, rng, DRAWS_PER_NEGATIVE * quota + EXTRA_DRAWS):
            reason, p_true = assess(candidate, caption, context, context.image) if operator.checked else (None, None)
            if reason is None:
                text = apply(caption.text, candidate.edits)
                lower = text.lower()
                if lower in own:
                    continue
                if lower not in context.texts:
                    own.add(lower)
                    made.accepted.append(Accepted(candidate, text, p_true, candidate.plausibility))
                    if len(own) == quota:
                        break
                    continue
                reason, p_true = "sibling_says_so", None
            made.rejected.append(Rejected(candidate, reason, p_true))
        if own:
            break
    return made


def _count(generated: Mapping[str, Generated], counts: Counter[str]) -> None:
    """Add the results for one caption to the counters that `generate_tables` describes."""
    families = set()
    for name, (accepted, _) in generated.items():
        rows, family = len(accepted), OPERATORS[name].family
        counts[f"{name}.rows"] += rows
        counts[f"{name}.captions"] += rows > 0
        counts[f"family.{family}.rows"] += rows
        if rows:
            families.add(family)
    for family in families:
        counts[f"family.{family}.captions"] += 1
    counts["captions.without"] += not families - {POSITIVE}
