"""Count what captions of one image say together, and calibrate the estimates on candidates labelled by captions.

A caption entails a lexicon entry that must be true of the image if the caption is. Pairs of captions are counted by
what the first mentions and the second entails, per fold of images; a table of counts has the columns kind, said, of and
entry of negcap.schemas.captions, and numbers of pairs.

For the calibration, in each image some captions are known and one of the others is held out. Operators propose
candidates for a known caption, as for negatives; a candidate that the known captions do not reject is labelled true if
the held-out caption makes it true. It is estimated from the counts of the other folds of images.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...schemas.captions import TRUTH, TRUTH_KINDS
from ...schemas.fields import table_of
from ..candidates import Batch, Limits
from ..caption import Caption, by_image, cached, from_parses
from ..evidence import batches, gather_evidence
from ..generate import add_accepted_rows
from ..kinds import KINDS
from ..language.semantic_classes import head_word
from ..language.wordnet import WordNet
from ..lexicon.lexicon import Lexicon
from ..mentions import mentioned_nouns, mentioned_verbs
from ..operators import replacing
from ..operators.replacement import ReplacingOperator, propose_batch
from ..reproducible import record_rng, sigmoid
from ..rows import OperatorResult, Row
from .estimates import (
    EXPECTED,
    Assertion,
    Transition,
    Truth,
    assertion_value,
    assertions_of,
    is_same_thing,
    is_transition,
    values_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

WORDS = ("noun", "verb")  # kinds estimated by associations; all others are estimated by transitions, see `estimates`
KEYS = ("kind", "said", "of", "entry")  # the columns that say what a row counts
PAIRS = "pairs"  # the column with the number of pairs of captions
FOLDS = 6  # parts of the images; the candidates of each are estimated from the others
MIN_PAIRS = 20  # a word is left out if it is mentioned by the first caption of fewer pairs
STEPS = 50  # of Newton's method, at most
NOUNS = 1 << 14  # number of nouns whose results are cached
IMAGES = 2000  # number of images on which the calibration is fitted
KEPT = 12  # rows of one caption and kind of word that are labelled, at most

Spread = Callable[[Callable[..., "pa.Table"], Sequence[Sequence["pa.Table"]]], "Sequence[pa.Table]"]


def estimate_truth(parses: pa.Table, spread: Spread) -> pa.Table:
    """The `truth` table for the parses of some images (negcap.schemas.captions), empty if no image has two captions.

    The calibration is fitted on the first IMAGES images; kinds without candidates have no estimate. `spread(function,
    calls)` calls a function for each fold, in workers, and adds the lexicon as the last argument.
    """
    parses = with_siblings(parses)
    images = parses["image_id"].unique()
    folds = split_by_fold(parses, images)
    counts = join_folds(spread(count_fold, [[part] for part in folds]))
    fitted_on = split_by_fold(parses, images[:IMAGES])
    # The candidates of each fold are estimated from the counts of all other folds.
    labelled = spread(label_candidates, [[fitted_on[number], sum_folds(counts, number)] for number in range(FOLDS)])
    return calibrated_table(counts, labelled)


def extend_truth(truth: pa.Table, parses: pa.Table, spread: Spread) -> pa.Table:
    """Add the counts of some more images to a `truth` table; the coefficients of its calibration stay as they are.

    The table has rows of counts, and for each kind a row of coefficients. `parses`, `spread`: see `estimate_truth`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    parses = with_siblings(parses)
    if not len(parses):
        return truth
    is_count = pc.is_null(truth["coefficients"])
    fitted = truth.filter(pc.invert(is_count))
    # The counts so far, as one more fold beside those of the new images: the sum over folds adds them.
    known = pa.table(truth.filter(is_count).select([*KEYS, "count"]).columns, [*KEYS, PAIRS])
    folds = spread(count_fold, [[part] for part in split_by_fold(parses, parses["image_id"].unique())])
    coefficients = dict(zip(fitted["kind"].to_pylist(), fitted["coefficients"].to_pylist(), strict=True))
    return _with_coefficients(sum_folds(join_folds([pa.concat_tables([known, *folds])])), coefficients)


