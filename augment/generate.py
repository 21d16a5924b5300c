"""From captions to their negatives: operators propose candidates, each is checked, and edits of accepted ones applied.

Uses no files and no processes: both the stage `negatives` and the Python API call it.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING, Self

import numpy as np
from pydantic import Field, model_validator

from ..schemas.fields import table_of
from ..schemas.negatives import EDITS, EXCLUDED, NEGATIVES, POSITIVE, POSITIVES, REJECTIONS
from .caption import MAX_TOKENS, Caption, by_image, cached, from_parses
from .cloze.network import single_threaded
from .context import Context, Said, batches, contexts
from .edits import COMPATIBLE, LIKELY_TRUE, NOTHING, UNNATURAL, Candidate, Generated, Judged, apply
from .judgement import (
    MAX_COMPATIBLE,
    MAX_UNNATURAL,
    PREFERRED_UNNATURAL,
    compare_and_judge,
    is_fallback,
    p_bad,
    refusals,
)
from .language.concreteness import Concreteness
from .operators import OPERATORS, PRESETS, operator
from .recovery import FAMILIES_OF
from .reproducible import record_rng
from .settings import AtLeastOne, Cloze, MaxCompatible, MaxTrue, MaxUnnatural, PreferredUnnatural, Seed, Settings
from .truth.contradiction import assess, explained
from .truth.estimates import MAX_P_TRUE, Truth

if TYPE_CHECKING:
    import pyarrow as pa

    from .lexicon.lexicon import Lexicon

# An operator proposes at most DRAWS_PER_NEGATIVE * quota + EXTRA_DRAWS candidates for a caption; of those that pass the
# checks, READ_PER_NEGATIVE * quota are compared with it, since many are odd.
DRAWS_PER_NEGATIVE, EXTRA_DRAWS, READ_PER_NEGATIVE = 4, 16, 3
NO_CANDIDATE, OPERATOR_ERROR, TOO_LONG = "no_candidate", "operator_error", "too_long"  # reasons, as those of edits
NEAREST = (UNNATURAL, LIKELY_TRUE)  # of the reasons for a caption without negatives, the last checked first
# One in TRIED of the captions without negatives, by chance, is given to the operators that the run does not have, to
# tell what they would add; each makes at most as many as with `per_family` FEW. With 20, a fifth more texts are read,
# and of 110 captions of Flickr8k 51 instead of 43 have a `negation`; of the other operators the numbers are the same.
TRIED, FEW = 8, 4
KEYS = ("caption_id", "image_id", "split", "origin")
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
    preferred_unnatural: PreferredUnnatural = PREFERRED_UNNATURAL
    max_unnatural: MaxUnnatural = MAX_UNNATURAL
    max_compatible: MaxCompatible = MAX_COMPATIBLE
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

    @property
    def unnatural_limit(self) -> float:
        """The highest probability of being odd of negatives that are not spare ones."""
        return min(self.preferred_unnatural, self.max_unnatural)

    def quota(self, name: str) -> int:
        """The maximum number of negatives per caption from the operator `name`, whatever other operators run."""
        return ceil(self.per_family * OPERATORS[name].share)


def generate_tables(
    parses: pa.Table, lexicon: Lexicon, settings: NegativesConfig, truth: Truth | None = None
) -> tuple[Mapping[str, pa.Table], Counter[str]]:
    """The tables negatives, positives, rejections and excluded for a `parses` table, by name, and counters.

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
    counts, excluded = Counter({"captions": len(captions)}), Counter[tuple[str, str, str]]()
    row = 0
    for images in batches(by_image(captions)):
        made = generate_for_images(images, lexicon, settings, truth, explain=True, others=others, excluded=excluded)
        for generated in made:
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
        "excluded": table_of(((*word, places) for word, places in sorted(excluded.items())), EXCLUDED),
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
    excluded: Counter[tuple[str, str, str]] | None = None,
) -> list[dict[str, Generated]]:
    """For each caption of some images, the results of the operators in the settings by name; see `generate_tables`.

    images: one of the `batches` of a larger number; their captions are read together. explain: whether rejections say
    which word decided. others: operators whose results are added for some of the captions that have no negatives.
    excluded: counts to which those of `Batch.excluded_words` are added.
    """
    limits = {name: getattr(settings, name) for name in ("max_unnatural", "max_compatible", "excluded")}
    read = contexts(images, lexicon, truth, preferred_unnatural=settings.unnatural_limit, **limits)
    generated: list[dict[str, Generated]] = []
    for context in read:
        generated.append({name: try_operator(name, context, settings) for name in settings.operators})
        for made in generated[-1].values() if explain else ():
            made.rejected[:] = [explained(rejected, context.said) for rejected in made.rejected]
    if excluded is not None:
        excluded.update(read[0].batch.excluded_words)
    said = [context.said for context in read]
    results = reject_implausible(said, generated, settings)
    if others:
        bare = [i for i, made in enumerate(results) if not _has_negatives(made) and _tried(said[i].caption)]
        some, few = read[0].batch.part(bare), settings.changed(per_family=min(FEW, settings.per_family))
        tried = [{name: try_operator(name, one, few) for name in others} for one in some]
        for number, more in zip(bare, reject_implausible([one.said for one in some], tried, settings), strict=True):
            results[number] |= more
    return [
        {name: made._replace(accepted=made.accepted[: settings.quota(name)]) for name, made in of_caption.items()}
        for of_caption in results
    ]


