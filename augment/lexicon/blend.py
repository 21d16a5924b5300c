"""Add the counts of a reference lexicon to those of a corpus, so that a small corpus has words and contexts enough.

    n(w, c) = n_own(w, c) + weight * n_reference(w, c)

for each entry w (a noun, a verb ...) in each context c (such as the verb that governs it), and likewise for its count
in all contexts and those of its written forms. A corpus of a few captions then has about the probabilities of the
reference, and a large corpus its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

# The reference weighs as much as this number of captions, however many it was counted on. tests/benchmarks/lexicon.py
# measures it: of 1,000, 5,000, 20,000 and 138,670, held-out captions of COCO and Flickr8k are about likeliest with it.
REFERENCE_CAPTIONS = 5_000
ENTRY, KEY = ["kind", "entry"], ["kind", "entry", "place"]


def blend(counts: pa.Table, usable: pa.Table, reference: pa.Table, weight: float) -> pa.Table:
    """The weighted sum of the counts of a corpus and of a reference, as a sorted `lexicon` table.

    counts, usable, reference: `lexicon` tables (see negcap.schemas.lexicon): all counts of the corpus; those that
    `negcap.augment.lexicon.lexicon.select` keeps, which say which of its entries are frequent and concrete enough; and
    the reference. The result has these entries and all of the reference, each with all its counts in the corpus,
    except that a count of 1 in a context is dropped as noise unless the reference has it, too. weight: what the counts
    of the reference are multiplied by: REFERENCE_CAPTIONS over the number of captions that it was counted on.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    entries = pa.concat_tables([usable.select(ENTRY), reference.select(ENTRY)]).group_by(ENTRY).aggregate([])
    own = counts.join(entries, ENTRY, join_type="left semi").cast(counts.schema)
    known = pc.or_(pc.greater(own["count"], 1), pc.equal(own["kind"], "surface"))
    scaled = reference.set_column(3, reference.schema.field("count"), pc.multiply(reference["count"], weight))
    rows = pa.concat_tables(
        [own.append_column("known", known), scaled.append_column("known", pa.repeat(True, len(scaled)))]
    )
    added = rows.group_by(KEY, use_threads=False).aggregate([("count", "sum"), ("known", "any")])
    added = added.filter(added["known_any"]).rename_columns({"count_sum": "count"}).select([*KEY, "count"])
    return added.sort_by([(name, "ascending") for name in KEY]).cast(counts.schema).combine_chunks()