def with_siblings(table: pa.Table) -> pa.Table:
    """The captions of images that have at least two."""
    _, image, captions = np.unique(table["image_id"].to_numpy(), return_inverse=True, return_counts=True)
    return table.filter(captions[image] > 1)


def split_by_fold(table: pa.Table, images: pa.Array) -> list[pa.Table]:
    """The captions of these images, one table per fold."""
    import pyarrow.compute as pc

    image = pc.index_in(table["image_id"], images).fill_null(-1).to_numpy()
    # The last entry, which the index -1 finds, is for other images: they are of no fold.
    fold_of_row = np.array([*map(fold_of_image, images.to_pylist()), -1])[image]
    return [table.filter(fold_of_row == number) for number in range(FOLDS)]


def count_fold(parses: pa.Table, lexicon: Lexicon) -> pa.Table:
    """A table of counts of the images in `parses`."""
    return count_entailments(by_image(from_parses(parses)), EntailedEntries(lexicon))


class EntailedEntries:
    """Finds the entries of a lexicon that a caption entails: they must be true of the image if the caption is.

    A noun entails itself, its synonyms, and their hypernyms by first senses: a "puppy" entails "puppy", "dog" and
    "animal", but no "poodle". This is narrower than negcap.augment.language.coreference, which compares all senses in
    use, and looks down as well, since any doubt must reject a negative; here, pairs that are really true are counted.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        """Index the nouns by their first senses."""
        self.lexicon = lexicon
        self._nouns_of_synset: defaultdict[int, list[int]] = defaultdict(list)  # by first sense, the nouns' numbers
        for number, entry in enumerate(lexicon.nouns.names):
            for synset in _first_sense_and_above(entry)[:1]:
                self._nouns_of_synset[synset].append(number)

    def __call__(self, kind: str, caption: Caption) -> np.ndarray:
        """The numbers of the nouns that a caption entails, ascending; for the kind "verb", those of its own verbs."""
        if kind == "noun":
            return np.array(sorted(frozenset[int]().union(*map(self.of_noun, mentioned_nouns(caption)))), int)
        known = self.lexicon.entries("verb").number
        return np.array([known[verb] for verb in mentioned_verbs(caption) if verb in known], int)

    @cached(NOUNS)
    def of_noun(self, noun: str) -> frozenset[int]:
        """The numbers of the lexicon's nouns that a noun entails: of "puppy", those of "puppy", "dog" and "animal"."""
        number = self.lexicon.nouns.number.get(noun)
        entailed = set() if number is None else {number}
        for synset in _first_sense_and_above(noun):
            entailed.update(self._nouns_of_synset.get(synset, ()))
        return frozenset(entailed)


def _first_sense_and_above(noun: str) -> list[int]:
    """The first sense of a noun, or of its head, followed by all its hypernyms; empty for an unknown noun."""
    wordnet = WordNet.load()
    first = (wordnet.senses(noun, "n") or wordnet.senses(head_word(noun), "n"))[:1]
    return [*first, *sorted(above for synset in first for above in wordnet.closure(synset) if above != synset)]


def fold_of_image(image_id: str) -> int:
    """The fold of an image, from 0 to FOLDS - 1."""
    return record_rng(0, "truth fold", image_id).randrange(FOLDS)


class WordsOfCaption(NamedTuple):
    """The ids of the words that a caption mentions, and of the entries that it entails."""

    words: np.ndarray
    entries: np.ndarray


