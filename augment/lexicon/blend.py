"""Blend the counts of a corpus with those of a reference lexicon, so that a small corpus has words and contexts enough.

    n(w, f) = n_own(w, f) + weight * n_reference(w, f)

for entry w and context f, and likewise for total counts and written forms. A corpus of a few captions then has the
probabilities of the reference, and a large one its own.
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
    """The counts of the usable entries of a corpus and of all entries of a reference, added up.

    counts: all counts of the corpus; usable: those that negcap.augment.lexicon.lexicon.select keeps of them; reference:
    the table of another lexicon, whose counts are multiplied by `weight`. All are `lexicon` tables (see
    negcap.schemas.lexicon), and so is the result, sorted as by `select`. A count of 1 in a context is dropped unless
    the reference has the entry in that context, too.
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
