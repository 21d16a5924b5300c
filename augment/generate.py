"""From captions to their negatives: propose, sample, check, rate, and apply the edits of what is accepted.

Uses no files and no processes: both the stage `negatives` and the Python API call it.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import ceil
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from ..schemas.fields import table_of
from ..schemas.negatives import EXCLUDED, NEGATIVES, POSITIVE, POSITIVES, REJECTIONS
from .candidates import FREE, REASONS, Batch, Limits
from .caption import MAX_SENTENCE, MAX_TOKENS, Caption, by_image, from_parses
from .checks import Case, check, limit_detail, rate_whole
from .cloze.network import single_threaded
from .evidence import Evidence, batches, gather_evidence
from .kinds import KINDS
from .operators import OPERATORS, PRESETS, operator_named, replacing
from .operators.operator import Operator, Source
from .operators.replacement import SamplingOperator, propose_batch
from .raters import MAX_COMPATIBLE, MAX_UNNATURAL, PREFERRED_UNNATURAL, is_fallback, p_bad, preference
from .reproducible import record_rng
from .rows import (
    COMPATIBLE,
    LIKELY_TRUE,
    NO_CANDIDATE,
    OPERATOR_ERROR,
    TOO_LONG,
    UNNATURAL,
    OperatorResult,
    Row,
    RowCollector,
    reject_whole_caption,
)
from .sampling import order_keys
from .sentences import group_by_caption, row_of_caption, sentences_of_images
from .settings import AtLeastOne, Cloze, MaxCompatible, MaxTrue, MaxUnnatural, PreferredUnnatural, Seed, Settings
from .truth.estimates import MAX_P_TRUE, Truth

if TYPE_CHECKING:
    import pyarrow as pa

    from .lexicon.lexicon import Lexicon

# Of the reasons for a caption without negatives, the last checked first: a candidate that was refused late was nearer.
NEAREST = (UNNATURAL, LIKELY_TRUE)
# One in PROBED of the captions without negatives, by chance, is given to the operators that the run does not have, to
# tell what they would add; each makes at most as many as with `per_family` PROBE_QUOTA.
PROBED = 32
PROBE_QUOTA = 4
# Each rejection repeats the text of its caption, so that without a limit those of a long one would take memory by the
# square of its length: 36 MB for 1,000 words.
MOST_REJECTED = 100
GROWTH = 2  # times as many rows are taken in each further round
WHY_NOT_SAMPLED = {
    UNNATURAL: "over a limit, preferred_unnatural, max_unnatural or max_compatible",
    LIKELY_TRUE: "over the limit max_true",
}
MAY_NAME_ONE_THING = "the words may name one thing, by WordNet or the tables of overlaps"


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
    excluded: bool = Field(False, description="also record words that were ruled out before sampling")

    @model_validator(mode="after")
    def _check_operators(self) -> Self:
        """Refuse operators that do not exist (`operator_named` raises) or that are given twice."""
        for name in self.operators:
            operator_named(name)
        if len(set(self.operators)) != len(self.operators):
            raise ValueError(f"operators must be distinct, were: {','.join(self.operators)}")
        return self

    @property
    def limits(self) -> Limits:
        """The limits of the ratings."""
        return Limits(
            preferred_unnatural=self.preferred_unnatural,
            max_unnatural=self.max_unnatural,
            max_compatible=self.max_compatible,
        )

    def quota(self, name: str) -> int:
        """The maximum number of negatives per caption from the operator `name`, whatever other operators run."""
        return ceil(self.per_family * OPERATORS[name].traits.share)


class Generated(NamedTuple):
    """What the operators made of some captions.

    results: of each caption, by operator.
    excluded: in how many places a word was refused before it was sampled, by kind, entry and reason.
    """

    results: list[dict[str, OperatorResult]]
    excluded: Counter[tuple[str, str, str]]


def family_of(name: str) -> str:
    """The family of an operator's negatives."""
    return OPERATORS[name].family


