"""Calibrate the estimates on candidates that held-out captions label as true or false.

In each image, some captions are known and one of the others is held out. Operators propose candidates for a known
caption, as for negatives; a candidate that the known captions do not reject is labelled true if the held-out caption
makes it true. It is estimated from the counts of the other folds of images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.captions import TRUTH, TRUTH_KINDS
from ..caption import Caption, by_image, from_parses
from ..context import Context, batches
from ..edits import Candidate
from ..lexicon.lexicon import Lexicon
from ..mentions import Mentions
from ..operators import OPERATORS
from ..plausibility import read
from ..rng import record_rng
from . import exchange
from .associations import fit
from .contradiction import check
from .counts import FOLDS, KEYS, PAIRS, WORDS, EntailedEntries, add, count, encoded, fold, total
from .estimates import EXPECTED, KIND_OF_CHANGE, ImageTruth, Truth
from .exchange import ASSERTIONS

if TYPE_CHECKING:
    import pyarrow as pa

IMAGES = 2000  # number of images on which the calibration is fitted
DRAWS, KEPT = 24, 12

Spread = Callable[[Callable[..., "pa.Table"], Sequence[Sequence["pa.Table"]]], "Sequence[pa.Table]"]


def estimate(parses: pa.Table, spread: Spread) -> pa.Table:
    """The `truth` table for the parses of some images (negcap.schemas.captions), empty if no image has two captions.

    The calibration is fitted on the first IMAGES of them; kinds without candidates have no estimate. `spread(function,
    calls)` runs `tally` and `label` for each fold: use `in_turn` to run them here; a stage runs them in workers.
    """
    parses = with_siblings(parses)
    images = parses["image_id"].unique()
    folds = by_fold(parses, images)
    counts = encoded(add(spread(tally, [[part] for part in folds])))
    fitted_on = by_fold(parses, images[:IMAGES])
    labelled = spread(label, [[fitted_on[number], total(counts, number)] for number in range(FOLDS)])
    return calibrated(counts, labelled)


def extend(truth: pa.Table, parses: pa.Table, spread: Spread) -> pa.Table:
    """A `truth` table with the counts of some more images; the calibration stays as it is.

    It is for images that are too few for a calibration of their own. `parses` and `spread`: as for `estimate`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    parses = with_siblings(parses)
    if not len(parses):
        return truth
    is_count = pc.is_null(truth["coefficients"])
    fitted = truth.filter(pc.invert(is_count))
    known = pa.table(truth.filter(is_count).select([*KEYS, "count"]).columns, [*KEYS, PAIRS])
    folds = spread(tally, [[part] for part in by_fold(parses, parses["image_id"].unique())])
    coefficients = dict(zip(fitted["kind"].to_pylist(), fitted["coefficients"].to_pylist(), strict=True))
    return _with_coefficients(total(add([known, *folds])), coefficients)


def in_turn(lexicon: Lexicon) -> Spread:
    """A `spread` for `estimate` that runs the calls in this process, one after the other, with this lexicon."""
    return lambda function, calls: [function(*tables, lexicon) for tables in calls]


def with_siblings(table: pa.Table) -> pa.Table:
    """The captions of images that have at least two."""
    _, image, captions = np.unique(table["image_id"].to_numpy(), return_inverse=True, return_counts=True)
    return table.filter(captions[image] > 1)


def by_fold(table: pa.Table, images: pa.Array) -> list[pa.Table]:
    """The captions of these images, one table per fold."""
    import pyarrow.compute as pc

    image = pc.index_in(table["image_id"], images).fill_null(-1).to_numpy()
    folds = np.array([*map(fold, images.to_pylist()), -1])[image]
    return [table.filter(folds == number) for number in range(FOLDS)]


def tally(parses: pa.Table, lexicon: Lexicon) -> pa.Table:
    """A table of counts (see negcap.augment.truth.counts) of the images in `parses`, dictionary-encoded."""
    return encoded(count(by_image(from_parses(parses)), EntailedEntries(lexicon)))


