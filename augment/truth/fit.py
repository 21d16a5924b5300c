"""Count what sibling captions say, and calibrate the estimates on candidates that held-out captions judge.

Of every image, some captions are taken as known and one of the others as held out. The operators propose candidates
for a known caption, as they do for negatives; those that the known captions do not refuse are true if the held-out
caption would have refused them. The counts that estimate them are those of the other folds of images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import islice
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from augment.caption import Caption
from augment.context import contexts, nouns_said, verbs_said
from augment.contradiction import check
from augment.edits import Candidate
from augment.language.lexicon import Lexicon
from augment.operators import OPERATORS
from augment.rng import record_rng
from augment.truth import associations, transitions
from augment.truth.associations import Associations, Pairs
from augment.truth.calibration import fit
from augment.truth.entailment import Entailment
from augment.truth.estimates import EXPECTED, OF_CHANGE, Truth
from augment.truth.transitions import CLAIMS, Claim, Transitions, Turn
from schemas.truth import KINDS, TRUTH

if TYPE_CHECKING:
    import pyarrow as pa

WORDS = ("noun", "verb")
FOLDS = 5
LEAST = 5  # captions that say a word: of rarer ones nothing is learnt
IMAGES = 2000  # on which the calibration is fitted
DRAWS, KEPT = 24, 12


@dataclass(frozen=True)
class MakesTrue:
    """What a caption makes true: the numbers of the lexicon's entries, of either kind of word."""

    lexicon: Lexicon

    @cached_property
    def _nouns(self) -> Entailment:
        return Entailment(self.lexicon.nouns.names)

    def __call__(self, kind: str, caption: Caption) -> np.ndarray:
        """The nouns that the caption's nouns make true, by WordNet, or the verbs that it says."""
        if kind == "noun":
            return self._nouns.of(nouns_said(caption))
        known = self.lexicon.verbs.number
        return np.array([known[verb] for verb in verbs_said(caption) if verb in known], int)


@dataclass(frozen=True)
class Counts:
    """The counts of some images: of words by kind, and of claims by kind."""

    words: Mapping[str, Pairs]
    claims: Mapping[str, Counter[Turn]]

    def __add__(self, other: Counts) -> Counts:
        """The counts of both."""
        return Counts(
            {kind: pairs + other.words[kind] for kind, pairs in self.words.items()},
            {kind: counts + other.claims[kind] for kind, counts in self.claims.items()},
        )

    def __sub__(self, other: Counts) -> Counts:
        """The counts without those of some images."""
        claims = {kind: Counter(counts) for kind, counts in self.claims.items()}
        for kind, counts in claims.items():
            counts.subtract(other.claims[kind])
        return Counts({kind: pairs - other.words[kind] for kind, pairs in self.words.items()}, claims)


def estimate(images: Sequence[Sequence[Caption]], lexicon: Lexicon) -> pa.Table:
    """The `truth` table of some images (see schemas.truth), empty where no image has two captions.

    The calibration is fitted on the first IMAGES of them; for a kind without candidates there is no estimate.
    """
    images = [one for one in images if len(one) > 1]
    said = Counter(word for one in images for caption in one for word in nouns_said(caption))
    words = sorted(word for word, number in said.items() if number >= LEAST)
    by_fold: list[list[Sequence[Caption]]] = [[] for _ in range(FOLDS)]
    for one in images:
        by_fold[_fold(one)].append(one)
    makes_true = MakesTrue(lexicon)
    counts = [count(some, words, makes_true) for some in by_fold]
    total = reduce(add, counts)
    folds = [truth(total - one, words, lexicon, {}) for one in counts]
    features: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    labels: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    for one in images[:IMAGES]:
        for kind, values, label in judged(one, makes_true, folds[_fold(one)]):
            features[kind].append(values)
            labels[kind].append(label)
    fitted = {
        kind: fit(np.array(features[kind]), np.array(labels[kind]), np.array(EXPECTED[kind]))
        for kind in KINDS
        if labels[kind]
    }
    return table(total, words, lexicon, fitted)


def _fold(captions: Sequence[Caption]) -> int:
    return record_rng(0, "truth fold", captions[0].image_id).randrange(FOLDS)