class GeneratedTables(NamedTuple):
    """The tables negatives, positives, rejections and excluded, by name, and counters (see `generate_tables`)."""

    tables: Mapping[str, pa.Table]
    counts: Counter[str]


def generate_tables(
    parses: pa.Table, lexicon: Lexicon, settings: NegativesConfig, truth: Truth | None = None
) -> GeneratedTables:
    """Make the negatives of the captions of a `parses` table, as tables.

    Counters: captions; for each operator `<name>.captions` (with at least one result) and `<name>.rows`; for each
    family `family.<name>.captions` and `family.<name>.rows`; `rejected.<operator>.<reason>`; `captions.without`
    (captions without any negative), and how many of these have each `without.<reason>`: the reason of the candidate
    that came nearest to be a negative, one of NEAREST, `no_candidate`, or `refused` for others; `tried`, how many of
    them, chosen at random, were given to the checked operators that do not run, and `more.<operator>`, how many of the
    tried ones have a negative by that operator.

    Args:
        parses: the captions; those of an image must be consecutive.
        lexicon: where replacements come from.
        settings: which negatives, and how many.
        truth: estimates of what is true of each image, by which candidates are rejected; None: there are none.
    """
    negatives = RowCollector(family_of)
    positives = RowCollector(family_of)
    rejections = RowCollector(family_of)
    captions = from_parses(parses)
    counts = Counter({"captions": len(captions)})
    excluded = Counter[tuple[str, str, str]]()
    first = 0  # the number of the batch's first caption
    probed: list[Sequence[Caption]] = []  # images whose first caption is given to the operators that do not run
    for images in batches(by_image(captions)):
        generated = generate_for_images(images, lexicon, settings, truth)
        excluded.update(generated.excluded)
        captions_of_batch = [(image, caption) for image in images for caption in image]
        for (image, caption), results in zip(captions_of_batch, generated.results, strict=True):
            has_negative = any(result.accepted and family_of(name) != POSITIVE for name, result in results.items())
            if not has_negative and _is_probed(caption):
                probed.append([caption, *(sibling for sibling in image if sibling is not caption)])
        for number, results in enumerate(generated.results, first):
            for name, (accepted, rejected) in results.items():
                (positives if family_of(name) == POSITIVE else negatives).add(number, name, accepted)
                rejections.add(number, name, rejected)
            _count_results(results, counts)
        first += len(generated.results)
    counts.update(_count_probes(probed, lexicon, settings, truth))
    tables = {
        "excluded": table_of(((*word, places) for word, places in sorted(excluded.items())), EXCLUDED),
        "rejections": rejections.table(parses, REJECTIONS),
        "positives": positives.table(parses, POSITIVES),
        "negatives": negatives.table(parses, NEGATIVES),
    }
    reasons = tables["rejections"].group_by(["operator", "reason"]).aggregate([([], "count_all")])
    for name, reason, rows in zip(*reasons.to_pydict().values(), strict=True):
        counts[f"rejected.{name}.{reason}"] += rows
    return GeneratedTables(tables, counts)


def _count_probes(
    images: Sequence[Sequence[Caption]], lexicon: Lexicon, settings: NegativesConfig, truth: Truth | None
) -> Counter[str]:
    """Count for how many captions without negatives each operator that does not run would make one.

    images: each begins with such a caption. The counters are `tried` and `more.<operator>`, see `generate_tables`.
    """
    counts = Counter[str]()
    operators = [name for name in PRESETS["all"] if name not in settings.operators and family_of(name) != POSITIVE]
    if not images or not operators:
        return counts
    probe_settings = settings.changed(operators=tuple(operators), per_family=min(PROBE_QUOTA, settings.per_family))
    for batch in batches(images):
        generated = generate_for_images(batch, lexicon, probe_settings, truth, only_first=True)
        counts["tried"] += len(generated.results)
        for results in generated.results:
            counts.update(f"more.{name}" for name, result in results.items() if result.accepted)
    return counts


