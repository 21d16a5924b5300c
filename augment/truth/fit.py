"""Calibrate the estimates on candidates that held-out captions label as true or false.

In each image, some captions are known and one of the others is held out. Operators propose candidates for a known
caption, as for negatives; a candidate that the known captions do not reject is labelled true if the held-out caption
makes it true. It is estimated from the counts of the other folds of images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, NamedTuple

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
from .estimates import EXPECTED, KIND_OF_CHANGE, Truth
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

    known, entailed = uncalibrated(counts, lexicon), EntailedEntries(lexicon)
    rows = [
        row
        for images in batches(by_image(from_parses(parses)))
        for held in _read(map(_held_out, images), lexicon)
        for row in _labelled(held, entailed, known)
    ]
    kinds, features, labels = zip(*rows, strict=True) if rows else ((), (), ())
    types = {"kind": pa.string(), "features": pa.list_(pa.float64()), "true": pa.bool_()}
    columns = zip((kinds, features, labels), types.values(), strict=True)
    return pa.table([pa.array(column, type) for column, type in columns], list(types))


def uncalibrated(counts: pa.Table, lexicon: Lexicon) -> Truth:
    """Estimates from counts with prior coefficients, to compute features, which do not depend on these."""
    return Truth.from_table(_with_coefficients(counts, EXPECTED), lexicon)


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
    counted = pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, TRUTH, strict=True)], schema=TRUTH
    )
    return pa.concat_tables([pa.Table.from_pylist(rows, schema=TRUTH), counted]).combine_chunks()


class HeldOut(NamedTuple):
    """The captions of an image in random order: those `shown`, of which candidates are made for the first, the next one
    (`held_out`), and the random stream.
    """

    shown: tuple[Caption, ...]
    held_out: Caption
    rng: Random


def _held_out(captions: Sequence[Caption]) -> HeldOut:
    rng = record_rng(0, "truth", captions[0].image_id)
    order = rng.sample(list(captions), len(captions))
    held_out = rng.randrange(1, len(captions))
    return HeldOut(tuple(order[:held_out]), order[held_out], rng)


def _read(images: Iterable[HeldOut], lexicon: Lexicon) -> Iterator[tuple[HeldOut, Context]]:
    """The context of the first caption of each image; these captions are read together."""
    images = list(images)
    readings = read([image.shown[0] for image in images], lexicon.cloze)
    for image, reading in zip(images, readings, strict=True):
        yield image, Context(lexicon, Mentions(image.shown[:1]), Mentions(image.shown[1:]), reading)


def _labelled(
    held: tuple[HeldOut, Context], entailed: EntailedEntries, known: Truth
) -> Iterator[tuple[str, list[float], bool]]:
    """Kind, features and label of candidates for the first caption of an image."""
    (shown, held_out, rng), context = held
    image = known.of_image(shown)
    for kind in TRUTH_KINDS:
        proposed = OPERATORS[kind].propose(shown[0], context, rng, DRAWS)
        kept = list(islice((one for one in proposed if check(one, shown[0], context) is None), KEPT))
        for candidate in kept:
            values = image.features(candidate, shown[0])
            if values is not None:
                yield kind, values, is_true(candidate, shown[0], held_out, entailed)


def is_true(candidate: Candidate, caption: Caption, other: Caption, entailed: EntailedEntries) -> bool:
    """Whether the caption `other` of the same image makes a candidate for `caption` true."""
    kind = KIND_OF_CHANGE[candidate.change]
    if kind in WORDS:
        return entailed.lexicon.entries(kind).number[candidate.replacement] in entailed(kind, other)
    thing = caption.tokens[candidate.slots[-1]].lemma
    values = exchange.values_of(kind, thing, ASSERTIONS[kind](other))
    return exchange.value(kind, candidate.replacement) in values