def count_pairs(images: Iterable[Sequence[WordsOfCaption]], words: int, entries: int) -> np.ndarray:
    """Count ordered pairs of captions of one image, by a word of the first and an entry that the second entails.

    Args:
        images: the captions of each.
        words, entries: the sizes of the two vocabularies.

    Returns:
        (1 + words, 1 + entries): [1 + w, 1 + e] counts pairs with word w and entry e. Row 0 counts pairs whatever the
        first caption mentions, column 0 those whatever the second entails.
    """
    pairs = np.zeros((1 + words, 1 + entries))
    for captions in images:
        others = len(captions) - 1
        mentions = _mark_ids([caption.words for caption in captions])
        entailments = _mark_ids([caption.entries for caption in captions])
        word = mentions.ids
        entry = entailments.ids
        word_captions = mentions.has.sum(axis=0)  # how many captions mention each word
        entry_captions = entailments.has.sum(axis=0)  # how many entail each entry
        # All pairs of a caption with the word and one with the entry, without those of a caption with itself.
        in_same_caption = mentions.has.T @ entailments.has
        with_both = word_captions[:, None] * entry_captions - in_same_caption
        pairs[1 + word[:, None], 1 + entry] += with_both
        pairs[1 + word, 0] += word_captions * others
        pairs[0, 1 + entry] += entry_captions * others
        pairs[0, 0] += len(captions) * others
    return pairs


class Incidence(NamedTuple):
    """ids: the distinct ids of some captions, ascending. has: (captions, ids), 1.0 where a caption has the id, or 0."""

    ids: np.ndarray
    has: np.ndarray


def _mark_ids(ids: Sequence[np.ndarray]) -> Incidence:
    """Which of the captions has which id; ids: those of each caption."""
    distinct, number = np.unique(np.concatenate(ids), return_inverse=True)
    has = np.zeros((len(ids), len(distinct)))
    caption = np.repeat(np.arange(len(ids)), [len(of_caption) for of_caption in ids])
    has[caption, number] = 1.0
    return Incidence(distinct, has)


def count_transitions(images: Iterable[Sequence[set[Assertion]]]) -> dict[Transition, int]:
    """Count the transitions in images; each image is a list of the assertions of its captions.

    Of two captions that say "two dogs" and one that says "three dogs", both ordered pairs with the third count for the
    transition from 2 to 3. A transition to "" counts all pairs whose first caption says `old`: the denominator.
    """
    counts: defaultdict[Transition, int] = defaultdict(int)
    for captions in images:
        # By noun and number of the caption, the values that the caption gives it: {"dog": {0: {"2"}, 2: {"3"}}}.
        values_of_noun: dict[str, dict[int, set[str]]] = {}
        for number, of_caption in enumerate(captions):
            for thing, asserted in of_caption:
                values_of_noun.setdefault(thing, {}).setdefault(number, set()).add(asserted)
        other_captions = len(captions) - 1
        for thing, values_given in values_of_noun.items():
            # What each caption says of the thing by any noun, such as "puppy" for "dog": {0: {"2"}, 1: {"3"}}.
            nouns = [values_of_noun[other] for other in values_of_noun if is_same_thing(thing, other)]
            values_of_caption = _joined_values(nouns)
            captions_with = Counter(new for values in values_of_caption.values() for new in values)  # by value
            for number, olds in values_given.items():
                for old in olds:
                    counts[Transition(old=old, thing=thing, new="")] += other_captions
                    for new, with_new in captions_with.items():
                        # The caption itself does not count among those that give the new value.
                        others = with_new - 1 if new in values_of_caption[number] else with_new
                        if others:
                            counts[Transition(old=old, thing=thing, new=new)] += others
    return counts


def _joined_values(nouns: Sequence[Mapping[int, set[str]]]) -> Mapping[int, set[str]]:
    """The values that each caption gives a thing, by any of its nouns: "dog" {0: {"2"}}, "puppy" {1: {"3"}} joined.

    nouns: for each noun, the values that captions give it, by the number of the caption, as in the result.
    """
    if len(nouns) == 1:
        return nouns[0]
    numbers = set(chain.from_iterable(nouns))
    return {number: set[str]().union(*(of_noun.get(number, ()) for of_noun in nouns)) for number in numbers}