def _count_results(results: Mapping[str, OperatorResult], counts: Counter[str]) -> None:
    """Add the results of one caption to the counters of `generate_tables`; results: by operator."""
    families = set()
    for name, (accepted, _) in results.items():
        counts[f"{name}.rows"] += len(accepted)
        counts[f"{name}.captions"] += bool(accepted)
        counts[f"family.{family_of(name)}.rows"] += len(accepted)
        if accepted:
            families.add(family_of(name))
    counts.update(f"family.{family}.captions" for family in families)
    if not families - {POSITIVE}:  # a caption without negatives: why, by the candidate that came nearest to be one
        reasons = {row.reason for result in results.values() for row in result.rejected}
        counts["captions.without"] += 1
        otherwise = NO_CANDIDATE if reasons <= {NO_CANDIDATE} else "refused"
        nearest = next((reason for reason in NEAREST if reason in reasons), otherwise)  # NEAREST has the nearest first
        counts[f"without.{nearest}"] += 1


@single_threaded()
def generate_for_images(
    images: Sequence[Sequence[Caption]],
    lexicon: Lexicon,
    settings: NegativesConfig,
    truth: Truth | None = None,
    *,
    only_first: bool = False,
) -> Generated:
    """Make negatives of the captions of some images, or of the first caption of each.

    Args:
        images: the captions of each, one of the `batches` of a larger number; their sentences are read together.
        lexicon: where replacements come from.
        settings: which operators, and how many negatives.
        truth: estimates of what is true of each image; None: there are none.
        only_first: whether only the first caption of each image gets negatives.
    """
    sentences = sentences_of_images(images)
    return generate_for_evidence(
        gather_evidence(sentences, lexicon.cloze, truth, only_first=only_first), lexicon, settings
    )


def _is_probed(caption: Caption) -> bool:
    """Whether operators that do not run are tried on a caption: on one caption in PROBED, by a hash of its id alone."""
    return record_rng(0, "tried", caption.caption_id).randrange(PROBED) == 0


def generate_for_evidence(evidence: Sequence[Evidence], lexicon: Lexicon, settings: NegativesConfig) -> Generated:
    """What the operators in the settings make of each caption, given the evidence for each of its sentences.

    No caption raises an error, other than MemoryError: it is rejected whole instead, and does not spoil the others. An
    error is a fault of negcap. It is rejected as `operator_error`, with the error in the detail, and a RuntimeWarning
    says so, which Python prints once a process. A caption that is too long is rejected as `too_long`.
    """
    operators = [OPERATORS[name] for name in settings.operators]
    failing = "proposing"
    try:
        kinds = dict.fromkeys(kind for operator in operators for kind in operator.traits.kinds)
        batch = propose_batch(replacing(*kinds).values(), evidence, lexicon, settings.limits)
        results: list[dict[str, OperatorResult]] = [{} for _ in batch.sentences]
        for operator in operators:
            failing = f"operator {operator.name}"
            for of_caption, result in zip(results, run_operator(operator, batch, settings), strict=True):
                of_caption[operator.name] = result
        return Generated(results, _excluded_words(batch))
    except MemoryError:  # says something of the machine, not of a caption
        raise
    except Exception as error:
        # To find the caption and operator at fault, the captions are done again one by one, and those that fail again
        # with one operator at a time.
        captions = group_by_caption([of_sentence.caption for of_sentence in evidence])
        if len(captions) > 1:
            return _one_by_one(
                [[evidence[number] for number in sentences] for sentences in captions], lexicon, settings
            )
        if len(operators) > 1:
            together: dict[str, OperatorResult] = {}
            for operator in operators:
                alone = settings.changed(operators=(operator.name,))
                together |= generate_for_evidence(evidence, lexicon, alone).results[0]
            return Generated([together], Counter())
        detail = " ".join(f"{failing} raised {type(error).__name__}: {error}".split())
        warnings.warn(f"{detail}; its caption is rejected as {OPERATOR_ERROR}", RuntimeWarning, stacklevel=2)
        whole = OperatorResult([], [reject_whole_caption(OPERATOR_ERROR, detail)])
        return Generated([{operators[0].name: whole}], Counter())


