"""What p_true is worth: `python -m tests.benchmarks.one_caption CAPTIONS [--shown 4]`.

Of each image of CAPTIONS (a source, or a run with parses; five captions an image, say) one caption is shown, or as many
as `--shown` says, and the others are hidden. Candidates for the first are estimated from the reference statistics
alone. Then the hidden captions say whether they are true: one of them, chosen at random, which is what p_true is about,
and all of them together; of prepositions, those that have the object with any. Printed are, by kind and for candidates
with p_true up to the limit and above it: how many there are, the mean of p_true, and the shares that one and all hidden
captions make true, in percent; then the same by tenths of the candidates, in order of p_true, and the expected
calibration error, which is the mean distance of p_true from the share that one hidden caption makes true.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from negcap.augment.candidates import Limits
from negcap.augment.caption import Caption, by_image, from_parses
from negcap.augment.data import data_path
from negcap.augment.evidence import gather_evidence
from negcap.augment.generate import add_accepted_rows
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.operators import replacing
from negcap.augment.operators.replacement import propose_batch
from negcap.augment.reproducible import record_rng
from negcap.augment.rows import OperatorResult
from negcap.augment.truth.estimates import MAX_P_TRUE, Truth
from negcap.augment.truth.fit import KEPT, EntailedEntries, is_true
from negcap.pipelines.tables.corpus import given_table
from negcap.schemas.captions import LEXICON, TRUTH, TRUTH_KINDS
from tests.benchmarks.truth import parses

IMAGES = 64  # whose shown captions are read at once


def labelled(
    images: list[list[Caption]], shown: int, lexicon: Lexicon, truth: Truth
) -> list[tuple[str, float, bool, bool]]:
    """Kind, p_true, and whether one and all of the hidden captions make it true, of candidates of some images."""
    entailed = EntailedEntries(lexicon)
    rngs = [record_rng(0, "one_caption", captions[0].image_id) for captions in images]
    mixed = [rng.sample(captions, len(captions)) for rng, captions in zip(rngs, images, strict=True)]
    evidence = gather_evidence([captions[:shown] for captions in mixed], lexicon.cloze, only_first=True)
    replacers = replacing(*TRUTH_KINDS)
    batch = propose_batch(replacers.values(), evidence, lexicon, Limits())
    rows = []
    for kind, replacer in replacers.items():
        proposed = [OperatorResult([], []) for _ in evidence]
        wanted = dict.fromkeys(range(len(evidence)), KEPT)
        add_accepted_rows(proposed, wanted, replacer.rows(batch, 0), replacer, batch, read=False)
        for result, captions in zip(proposed, mixed, strict=True):
            first, hidden = captions[0], captions[shown:]
            image = truth.of_image(captions[:shown])
            for row in result.accepted:
                chance = image.p_true(row, first)
                said = [is_true(row, first, other, entailed) for other in hidden]
                told = [true for true in said if true is not None]
                if chance is not None and told:
                    rows.append((kind, chance, told[0], any(told)))
    return rows


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captions")
    parser.add_argument("--images", type=int, default=2000, help="use only so many images")
    parser.add_argument("--shown", type=int, default=1, help="captions of an image that are known")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        images = by_image(from_parses(parses(given.captions, Path(scratch))))
    images = [captions for captions in images if len(captions) > given.shown][: given.images]
    folder = data_path("reference_lexicon")
    lexicon = Lexicon.from_table(given_table(folder / "lexicon.parquet", LEXICON))
    truth = Truth.from_table(given_table(folder / "truth.parquet", TRUTH), lexicon)
    parts = (images[start : start + IMAGES] for start in range(0, len(images), IMAGES))
    rows = [row for part in parts for row in labelled(part, given.shown, lexicon, truth)]
    print(f"{len(images):,} images, {len(rows):,} candidates; p_true and shares in %")
    print(f"{'kind':<12} {'p_true':<8} {'number':>8} {'mean':>7} {'one':>7} {'all':>7}")
    errors = {}
    for kind in (*TRUTH_KINDS, "every kind"):
        own = np.array([row[1:] for row in rows if kind in (row[0], "every kind")], dtype=float).reshape(-1, 3)
        for sign, within in (("<=", own[:, 0] <= MAX_P_TRUE), (">", own[:, 0] > MAX_P_TRUE)):
            show(kind, f"{sign} {MAX_P_TRUE}", own[within])
        tenths = np.array_split(own[np.argsort(own[:, 0], kind="stable")], 10)
        for part in tenths:
            show("", f"{part[-1, 0]:.4f}" if len(part) else "", part)
        errors[kind] = sum(abs(float((part[:, 0] - part[:, 1]).sum())) for part in tenths) / max(len(own), 1)
    print("expected calibration error, %: " + ", ".join(f"{kind} {100 * its:.2f}" for kind, its in errors.items()))


def show(kind: str, limit: str, some: np.ndarray) -> None:
    """Print a row; some: p_true and the two labels of candidates, (candidates, 3)."""
    means = some.mean(0) if len(some) else np.zeros(3)
    print(f"{kind:<12} {limit:<8} {len(some):>8,} " + " ".join(f"{100 * mean:>7.2f}" for mean in means))


if __name__ == "__main__":
    main()