def _has_negatives(made: Mapping[str, Generated]) -> bool:
    return any(one.accepted and FAMILIES[name] != POSITIVE for name, one in made.items())


def _tried(caption: Caption) -> bool:
    """Whether operators that do not run are tried on a caption: for one of TRIED, whatever the shard or the seed."""
    return record_rng(0, "tried", caption.caption_id).randrange(TRIED) == 0


def try_operator(name: str, context: Context, settings: NegativesConfig) -> Generated:
    """As `apply_operator`, but no caption raises an error, other than MemoryError: it is rejected whole instead.

    An error of the operator is a fault of negcap. It is rejected as `operator_error`, with the error in the detail, and
    a RuntimeWarning says so, which Python prints once a process. A caption that is too long is rejected as `too_long`.
    """
    reason, detail = TOO_LONG, f"caption must be <= {MAX_TOKENS} tokens"
    if not context.said.caption.too_long:
        try:
            return apply_operator(name, context, settings)
        except MemoryError:  # says something of the machine, not of the caption
            raise
        except Exception as error:
            detail = " ".join(f"operator {name} raised {type(error).__name__}: {error}".split())
            reason = OPERATOR_ERROR
            warnings.warn(f"{detail}; its caption is rejected as {reason}", RuntimeWarning, stacklevel=2)
    return Generated([], [Judged(NOTHING, "", None, reason=reason, detail=detail)])


def apply_operator(name: str, context: Context, settings: NegativesConfig) -> Generated:
    """Check the candidates of one operator for a caption, in order, until its quota is accepted, or, if they are to be
    compared with the caption, READ_PER_NEGATIVE times as many.

    Those of an unchecked operator are accepted as they are. A candidate whose text equals a caption of the image is
    rejected (`sibling_says_so`). The random stream depends only on the seed, the operator and the caption's id, so
    neither order nor other operators change the result.
    """
    said, caption, quota = context.said, context.said.caption, settings.quota(name)
    rng = record_rng(settings.seed, name, caption.caption_id)
    accepted, rejected, texts, operator = list[Judged](), list[Judged](), set[str](), OPERATORS[name]
    enough = quota * READ_PER_NEGATIVE if operator.compared else quota
    for propose in (operator.propose, operator.fallback):
        for candidate in propose(caption, context, rng, DRAWS_PER_NEGATIVE * quota + EXTRA_DRAWS):
            reason, p_true = assess(candidate, said) if operator.checked else (None, None)
            if reason is None:
                text = apply(caption.text, candidate.edits)
                lower = text.lower()
                if lower in texts:
                    continue
                if lower not in said.siblings.texts:
                    texts.add(lower)
                    accepted.append(Judged(candidate, text, p_true))
                    if len(texts) == enough:
                        break
                    continue
                reason, p_true = "sibling_says_so", None
            judged = candidate.rejected and candidate.edits and candidate.p_unnatural is not None
            rejected.append(Judged(candidate, "", p_true, reason, _limit(reason, settings) if judged else None))
        if texts:
            break
    if not accepted and not rejected:
        rejected.append(Judged(NOTHING, "", None, reason=NO_CANDIDATE))
    return Generated(accepted, rejected)