def _one_by_one(captions: Sequence[Sequence[Evidence]], lexicon: Lexicon, settings: NegativesConfig) -> Generated:
    """Make the negatives of each caption alone, so that of captions that have raised an error only one is rejected.

    captions: the evidence for the sentences of each.
    """
    joined = Generated([], Counter())
    for sentences in captions:
        alone = generate_for_evidence(sentences, lexicon, settings)
        joined.results.extend(alone.results)
        joined.excluded.update(alone.excluded)
    return joined


def run_operator(operator: Operator, batch: Batch, settings: NegativesConfig) -> list[OperatorResult]:
    """What one operator makes of each caption of a batch: at most its quota of accepted rows, and rejected ones.

    Rows are taken in random order, which depends on the seed, the operator and the caption alone, until the quota is
    filled or there are no more. If a caption has several sentences, its rows are spread over them, and sentences with a
    good first row tend to come first.
    """
    seed = settings.seed
    quota = settings.quota(operator.name)
    results = [OperatorResult([], []) for _ in batch.evidence]  # of each sentence
    source = operator.rows(batch, seed)
    # Where a caption has several sentences, each gets one row, by whose rating the sentences are ordered.
    of_several = [number for sentences in batch.sentences if len(sentences) > 1 for number in sentences]
    add_accepted_rows(results, dict.fromkeys(of_several, 1), source, operator, batch)
    captions = [_in_sampled_order(sentences, results, operator, batch, seed) for sentences in batch.sentences]
    # If there are more sentences than the quota allows rows, the last ones lose theirs.
    for sentences in captions:
        for number in sentences[quota:]:
            results[number].accepted.clear()
    _fill_quotas(results, captions, quota, source, operator, batch)

    without = [sentences for sentences in captions if not any(results[number].accepted for number in sentences)]
    # Captions none of whose rows came as far as the rating: rows that the checks before it refuse have no text.
    unrated = [
        sentences
        for sentences in without
        if not any(row.text for number in sentences for row in results[number].rejected)
    ]
    fallback = operator.fallback_rows(batch, sorted(number for sentences in unrated for number in sentences), seed)
    if fallback is not None:
        _fill_quotas(results, unrated, quota, fallback, operator, batch)
    candidates = candidates_by_sentence(operator, batch)
    if operator.traits.has_fallback:
        for sentences in without:
            _readmit_best({number: results[number] for number in sentences}, candidates, operator, batch)
    if settings.excluded and isinstance(operator, SamplingOperator):
        for number, (accepted, rejected) in enumerate(results):
            known = {row.edits for row in (*accepted, *rejected)}
            excluded = _excluded_rows(number, candidates[number], operator, batch)
            rejected += [row for row in excluded if row.edits not in known]
    return [_result_of_caption(sentences, results, candidates, batch) for sentences in captions]


def _result_of_caption(
    sentences: Sequence[int], results: Sequence[OperatorResult], candidates: Sequence[np.ndarray], batch: Batch
) -> OperatorResult:
    """What an operator makes of one caption; if that is nothing, there is at least a rejection that says why.

    sentences: the numbers of the caption's sentences. results, candidates: of each sentence of the batch.
    """
    evidence = [batch.evidence[number] for number in sentences]
    result = _join_sentences([results[number] for number in sentences], evidence)
    if all(of_sentence.caption.too_long for of_sentence in evidence):
        result.rejected[:] = [_reject_too_long(evidence[0].caption)]
    elif not result.accepted and not result.rejected:
        of_caption = np.concatenate([candidates[number] for number in sentences])
        result.rejected.append(_reject_without_sample(of_caption, batch))
    return result