def count_entailments(images: Sequence[Sequence[Caption]], entailed: EntailedEntries) -> pa.Table:
    """A table of counts of caption pairs in some images, each a list of its captions."""
    import pyarrow as pa

    # For each caption of each image: the nouns that it mentions, and the entries that it entails, by kind.
    read = [
        [(mentioned_nouns(caption), {kind: entailed(kind, caption) for kind in WORDS}) for caption in captions]
        for captions in images
    ]
    words = sorted({noun for nouns, _ in chain.from_iterable(read) for noun in nouns})
    id_of_word = {word: number for number, word in enumerate(words)}

    tables = []
    for kind in WORDS:  # pairs by the word that the first caption mentions and the entry that the second entails
        names = entailed.lexicon.entries(kind).names
        words_of_images = (
            [
                WordsOfCaption(words=np.array([id_of_word[noun] for noun in nouns], int), entries=entries[kind])
                for nouns, entries in captions
            ]
            for captions in read
        )
        pairs = count_pairs(words_of_images, len(words), len(names))
        row, column = pairs.nonzero()
        tables.append(
            _counts_table(
                kind,
                said=pa.array(["", *words], pa.string()).take(pa.array(row)),
                thing=pa.repeat("", len(row)),
                entry=pa.array(["", *names], pa.string()).take(pa.array(column)),
                pairs=pa.array(pairs[row, column].astype(int)),
            )
        )
    for kind in filter(is_transition, KINDS):  # by the assertion of the first and the value that the second gives
        counts = count_transitions([assertions_of(kind, caption) for caption in captions] for captions in images)
        tables.append(
            _counts_table(
                kind,
                said=pa.array([old for old, _, _ in counts], pa.string()),
                thing=pa.array([thing for _, thing, _ in counts], pa.string()),
                entry=pa.array([new for _, _, new in counts], pa.string()),
                pairs=pa.array(counts.values(), pa.int64()),
            )
        )
    return pa.concat_tables(tables)


def _counts_table(kind: str, *, said: pa.Array, thing: pa.Array, entry: pa.Array, pairs: pa.Array) -> pa.Table:
    """A table of counts of one kind, from its columns."""
    import pyarrow as pa

    kinds = pa.repeat(kind, len(pairs))
    return pa.table([kinds, said, thing, entry, pairs.cast(pa.int64())], [*KEYS, PAIRS])