def label(parses: pa.Table, counts: pa.Table, lexicon: Lexicon) -> pa.Table:
    """Labelled candidates for captions of some images, with features estimated from the `counts` of other images.

    Columns: `kind`; `features` (see negcap.augment.truth.estimates.EXPECTED); `true`, whether the held-out caption
    makes it true.
    """
    import pyarrow as pa

    # The features do not depend on the coefficients.
    known, entailed = Truth.from_table(_with_coefficients(counts, EXPECTED), lexicon), EntailedEntries(lexicon)
    rows = []
    for images in batches(by_image(from_parses(parses))):
        held = [_held_out(captions) for captions in images]
        readings = read([shown[0] for shown, _, _ in held], lexicon.cloze)
        for (shown, held_out, rng), reading in zip(held, readings, strict=True):
            context = Context(lexicon, Mentions(shown[:1]), Mentions(shown[1:]), reading)
            for kind, candidate, values in _proposed(context, known.of_image(shown), rng):
                rows.append((kind, values, is_true(candidate, shown[0], held_out, entailed)))
    kinds, features, labels = zip(*rows, strict=True) if rows else ((), (), ())
    types = {"kind": pa.string(), "features": pa.list_(pa.float64()), "true": pa.bool_()}
    columns = zip((kinds, features, labels), types.values(), strict=True)
    return pa.table([pa.array(column, type) for column, type in columns], list(types))


def calibrated(counts: pa.Table, labelled: Sequence[pa.Table]) -> pa.Table:
    """The `truth` table from all counts, with the calibration fitted on labelled candidates."""
    import pyarrow as pa
    import pyarrow.compute as pc

    candidates = pa.concat_tables(labelled)
    fitted = {}
    for kind in TRUTH_KINDS:
        own = candidates.filter(pc.equal(candidates["kind"], kind))
        if len(own):
            features = np.array(own["features"].to_pylist())
            fitted[kind] = fit(features, np.array(own["true"].to_pylist()), np.array(EXPECTED[kind])).round(6)
    counted = total(counts)
    return _with_coefficients(counted.filter(pc.is_in(counted["kind"], pa.array(fitted, pa.string()))), fitted)


def _with_coefficients(counts: pa.Table, coefficients: Mapping[str, Iterable[float]]) -> pa.Table:
    """A `truth` table: a row of coefficients for each kind, then the counts."""
    import pyarrow as pa

    blank = {"said": "", "of": "", "entry": "", "count": 0}
    rows = [{"kind": kind, **blank, "coefficients": list(own)} for kind, own in sorted(coefficients.items())]
    columns = [*counts.columns, pa.nulls(len(counts), TRUTH.field("coefficients").type)]
    arrays = [column.cast(field.type) for column, field in zip(columns, TRUTH, strict=True)]
    counted = pa.Table.from_arrays(arrays, schema=TRUTH)
    return pa.concat_tables([pa.Table.from_pylist(rows, schema=TRUTH), counted]).combine_chunks()


def _held_out(captions: Sequence[Caption]) -> tuple[tuple[Caption, ...], Caption, Random]:
    """The captions of an image in random order: those that are shown, of which candidates are made for the first; the
    next one, which is held out; and the random stream.
    """
    rng = record_rng(0, "truth", captions[0].image_id)
    order = rng.sample(list(captions), len(captions))
    number = rng.randrange(1, len(captions))
    return tuple(order[:number]), order[number], rng


def _proposed(context: Context, image: ImageTruth, rng: Random) -> Iterator[tuple[str, Candidate, list[float]]]:
    """Kind and features of candidates for a caption that the known captions do not reject."""
    caption = context.caption
    for kind in TRUTH_KINDS:
        proposed = OPERATORS[kind].propose(caption, context, rng, DRAWS)
        kept = list(islice((candidate for candidate in proposed if check(candidate, caption, context) is None), KEPT))
        for candidate in kept:
            features = image.features(candidate, caption)
            if features is not None:
                yield kind, candidate, features


def is_true(candidate: Candidate, caption: Caption, other: Caption, entailed: EntailedEntries) -> bool:
    """Whether the caption `other` of the same image makes a candidate for `caption` true."""
    kind = KIND_OF_CHANGE[candidate.change]
    if kind in WORDS:
        return entailed.lexicon.entries(kind).number[candidate.replacement] in entailed(kind, other)
    thing = caption.tokens[candidate.slots[-1]].lemma
    values = exchange.values_of(kind, thing, ASSERTIONS[kind](other))
    return exchange.value(kind, candidate.replacement) in values