def _in_sampled_order(
    sentences: Sequence[int], results: Sequence[OperatorResult], operator: Operator, batch: Batch, seed: int
) -> list[int]:
    """The sentences of one caption, by number, in the order in which their rows become rows of the caption.

    They are sampled as candidates are (`negcap.augment.sampling`), where the weight of a sentence is the preference of
    its first row. Sentences without a row come last. results: of the operator, for each sentence of the batch.
    """
    if len(sentences) == 1:
        return list(sentences)
    captions = [batch.evidence[number].caption for number in sentences]
    names = [caption.caption_id for caption in captions]
    randoms = order_keys(seed, operator.name, captions[0].whole.caption_id, names)
    weights = np.array([_weight_of_sentence(results[number]) for number in sentences])
    with np.errstate(divide="ignore"):
        keys = randoms / weights
    return [sentences[place] for place in np.argsort(keys, kind="stable").tolist()]


def _weight_of_sentence(result: OperatorResult) -> float:
    """The preference of the first row that a sentence has: 1 if it is not rated, 0 without a row."""
    if not result.accepted:
        return 0.0
    row = result.accepted[0]
    if row.p_unnatural is None or row.p_compatible is None or row.change not in KINDS:
        return 1.0
    ratings = (np.array([row.p_unnatural]), np.array([row.p_compatible]))
    return preference(*ratings, np.array([KINDS[row.change].preference])).item()


def _fill_quotas(
    results: Sequence[OperatorResult],
    captions: Sequence[Sequence[int]],
    quota: int,
    source: Source,
    operator: Operator,
    batch: Batch,
) -> None:
    """Add rows to the results of some captions until each has as many accepted ones as its quota, or there are no more.

    In each round, the rows that a caption still lacks are shared among those of its sentences that may have more.

    Args:
        results: of each sentence of the batch.
        captions: for each caption the numbers of its sentences; the first get the rows that cannot be shared evenly.
        quota: how many rows each caption may have.
        source: gives the rows.
        operator: whose rows these are.
        batch: the sentences.
    """
    # For each caption that lacks rows: all its sentences, and those that may have more rows.
    waiting = [(sentences, list(sentences)) for sentences in captions]
    while waiting:
        wanted: dict[int, int] = {}  # how many rows, with those that it has, by sentence
        for sentences, open_sentences in waiting:
            lacking = quota - sum(len(results[number].accepted) for number in sentences)
            share, rest = divmod(lacking, len(open_sentences))
            for place, number in enumerate(open_sentences):
                more = share + 1 if place < rest else share  # the rest goes to the first sentences, one row each
                if more:
                    wanted[number] = len(results[number].accepted) + more
        add_accepted_rows(results, dict(sorted(wanted.items())), source, operator, batch)

        still_waiting = []
        for sentences, open_sentences in waiting:
            # A sentence that has fewer rows than it was asked for has no more.
            still_open = [number for number in open_sentences if len(results[number].accepted) >= wanted.get(number, 0)]
            if still_open and sum(len(results[number].accepted) for number in sentences) < quota:
                still_waiting.append((sentences, still_open))
        waiting = still_waiting


def _join_sentences(results: Sequence[OperatorResult], evidence: Sequence[Evidence]) -> OperatorResult:
    """Join the results of a caption's sentences, one row of each in turn.

    If there are several sentences, only the first MOST_REJECTED rejections are kept.
    """
    accepted = _alternate_sentences([result.accepted for result in results], evidence)
    rejected = _alternate_sentences([result.rejected for result in results], evidence)
    if len(results) > 1:
        del rejected[MOST_REJECTED:]
    return OperatorResult(accepted, rejected)


