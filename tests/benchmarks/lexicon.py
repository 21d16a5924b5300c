"""How well lexicons predict the words of other captions: `python -m tests.benchmarks.lexicon RUN [--captions N ...]`.

RUN has parses. Half of its images are held out (those outside train splits, if there are any); captions of the
others are counted, by themselves ("own") and blended with the reference lexicon at several weights. The figures are the
number of usable nouns and, for nouns, prepositions, verbs and attributes of the held-out captions, the mean log
probability of the word that stands there, which is log(0.99 p + 0.01 / 10,000) so that an unknown word has one, too.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from negcap.augment.caption import Caption, from_parses
from negcap.augment.data import data_path
from negcap.augment.language.concreteness import Concreteness
from negcap.augment.lexicon.entries import Entries, blend_counts
from negcap.augment.lexicon.lexicon import Lexicon, count_captions, default_min_count, select_entries
from negcap.augment.reproducible import record_rng
from negcap.augment.slots.nouns import attribute_slots, noun_slots
from negcap.augment.slots.verbs import preposition_slots, verb_slots
from negcap.pipelines.engine.tables import read_table
from negcap.pipelines.stages.lexicon import TRAIN_SPLITS, captions_counted
from negcap.pipelines.tables.corpus import given_table
from negcap.schemas.captions import LEXICON

UNKNOWN, WORDS = 0.01, 10_000
KINDS = ("noun", "preposition", "verb", "attribute")
REFERENCE = data_path("reference_lexicon") / "lexicon.parquet"

Slot = tuple[str, str, str, tuple[str, ...]]  # kind, entry, form, contexts


def slots(caption: Caption) -> Iterator[Slot]:
    """The words of a caption whose probability is measured."""
    yield from (("noun", slot.entry, slot.form, slot.contexts) for slot in noun_slots(caption))
    yield from (("preposition", slot.entry, "", slot.contexts) for slot in preposition_slots(caption))
    yield from (("verb", slot.entry, slot.form, slot.contexts) for slot in verb_slots(caption))
    yield from (("attribute", slot.entry, "", slot.contexts) for slot in attribute_slots(caption))


def log_probability(entries: Entries, entry: str, form: str, contexts: tuple[str, ...]) -> float:
    """The log probability of an entry in a slot; see the module's docstring."""
    number = entries.number.get(entry)
    p = 0.0 if number is None else entries.probabilities([contexts], form)[0, number]
    return float(np.log((1 - UNKNOWN) * p + UNKNOWN / WORDS))


def first_images(parses: pa.Table, captions: int) -> pa.Table:
    """The captions of random images, at least `captions` in all if there are as many."""
    sizes = Counter(parses["image_id"].to_pylist())
    images = sorted(sizes, key=lambda image: record_rng(7, "sample", image).random())
    kept = np.cumsum([sizes[image] for image in images])
    return parses.filter(pc.is_in(parses["image_id"], pa.array(images[: int(np.searchsorted(kept, captions)) + 1])))


def halves(parses: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The captions to count and those held out: by split if there are train captions and others, else by image."""
    train = pc.is_in(parses["split"], pa.array(TRAIN_SPLITS))
    if not pc.any(train).as_py() or pc.all(train).as_py():
        images = parses["image_id"].to_pylist()
        train = pa.array([bool(record_rng(7, "half", image).getrandbits(1)) for image in images])
    return parses.filter(train), parses.filter(pc.invert(train))


def show(name: str, captions: int, table: pa.Table, held_out: Sequence[Slot]) -> None:
    """Print the figures of one lexicon as a line of a Markdown table."""
    lexicon = Lexicon.from_table(table)
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for kind, *slot in held_out:
        found[kind].append(log_probability(lexicon.entries(kind), *slot))
    means = " | ".join(f"{np.mean(found[kind]):.2f}" for kind in KINDS)
    print(f"| {captions:,} | {name} | {len(lexicon.nouns.names):,} | {means} |", flush=True)


def main() -> None:
    """Run the command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--captions", type=int, nargs="+", default=[5, 50, 500, 2_000, 5_000, 20_000])
    parser.add_argument("--weights", type=int, nargs="+", default=[1_000, 5_000, 20_000, 138_670])
    parser.add_argument("--held-out", type=int, default=5_000, help="captions, default: 5000")
    given = parser.parse_args()
    counted, others = halves(pa.concat_tables(read_table(given.run, "parses")))
    held_out = [slot for caption in from_parses(first_images(others, given.held_out)) for slot in slots(caption)]
    reference, size = given_table(REFERENCE, LEXICON), captions_counted(REFERENCE)
    print(f"| captions | lexicon | nouns | {' | '.join(KINDS)} |\n|{'---|' * (3 + len(KINDS))}")
    show("reference", 0, reference, held_out)
    for captions in given.captions:
        part = first_images(counted, captions)
        counts = count_captions(from_parses(part))
        own = select_entries(counts, default_min_count(len(part)), Concreteness.load(), 0.6)
        show("own", len(part), own, held_out)
        for weight in given.weights:
            show(f"blend {weight:,}", len(part), blend_counts(counts, own, reference, weight / size), held_out)


if __name__ == "__main__":
    main()