def count(images: Sequence[Sequence[Caption]], words: Sequence[str], makes_true: MakesTrue) -> Counts:
    """Count pairs of captions of every image."""
    number = {word: row for row, word in enumerate(words)}
    said = [[np.array([number[w] for w in nouns_said(c) if w in number], int) for c in one] for one in images]
    pairs = {}
    for kind in WORDS:
        made = ((makes_true(kind, caption) for caption in one) for one in images)
        rows = (list(zip(first, second, strict=True)) for first, second in zip(said, made, strict=True))
        pairs[kind] = associations.count(rows, len(words), len(makes_true.lexicon.entries(kind).names))
    claims = {
        kind: transitions.count(kind, ([read(c) for c in one] for one in images)) for kind, read in CLAIMS.items()
    }
    return Counts(pairs, claims)


def truth(counts: Counts, words: Sequence[str], lexicon: Lexicon, calibration: Mapping[str, np.ndarray]) -> Truth:
    """The estimates that counts give."""
    return Truth(
        {kind: Associations(counts.words[kind], words, lexicon.entries(kind).names) for kind in WORDS},
        {kind: Transitions(counts.claims[kind]) for kind in CLAIMS},
        calibration,
    )


def judged(captions: Sequence[Caption], makes_true: MakesTrue, known: Truth) -> Iterator[tuple[str, list[float], bool]]:
    """Kind, features and truth of candidates for one caption of an image; the held-out caption follows the known."""
    rng = record_rng(0, "truth", captions[0].image_id)
    order = rng.sample(list(captions), len(captions))
    held_out = rng.randrange(1, len(captions))
    shown = order[:held_out]
    context, image = contexts(shown, makes_true.lexicon)[0], known.of_image(shown)
    for kind in KINDS:
        proposed = OPERATORS[kind].propose(shown[0], context, rng, DRAWS)
        usual = (one for one in proposed if not one.spare and check(one, shown[0], context) is None)
        for candidate in islice(usual, KEPT):
            values = image.features(candidate, shown[0])
            if values is not None:
                yield kind, values, is_true(candidate, shown[0], order[held_out], makes_true)


def is_true(candidate: Candidate, caption: Caption, other: Caption, makes_true: MakesTrue) -> bool:
    """Whether another caption of the image makes a candidate true."""
    kind = OF_CHANGE[candidate.change]
    if kind in WORDS:
        return makes_true.lexicon.entries(kind).number[candidate.replacement] in makes_true(kind, other)
    claims: set[Claim] = CLAIMS[kind](other)
    thing = caption.tokens[candidate.slots[-1]].lemma
    return transitions.value(kind, candidate.replacement) in transitions.said_of(kind, thing, claims)


def table(counts: Counts, words: Sequence[str], lexicon: Lexicon, calibration: Mapping[str, np.ndarray]) -> pa.Table:
    """Counts and calibration as a `truth` table, in order."""
    import pyarrow as pa

    tables = [TRUTH.empty_table()]
    for kind, coefficients in sorted(calibration.items()):
        tables.append(_rows(kind, [""], [""], [""], [0], [coefficients.round(6).tolist()]))
        if kind in CLAIMS:
            found = sorted((*turn, number) for turn, number in counts.claims[kind].items() if number)
            tables.append(_rows(kind, *(zip(*found, strict=True) if found else [()] * 4)))
            continue
        pairs, names = counts.words[kind], lexicon.entries(kind).names
        whole = np.block([[np.array([[pairs.all]]), pairs.true[None]], [pairs.said[:, None], pairs.together]])
        row, column = whole.nonzero()
        said = pa.array(["", *words], pa.string()).take(pa.array(row))
        entry = pa.array(["", *names], pa.string()).take(pa.array(column))
        tables.append(_rows(kind, said, pa.repeat("", len(row)), entry, whole[row, column].astype(int)))
    return pa.concat_tables(tables).combine_chunks()


def _rows(kind: str, said: Any, of: Any, entry: Any, count: Any, coefficients: Any = None) -> pa.Table:
    """Rows of one kind from their columns."""
    import pyarrow as pa

    blank = [None] * len(count) if coefficients is None else coefficients
    columns = ([kind] * len(count), said, of, entry, count, blank)
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, TRUTH, strict=True)], schema=TRUTH)