def _alternate_sentences(rows_of_sentences: Sequence[Sequence[Row]], evidence: Sequence[Evidence]) -> list[Row]:
    """The rows of some sentences as rows of their caption: the first of each sentence, the second of each, and so on.

    evidence: for each sentence.
    """
    return [
        row_of_caption(row, of_sentence.caption, of_sentence.siblings)
        for round_of_rows in zip_longest(*rows_of_sentences)
        for row, of_sentence in zip(round_of_rows, evidence, strict=True)
        if row is not None
    ]


def _reject_too_long(sentence: Caption) -> Row:
    """The rejection of a caption all of whose sentences are too long."""
    what, limit = ("caption", MAX_TOKENS) if sentence.whole.too_long else ("sentence", MAX_SENTENCE)
    return reject_whole_caption(TOO_LONG, f"{what} must be <= {limit} tokens")


def add_accepted_rows(
    results: Sequence[OperatorResult],
    wanted: Mapping[int, int],
    source: Source,
    operator: Operator,
    batch: Batch,
    *,
    read: bool = True,
) -> None:
    """Add rows to the results of some sentences until each has as many accepted ones as wanted, or there are no more.

    All rows of a round are read together. Rows beyond the wanted number are dropped.

    Args:
        results: of each sentence of the batch.
        wanted: how many rows, with those that it has, by the number of the sentence.
        source: gives the rows.
        operator: whose rows these are.
        batch: the sentences.
        read: whether rows without ratings are read and rated; if not, they are accepted.
    """
    # Different edits may make the same text: then only the first row counts.
    seen = {number: {row.text.lower() for row in results[number].accepted} for number in wanted}
    to_take = {number: size - len(results[number].accepted) for number, size in wanted.items()}
    while to_take:
        taken = source.take(to_take)
        distinct: dict[int, list[Row]] = {number: [] for number in taken}  # rejected rows, and those with a new text
        for number, rows in taken.items():
            evidence = batch.evidence[number]
            for row in rows:
                check(row, Case(operator, evidence, batch.lexicon))
                if row.reason is not None or row.text.lower() not in seen[number]:
                    distinct[number].append(row)
                    seen[number].add(row.text.lower())
        if operator.traits.is_rated and read:
            passing = [
                (row, batch.evidence[number]) for number, rows in distinct.items() for row in rows if row.reason is None
            ]
            rate_whole([row for row, _ in passing], [evidence for _, evidence in passing], batch.limits)
        for number, rows in distinct.items():
            accepted, rejected = results[number]
            for row in rows:
                if len(accepted) < wanted[number]:
                    same_outcome = accepted if row.reason is None else rejected
                    same_outcome.append(row)
        # Where rows were refused, more are taken at a time, so that few rounds are needed. A source that gave fewer
        # rows than were to be taken has no more.
        to_take = {
            number: GROWTH * to_take[number]
            for number, rows in taken.items()
            if len(rows) == to_take[number] and len(results[number].accepted) < wanted[number]
        }


def candidates_by_sentence(operator: Operator, batch: Batch) -> list[np.ndarray]:
    """For each sentence of a batch, the numbers of the candidates that an operator may take; none if it lists rows."""
    if not isinstance(operator, SamplingOperator):
        return [np.zeros(0, int)] * len(batch.evidence)
    candidates = operator.weighted_candidates(batch).candidates
    sentence = batch.candidates.caption_of_candidate[candidates]
    order = np.argsort(sentence, kind="stable")
    bounds = np.searchsorted(sentence[order], np.arange(1, len(batch.evidence)))  # between the sentences
    return np.split(candidates[order], bounds)