def reject_implausible(
    said_of_each: Sequence[Said], generated: Sequence[Mapping[str, Generated]], settings: NegativesConfig
) -> list[dict[str, Generated]]:
    """Compare negatives with their captions, and move those that readers would refuse to the rejected.

    said_of_each: of each caption. generated: for each caption, the results by operator; the result has the same form,
    with what was estimated of each negative. Refused is what readers would call odd with a probability above the
    settings' `preferred_unnatural`, or true of the same photo with one above `max_compatible` (see
    `negcap.augment.judgement`); where nothing is left of an operator that makes spare ones, the best one is taken back,
    if it is odd or true as well with at most `max_unnatural`. Operators that are not compared keep all their negatives,
    unchanged.
    """
    results: list[dict[str, Generated]] = []
    read: list[tuple[Said, Generated, Judged]] = []
    for said, of_caption in zip(said_of_each, generated, strict=True):
        results.append({})
        for name, (accepted, rejected) in of_caption.items():
            compared = OPERATORS[name].compared
            results[-1][name] = kept = Generated([] if compared else accepted, rejected)
            read += [(said, kept, negative) for negative in accepted if compared]
    compared_now = compare_and_judge(
        [(one.caption, one.reading, its.candidate) for one, _, its in read if its.candidate.p_unnatural is None]
    )
    candidates = [next(compared_now) if its.candidate.p_unnatural is None else its.candidate for *_, its in read]
    odd, both = (
        np.array([getattr(one, name) for one in candidates], float) for name in ("p_unnatural", "p_compatible")
    )
    reasons = refusals(odd, both, settings.unnatural_limit, settings.max_compatible).tolist()
    for (_, kept, negative), candidate, reason in zip(read, candidates, reasons, strict=True):
        negative = negative._replace(candidate=candidate)
        if reason:
            kept.rejected.append(negative._replace(reason=reason, detail=_limit(reason, settings)))
        else:
            kept.accepted.append(negative)
    for name, kept in chain.from_iterable(its.items() for its in results):
        if OPERATORS[name].spare and not kept.accepted:
            _take_back(kept, settings)
    return results


def _take_back(generated: Generated, settings: NegativesConfig) -> None:
    """Accept the best of an operator's negatives that were rejected as odd, if it is `is_fallback`.

    Then no rejection says any more that no word is left, nor, of excluded words, the same negative again.
    """
    rejected = generated.rejected
    refused = [one for one in rejected if one.text and one.reason == UNNATURAL]
    odd, both = (
        np.array([getattr(one.candidate, name) for one in refused], float) for name in ("p_unnatural", "p_compatible")
    )
    wrong = np.where(is_fallback(odd, both, settings.max_unnatural, settings.max_compatible), p_bad(odd, both), np.inf)
    best = refused[int(wrong.argmin())] if np.isfinite(wrong).any() else None
    again = {one.candidate.edits for one in refused}
    rejected[:] = [one for one in rejected if one is not best and (one.text or one.candidate.edits not in again)]
    if best is not None:
        rejected[:] = [one for one in rejected if one.candidate.change != NOTHING.change]
        generated.accepted.append(best._replace(reason=None, detail=None))


def _limit(reason: str, settings: NegativesConfig) -> str | None:
    """The limit that a negative with this reason does not keep; None for other reasons."""
    limits = {
        UNNATURAL: ("p_unnatural", settings.unnatural_limit),
        COMPATIBLE: ("p_compatible", settings.max_compatible),
    }
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
        found = dict(zip(Candidate._fields, zip(*candidates, strict=True), strict=True))
        found |= zip(Judged._fields[1:], outcomes, strict=True)
        for name in {*schema.names} & {*found} - {"edits"}:
            columns[name] = pa.array(found[name], schema.field(name).type)
        if "concreteness" in schema.names:
            columns["concreteness"] = pa.array(map(concreteness, found["change"], found["replacement"]), pa.float32())
        given = list(zip(found["edits"], columns["caption"].to_pylist(), strict=True))
        texts = zip(found["text"], given, strict=True)  # of what is rejected, none was made yet
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
