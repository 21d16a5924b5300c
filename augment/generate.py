"""From captions to their negatives: operators propose candidates, each is checked, and edits of accepted ones applied.

Uses no files and no processes: both the stage `negatives` and the Python API call it.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Self

import numpy as np
from pydantic import Field, model_validator

from ..schemas.negatives import EDITS, NEGATIVES, POSITIVE, POSITIVES, REJECTIONS
from .caption import MAX_TOKENS, Caption, by_image, cached, from_parses
from .cloze.network import single_threaded
from .context import Context, batches, contexts
from .edits import COMPATIBLE, IMPLAUSIBLE, LIKELY_TRUE, NOTHING, Generated, Judged, apply
from .judgement import MAX_P_BOTH, MAX_P_ODD, judge
from .language.concreteness import Concreteness
from .operators import OPERATORS, PRESETS, operator
from .plausibility import compare
from .recovery import FAMILIES_OF
from .reproducible import record_rng
from .settings import AtLeastOne, Cloze, MaxBoth, MaxOdd, MaxTrue, Seed, Settings
from .truth.contradiction import assess
from .truth.estimates import MAX_P_TRUE, Truth
from .truth.evidence import explained

if TYPE_CHECKING:
    import pyarrow as pa

    from .lexicon.lexicon import Lexicon

# An operator proposes at most DRAWS_PER_NEGATIVE * quota + EXTRA_DRAWS candidates for a caption; of those that pass the
# checks, READ_PER_NEGATIVE * quota are compared with it, since many are odd.
DRAWS_PER_NEGATIVE, EXTRA_DRAWS, READ_PER_NEGATIVE = 4, 16, 3
NO_CANDIDATE, OPERATOR_ERROR, TOO_LONG = "no_candidate", "operator_error", "too_long"  # reasons, as those of edits
NEAREST = (IMPLAUSIBLE, LIKELY_TRUE)  # of the reasons for a caption without negatives, the last checked first
TRIED = 8  # one of so many captions without negatives, by chance, is given to operators that do not run
KEYS = ("caption_id", "image_id", "split", "origin")
# The columns of the fields of `Judged` after the candidate, and of the fields of `Candidate` that say what it changes.
OUTCOMES = ("text", "p_true", "plausibility", "p_odd", "p_both", "reason", "detail", "sibling_id")
CHANGES = ("replaced", "replacement", "replaced_synset", "replacement_synset")
NOUNS = 1 << 14  # number of replacements whose concreteness is cached
FAMILIES = FAMILIES_OF | {name: operator.family for name, operator in OPERATORS.items()}


class NegativesConfig(Settings):
    """How negatives are made. The caller loads `cloze`.

    Each operator makes at most its `share` times `per_family` negatives per caption.
    """

    seed: Seed = 0
    operators: tuple[str, ...] = Field(PRESETS["vse-c"], description="operator to run, instead of a preset")
    per_family: AtLeastOne = Field(20, description="negatives per caption and family, at most")
    max_true: MaxTrue = MAX_P_TRUE
    max_odd: MaxOdd = MAX_P_ODD
    max_both: MaxBoth = MAX_P_BOTH
    cloze: Cloze = None
    excluded: bool = Field(
        False, description="record as rejections also words that are not drawn: they may be true, or are too odd"
    )

    @model_validator(mode="after")
    def _check_operators(self) -> Self:
        for name in self.operators:
            operator(name)
        if len(set(self.operators)) != len(self.operators):
            raise ValueError(f"operators must be distinct, were: {','.join(self.operators)}")
        return self

    def quota(self, name: str) -> int:
        """The maximum number of negatives per caption from the operator `name`, whatever other operators run."""
        return ceil(self.per_family * OPERATORS[name].share)


def generate_tables(
    parses: pa.Table, lexicon: Lexicon, settings: NegativesConfig, truth: Truth | None = None
) -> tuple[Mapping[str, pa.Table], Counter[str]]:
    """The tables negatives, positives and rejections for a `parses` table, by name, and counters.

    The captions of an image must be consecutive. Replacements come from `lexicon`; with `truth`, candidates that are
    too likely true are rejected too. Counters: captions; for each operator `<name>.captions` (with at least one result)
    and `<name>.rows`; for each family `family.<name>.captions` and `family.<name>.rows`;
    `rejected.<operator>.<reason>`; `captions.without` (captions without any negative), and of these
    `without.<reason>`: that of the candidate that came nearest, one of NEAREST, `no_candidate`, or
    `refused` for others; `tried`, how many of them, chosen at random, were given to the checked operators that do not
    run, and `more.<operator>`, for how many of these the operator has a negative.
    """
    others = [name for name in PRESETS["all"] if name not in settings.operators and FAMILIES[name] != POSITIVE]
    negatives, positives, rejections = Rows(), Rows(), Rows()
    captions = from_parses(parses)
    counts = Counter({"captions": len(captions)})
    row = 0
    for images in batches(by_image(captions)):
        for generated in generate_for_images(images, lexicon, settings, truth, explain=True, others=others):
            tried = {name: generated.pop(name).accepted for name in others if name in generated}
            counts["tried"] += bool(tried)
            counts.update(f"more.{name}" for name, accepted in tried.items() if accepted)
            families = set()
            for name, (accepted, rejected) in generated.items():
                family = OPERATORS[name].family
                (positives if family == POSITIVE else negatives).add(row, name, accepted)
                rejections.add(row, name, rejected)
                counts[f"{name}.rows"] += len(accepted)
                counts[f"{name}.captions"] += bool(accepted)
                counts[f"family.{family}.rows"] += len(accepted)
                if accepted:
                    families.add(family)
            counts.update(f"family.{family}.captions" for family in families)
            if not families - {POSITIVE}:
                reasons = {rejected.reason for made in generated.values() for rejected in made.rejected}
                counts["captions.without"] += 1
                nearest = NO_CANDIDATE if reasons <= {NO_CANDIDATE} else "refused"
                counts[f"without.{next((one for one in NEAREST if one in reasons), nearest)}"] += 1
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
    settings: NegativesConfig,
    truth: Truth | None = None,
    *,
    explain: bool = False,
    others: Sequence[str] = (),
) -> list[dict[str, Generated]]:
    """For each caption of some images, the results of the operators in the settings by name; see `generate_tables`.

    images: one of the `batches` of a larger number; their captions are read together. explain: whether rejections say
    which word decided. others: operators whose results are added for some of the captions that have no negatives.
    """
    read = contexts(
        images, lexicon, truth, **{name: getattr(settings, name) for name in ("max_odd", "max_both", "excluded")}
    )
    generated: list[dict[str, Generated]] = []
    for context in read:
        generated.append({name: try_operator(name, context.caption, context, settings) for name in settings.operators})
        for made in generated[-1].values() if explain else ():
            made.rejected[:] = [explained(rejected, context) for rejected in made.rejected]
    left = reject_implausible(read, generated, settings)
    if others:
        bare = [number for number, its in enumerate(left) if not _has_negatives(its) and _tried(read[number].caption)]
        some = read[0].batch.part(bare).contexts
        tried = [{name: try_operator(name, one.caption, one, settings) for name in others} for one in some]
        for number, of_caption in zip(bare, reject_implausible(some, tried, settings), strict=True):
            left[number] |= of_caption
        some.clear()
    read.clear()  # contexts and their batch refer to each other, and stages pause the garbage collector
    return [
        {name: made._replace(accepted=made.accepted[: settings.quota(name)]) for name, made in of_caption.items()}
        for of_caption in left
    ]


def _has_negatives(made: Mapping[str, Generated]) -> bool:
    return any(one.accepted and FAMILIES[name] != POSITIVE for name, one in made.items())


def _tried(caption: Caption) -> bool:
    """Whether operators that do not run are tried on a caption: for one of TRIED, whatever the shard or the seed."""
    return record_rng(0, "tried", caption.caption_id).randrange(TRIED) == 0


def try_operator(name: str, caption: Caption, context: Context, settings: NegativesConfig) -> Generated:
    """As `apply_operator`, but no caption raises an error, other than MemoryError: it is rejected whole instead.

    An error of the operator is a fault of negcap. It is rejected as `operator_error`, with the error in the detail, and
    a RuntimeWarning says so, which Python prints once a process. A caption that is too long is rejected as `too_long`.
    """
    reason, detail = TOO_LONG, f"caption must be <= {MAX_TOKENS} tokens"
    if not caption.too_long:
        try:
            return apply_operator(name, caption, context, settings)
        except MemoryError:  # says something of the machine, not of the caption
            raise
        except Exception as error:
            detail = " ".join(f"operator {name} raised {type(error).__name__}: {error}".split())
            reason = OPERATOR_ERROR
            warnings.warn(f"{detail}; its caption is rejected as {reason}", RuntimeWarning, stacklevel=2)
    return Generated([], [Judged(NOTHING, "", None, reason=reason, detail=detail)])


def apply_operator(name: str, caption: Caption, context: Context, settings: NegativesConfig) -> Generated:
    """Check the candidates of one operator for a caption, in order, until its quota is accepted, or, if they are to be
    compared with the caption, READ_PER_NEGATIVE times as many.

    Those of an unchecked operator are accepted as they are. A candidate whose text equals a caption of the image is
    rejected (`sibling_says_so`). The random stream depends only on the seed, the operator and the caption's id, so
    neither order nor other operators change the result.
    """
    quota = settings.quota(name)
    rng = record_rng(settings.seed, name, caption.caption_id)
    accepted, rejected, texts, operator = list[Judged](), list[Judged](), set[str](), OPERATORS[name]
    enough = quota * READ_PER_NEGATIVE if operator.compared else quota
    for propose in (operator.propose, operator.fallback):
        for candidate in propose(caption, context, rng, DRAWS_PER_NEGATIVE * quota + EXTRA_DRAWS):
            reason, p_true = assess(candidate, caption, context, context.image) if operator.checked else (None, None)
            if reason is None:
                text = apply(caption.text, candidate.edits)
                lower = text.lower()
                if lower in texts:
                    continue
                if lower not in context.texts:
                    texts.add(lower)
                    accepted.append(Judged(candidate, text, p_true, candidate.plausibility))
                    if len(texts) == enough:
                        break
                    continue
                reason, p_true = "sibling_says_so", None
            p_odd, p_both = candidate.judged or (None, None)
            limit = _limit(reason, settings) if candidate.rejected and candidate.edits and candidate.judged else None
            rejected.append(Judged(candidate, "", p_true, candidate.plausibility, p_odd, p_both, reason, limit))
        if texts:
            break
    if not accepted and not rejected:
        rejected.append(Judged(NOTHING, "", None, reason=NO_CANDIDATE))
    return Generated(accepted, rejected)


def reject_implausible(
    contexts: Sequence[Context], generated: Sequence[Mapping[str, Generated]], settings: NegativesConfig
) -> list[dict[str, Generated]]:
    """Compare negatives with their captions, and move those that readers would refuse to the rejected.

    contexts: one for each caption. generated: for each caption, the results by operator; the result has the same form,
    with what was estimated of each negative. Refused is what readers would call odd with a probability above the
    settings' `max_odd`, or true of the same photo with one above `max_both` (see `negcap.augment.judgement`). Operators
    that are not compared keep all their negatives, unchanged.
    """
    results: list[dict[str, Generated]] = []
    read: list[tuple[Context, Generated, Judged]] = []
    for context, of_caption in zip(contexts, generated, strict=True):
        results.append({})
        for name, (accepted, rejected) in of_caption.items():
            compared = OPERATORS[name].compared
            results[-1][name] = kept = Generated([] if compared else accepted, rejected)
            read += [(context, kept, negative) for negative in accepted if compared]
    pairs = [(one.caption, one.reading, its.candidate) for one, _, its in read if its.candidate.judged is None]
    changes = compare(*zip(*pairs, strict=True)) if pairs else []
    odd, both = judge(changes, *zip(*pairs, strict=True)) if pairs else (np.zeros(0), np.zeros(0))
    compared_now = zip((change.log_odds for change in changes), odd.tolist(), both.tolist(), strict=True)
    for _, kept, negative in read:
        its, text, p_true = negative[:3]
        log_odds, p_odd, p_both = next(compared_now) if its.judged is None else (its.plausibility, *its.judged)
        negative = Judged(its, text, p_true, log_odds, p_odd, p_both)
        reason = IMPLAUSIBLE if p_odd > settings.max_odd else COMPATIBLE if p_both > settings.max_both else None
        if reason is None:
            kept.accepted.append(negative)
        else:
            kept.rejected.append(negative._replace(reason=reason, detail=_limit(reason, settings)))
    return results


def _limit(reason: str, settings: NegativesConfig) -> str | None:
    """The limit that a negative with this reason does not keep; None for other reasons."""
    limits = {IMPLAUSIBLE: ("p_odd", settings.max_odd), COMPATIBLE: ("p_both", settings.max_both)}
    return "{} must be <= {:g}".format(*limits[reason]) if reason in limits else None


class Rows:
    """Collects accepted or rejected candidates, in order, for one table."""

    def __init__(self) -> None:
        # Of each candidate: its caption's row in the parses, operator, and number among those of caption and operator.
        self._rows, self._operators, self._numbers = list[int](), list[str](), list[int]()
        self._judged: list[Judged] = []

    def add(self, row: int, operator: str, judged: Sequence[Judged]) -> None:
        """Add the results of one operator for the caption in row number `row` of the parses."""
        self._rows += [row] * len(judged)
        self._operators += [operator] * len(judged)
        self._numbers += range(len(judged))
        self._judged += judged

    def table(self, parses: pa.Table, schema: pa.Schema) -> pa.Table:
        """The rows as a table of `schema` (negatives or rejections); ids count those of a caption and operator."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._judged:
            return schema.empty_table()
        rows = pa.array(self._rows, pa.int32())
        columns = {name: parses[name].combine_chunks().take(rows) for name in (*KEYS, "text")}
        columns["caption"] = columns["text"]
        columns["operator"] = pa.array(self._operators, pa.string())
        columns["family"] = pa.array([FAMILIES[name] for name in self._operators], pa.string())
        made_by = pc.binary_join_element_wise(columns["caption_id"], columns["operator"], "#")
        label = pc.binary_join_element_wise(made_by, pa.array(self._numbers).cast(pa.string()), ":")
        columns |= {"negative_id": label, "positive_id": label}
        candidates, *outcomes = zip(*self._judged, strict=True)
        kinds, edits, _, *changes, _, _, _, _ = zip(*candidates, strict=True)
        for name, values in zip((*OUTCOMES, *CHANGES), (*outcomes, *changes), strict=True):
            if name in schema.names:
                columns[name] = pa.array(values, schema.field(name).type)
        if "concreteness" in schema.names:
            columns["concreteness"] = pa.array(map(concreteness, kinds, changes[1]), pa.float32())
        given = list(zip(edits, columns["caption"].to_pylist(), strict=True))
        texts = zip(outcomes[0], given, strict=True)  # of what is rejected, none was made yet
        columns["text"] = pa.array([made or (apply(text, its) if its else "") for made, (its, text) in texts])
        columns["draw"] = pa.array(self._numbers, pa.int32())
        old_and_new = [[(start, end, text[start:end], new) for start, end, new in its] for its, text in given]
        columns["edits"] = pa.array(old_and_new, EDITS)
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


@cached(NOUNS)
def concreteness(change: str, replacement: str) -> float | None:
    """The concreteness of the noun that a candidate puts in, or the lowest of those it moves, by the shipped score.

    change, replacement: of the candidate. None if it puts in no noun, or one without a score.
    """
    nouns = [replacement] if change == "noun" else replacement.split(" | ") if change == "swap" else []
    scores = [Concreteness.load().score(noun) for noun in nouns]
    known = [score for score in scores if score is not None]
    return min(known) if known and len(known) == len(scores) else None