def _readmit_best(
    results: Mapping[int, OperatorResult], candidates: Sequence[np.ndarray], operator: Operator, batch: Batch
) -> None:
    """Accept the best row of one caption that was refused as unnatural, if `raters.is_fallback` allows it.

    results: those of its sentences, by number. candidates: for each sentence of the batch, the numbers of its
    candidates.
    """
    rows = [
        (row, number)
        for number, result in results.items()
        for row in result.rejected
        if row.reason == UNNATURAL and row.text
    ]
    if isinstance(operator, SamplingOperator):
        for number in results:
            for candidate in batch.estimates.fallbacks(candidates[number]).tolist():
                row = operator.row(candidate, batch)
                if row is not None and row.p_unnatural is not None:
                    rows.append((row, number))
    if not rows:
        return
    unnatural = np.array([row.p_unnatural for row, _ in rows], float)
    compatible = np.array([row.p_compatible for row, _ in rows], float)
    is_good = is_fallback(unnatural, compatible, batch.limits.max_unnatural, batch.limits.max_compatible)
    bad = np.where(is_good, p_bad(unnatural, compatible), np.inf)
    # The best first. A row that is made only now may be refused by the checks; then the next best is tried.
    for best in np.argsort(bad, kind="stable").tolist():
        if not is_good[best]:
            return
        row, number = rows[best]
        accepted, rejected = results[number]
        if row in rejected:  # it has passed all checks except the limit `preferred_unnatural`
            rejected.remove(row)
            row.reason = row.detail = None
        else:
            check(row, Case(operator, batch.evidence[number], batch.lexicon))
        (accepted if row.reason is None else rejected).append(row)
        if accepted:
            return


def _reject_without_sample(candidates: np.ndarray, batch: Batch) -> Row:
    """The rejection of a caption for which an operator has sampled no candidate.

    Its reason is the most frequent one of the candidates, or NO_CANDIDATE. Candidates of weight 0, which may name the
    same thing as the word in the slot, do not count.

    candidates: their numbers.
    """
    table = batch.candidates
    possible = candidates[table.weight[candidates] > 0]
    counts = Counter(REASONS[code] for code in table.reason[possible].tolist() if code != FREE)
    if not counts:
        return reject_whole_caption(NO_CANDIDATE)
    reason = max(sorted(counts), key=counts.__getitem__)
    why = WHY_NOT_SAMPLED.get(reason, "refused for this reason")
    return reject_whole_caption(reason, f"no word was sampled, most are {why}; excluded=true lists them")


def _excluded_rows(number: int, candidates: np.ndarray, operator: SamplingOperator, batch: Batch) -> list[Row]:
    """The rows of all candidates of sentence `number` that were refused before they were sampled, with the reason.

    candidates: their numbers.
    """
    # Until now only the candidates that were about to be sampled are rated; here all that are left.
    table = batch.candidates
    batch.estimates.rate(candidates[table.reason[candidates] == FREE])
    rows = []
    for candidate in candidates[table.reason[candidates] != FREE].tolist():
        row = operator.row(candidate, batch)
        if row is None:
            continue
        case = Case(operator, batch.evidence[number], batch.lexicon)
        reason = REASONS[table.reason[candidate]]
        if reason == LIKELY_TRUE or row.reason is not None:
            check(row, case)  # which finds the word of a caption that decides
        elif reason == COMPATIBLE and table.weight[candidate] == 0:  # by its operator, and not by a rating
            row.reason = reason
            row.detail = MAY_NAME_ONE_THING
        else:
            row.reason = reason
            row.detail = limit_detail(reason, batch.limits)
        rows.append(row)
    return rows


def _excluded_words(batch: Batch) -> Counter[tuple[str, str, str]]:
    """In how many places of a batch words were refused before they were sampled, by kind, entry and reason.

    Words that were never rated are not refused for their ratings, so the numbers depend on how many negatives are made:
    the fewer a caption gets, the fewer of its words are rated.
    """
    table = batch.candidates
    refused = np.flatnonzero(table.reason != FREE)
    kinds = table.kind_of_slot[table.slot[refused]].tolist()
    words = zip(kinds, table.entry[refused].tolist(), table.reason[refused].tolist(), strict=True)
    return Counter(
        {
            (kind, batch.lexicon.entries(kind).names[entry], REASONS[reason]): places
            for (kind, entry, reason), places in Counter(words).items()
        }
    )