def join_folds(folds: Sequence[pa.Table]) -> pa.Table:
    """Join the counts of the folds, sorted, with one column of pairs per fold; counts of rare words are dropped.

    A key is what is counted: the words of one row in the columns KEYS. Each key is numbered first, its columns in the
    order of their words: millions of numbers are sorted faster than texts.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    words: list[pa.Array] = []  # the distinct words of each column of KEYS, in order
    word_numbers: list[np.ndarray] = []  # for each column, the number of the word in each row of all folds
    for key in KEYS:
        column = pa.chunked_array([chunk for fold in folds for chunk in fold[key].chunks], pa.string())
        encoded = column.combine_chunks().dictionary_encode()
        words.append(encoded.dictionary.take(pc.array_sort_indices(encoded.dictionary)))
        rank = (pc.rank(encoded.dictionary).to_numpy() - 1).astype(np.int64)
        word_numbers.append(rank[encoded.indices.to_numpy()])
    sizes = [max(len(of_column), 1) for of_column in words]
    keys, key_of_row = np.unique(np.ravel_multi_index(word_numbers, sizes), return_inverse=True)
    pairs: list[np.ndarray] = []  # the pairs of each key in each fold, (keys,)
    start = 0
    for counts in folds:
        rows = key_of_row[start : start + len(counts)]
        pairs.append(np.bincount(rows, counts[PAIRS].to_numpy(), len(keys)).astype(np.int64))
        start += len(counts)

    kind, said, thing, entry = np.unravel_index(keys, sizes)
    # Of each key, (keys,): whether it is of the kinds in WORDS, and whether these columns are not "", which means any.
    is_word_kind = np.array([text in WORDS for text in words[0].to_pylist()], bool)[kind]
    has_said = np.array([bool(text) for text in words[1].to_pylist()], bool)[said]
    has_entry = np.array([bool(text) for text in words[3].to_pylist()], bool)[entry]
    is_of_word = is_word_kind & has_said
    # A word's key without an entry has all pairs whose first caption mentions the word.
    is_total_of_word = is_of_word & ~has_entry
    is_rare_total = is_total_of_word & (np.add.reduce(pairs) < MIN_PAIRS)
    is_rare_word = np.zeros(sizes[1], bool)  # by the word's number
    is_rare_word[said[is_rare_total]] = True
    kept = np.flatnonzero(~(is_of_word & is_rare_word[said]))
    texts = [
        of_column.take(pa.array(numbers[kept]))
        for of_column, numbers in zip(words, (kind, said, thing, entry), strict=True)
    ]
    names = [f"{PAIRS}_{number}" for number in range(len(folds))]
    return pa.table([*texts, *(pa.array(of_fold[kept]) for of_fold in pairs)], [*KEYS, *names])


def sum_folds(counts: pa.Table, left_out: int | None = None) -> pa.Table:
    """The counts of all folds, or of all except fold `left_out`, added: columns KEYS and `pairs`.

    counts: a table with a column of pairs for each fold, see `join_folds`.
    """
    import pyarrow.compute as pc

    pairs = reduce(pc.add, counts.drop_columns(list(KEYS)).columns)
    if left_out is not None:
        pairs = pc.subtract(pairs, counts[f"{PAIRS}_{left_out}"])
    return counts.select(KEYS).append_column(PAIRS, pairs).filter(pc.greater(pairs, 0))


def label_candidates(parses: pa.Table, counts: pa.Table, lexicon: Lexicon) -> pa.Table:
    """Make candidates for captions of some images, and label them by a caption that is held out.

    Args:
        parses: the captions of the images.
        counts: of other images, from which the features are estimated.
        lexicon: where replacements come from.

    Returns:
        A row for each candidate: `kind`; `features` (see negcap.augment.truth.estimates.EXPECTED); `true`, whether the
        held-out caption makes it true.
    """
    import pyarrow as pa

    # Only the features are needed, which do not depend on the coefficients: any will do.
    truth = Truth.from_table(_with_coefficients(counts, EXPECTED), lexicon)
    entailed = EntailedEntries(lexicon)
    labelled = []
    for images in batches(by_image(from_parses(parses))):
        divided = [_hold_out_caption(captions) for captions in images]
        # Of the shown captions of an image only the first gets candidates, so only this one is read.
        evidence = gather_evidence([image.shown for image in divided], lexicon.cloze, only_first=True)
        replacers = replacing(*TRUTH_KINDS)
        batch = propose_batch(replacers.values(), evidence, lexicon, Limits())
        proposed = {kind: _propose_rows(replacers[kind], batch) for kind in TRUTH_KINDS}
        for number, image in enumerate(divided):
            estimates = truth.of_image(image.shown)
            caption = image.shown[0]
            for kind in TRUTH_KINDS:
                for row in proposed[kind][number]:
                    features = estimates.features(row, caption)
                    if features is not None:
                        labelled.append((kind, features, is_true(row, caption, image.held_out, entailed)))
    columns = {"kind": pa.string(), "features": pa.list_(pa.float64()), "true": pa.bool_()}
    return table_of(labelled, pa.schema(columns))


def calibrated_table(counts: pa.Table, labelled: Sequence[pa.Table]) -> pa.Table:
    """The `truth` table from all counts, with the calibration fitted on labelled candidates."""
    import pyarrow as pa
    import pyarrow.compute as pc

    candidates = pa.concat_tables(labelled)
    fitted = {}  # the coefficients of each kind that has candidates
    for kind in TRUTH_KINDS:
        labels = candidates.filter(pc.equal(candidates["kind"], kind))
        if len(labels):
            features = np.array(labels["features"].to_pylist())
            is_true = np.array(labels["true"].to_pylist())
            fitted[kind] = fit_coefficients(features, is_true, np.array(EXPECTED[kind])).round(6)
    counted = sum_folds(counts)
    return _with_coefficients(counted.filter(pc.is_in(counted["kind"], pa.array(fitted, pa.string()))), fitted)


def _with_coefficients(counts: pa.Table, coefficients: Mapping[str, Iterable[float]]) -> pa.Table:
    """Put the coefficients of the calibration and the counts into one table of the schema `TRUTH`.

    A run keeps both in one file, so they share a table: first one row per kind, with its coefficients and no count;
    then one row per count, without coefficients.

    Args:
        counts: the columns kind, said, of, entry and the number of pairs of captions.
        coefficients: those of each kind.
    """
    import pyarrow as pa

    # These rows count nothing: no words, and the count 0. Null coefficients tell the other rows from them.
    nothing = {"said": "", "of": "", "entry": "", "count": 0}
    fitted = pa.Table.from_pylist(
        [{"kind": kind, **nothing, "coefficients": list(of_kind)} for kind, of_kind in sorted(coefficients.items())],
        schema=TRUTH,
    )
    columns = dict(zip([*KEYS, "count"], counts.columns, strict=True))
    columns["coefficients"] = pa.nulls(len(counts), TRUTH.field("coefficients").type)
    counted = pa.Table.from_arrays([columns[field.name].cast(field.type) for field in TRUTH], schema=TRUTH)
    return pa.concat_tables([fitted, counted]).combine_chunks()


class HeldOutCaption(NamedTuple):
    """Captions of an image: some are shown, and candidates are made for the first of these; one more is held out."""

    shown: tuple[Caption, ...]
    held_out: Caption


def _hold_out_caption(captions: Sequence[Caption]) -> HeldOutCaption:
    """Show some captions of an image, a random choice of random size, at least one, and hold out one more.

    captions: all of the image, at least two.
    """
    rng = record_rng(0, "truth", captions[0].image_id)
    order = rng.sample(list(captions), len(captions))
    number = rng.randrange(1, len(captions))
    return HeldOutCaption(shown=tuple(order[:number]), held_out=order[number])


def _propose_rows(replacer: ReplacingOperator, batch: Batch) -> list[list[Row]]:
    """For each caption of a batch, at most KEPT rows that no shown caption rejects, sampled as negatives are."""
    results = [OperatorResult([], []) for _ in batch.evidence]
    wanted = dict.fromkeys(range(len(results)), KEPT)
    add_accepted_rows(results, wanted, replacer.rows(batch, 0), replacer, batch, read=False)
    return [result.accepted for result in results]


def is_true(row: Row, caption: Caption, other: Caption, entailed: EntailedEntries) -> bool:
    """Whether the caption `other` of the same image makes a row for `caption` true.

    A noun or verb is true if `other` entails it; a number or attribute, if `other` gives it to the same thing, such as
    "two" to "dog".
    """
    kind = row.change
    if kind in WORDS:
        return entailed.lexicon.entries(kind).number[row.replacement] in entailed(kind, other)
    thing = caption.tokens[row.tokens[-1]].lemma  # the last of these tokens is the noun that is counted or described
    return assertion_value(kind, row.replacement) in values_of(thing, assertions_of(kind, other))


def fit_coefficients(features: np.ndarray, labels: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The maximum a posteriori coefficients, shape (d,), for features (n, d) and labels (n,), by Newton's method.

    The prior is normal with the given mean, shape (d,), and variance 1.
    """
    coefficients = mean.copy()
    for _ in range(STEPS):
        # The slope decides the result, so its sums have a fixed order, unlike those in products of matrices.
        likely = sigmoid(np.add.reduce(features * coefficients, axis=1))
        slope = np.add.reduce(features * (labels - likely)[:, None]) - (coefficients - mean)
        curve = (features * (likely * (1 - likely))[:, None]).T @ features + np.eye(len(mean))
        step = np.linalg.solve(curve, slope)
        # A longer step than 1 is shortened: Newton's method may leap past the maximum.
        coefficients += step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return coefficients
