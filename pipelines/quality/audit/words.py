"""How often an operator takes words out of captions and puts them in, compared with their counts in the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...engine.tables import has_table, read_table

if TYPE_CHECKING:
    import pyarrow as pa

SWAPPED = " | "
ENTRIES = ("numeral", "attribute", "preposition", "verb", "noun")
Word = tuple[str, str]  # the word and its kind of lexicon entry, "" if unknown


@dataclass
class Words:
    """Counts of the words that one operator exchanges, in the first draw of each caption.

    out, put: how often each word is taken out and put in; exchanges: by (replaced, replacement), "" for nothing; swaps:
    number of exchanges of two words of the same caption, which are not counted in `out` and `put`.
    """

    out: Counter[Word] = field(default_factory=Counter)
    put: Counter[Word] = field(default_factory=Counter)
    exchanges: Counter[tuple[str, str]] = field(default_factory=Counter)
    swaps: int = 0


class Use(NamedTuple):
    """A word, its count in the corpus (None: not in the lexicon), and how often it is taken out and put in."""

    word: str
    corpus: int | None
    out: int
    put: int

    @property
    def lean(self) -> float:
        """put - out, in standard deviations of put + out coin flips."""
        return (self.put - self.out) / max(self.put + self.out, 1) ** 0.5


def add_words(words: Words, first: pa.Table) -> None:
    """Add to `words` the exchanges of some rows of one operator."""
    columns = ["replaced", "replaced_synset", "replacement", "replacement_synset"]
    groups = first.group_by(columns).aggregate([([], "count_all")]).to_pydict()
    for old, old_set, new, new_set, n in zip(*groups.values(), strict=True):
        words.exchanges[old, new] += n
        if sorted(old.split(SWAPPED)) == sorted(new.split(SWAPPED)):
            words.swaps += n
            continue
        for counter, word, synset in ((words.out, old, old_set), (words.put, new, new_set)):
            if word:
                counter[word, _kind(synset)] += n


def _kind(synset: str | None) -> str:
    """The kind of lexicon entry that a synset belongs to, "" if unknown: "noun" for `dog.n.01`."""
    if synset is None:
        return ""
    if synset.startswith("prepositions:"):
        return "preposition"
    return {"n": "noun", "v": "verb"}.get(synset.rpartition(".")[0].rpartition(".")[2], "")


def read_corpus_counts(run: Path) -> dict[Word, int]:
    """The counts of a run's lexicon by (entry, kind), over all contexts; empty if it has no lexicon."""
    import pyarrow.compute as pc

    counts: dict[Word, int] = {}
    if has_table(run, "lexicon"):
        for rows in read_table(run, "lexicon", ["kind", "entry", "place", "count"]):
            plain = rows.filter(pc.equal(rows["place"], "")).to_pydict()
            counts |= zip(zip(plain["entry"], plain["kind"], strict=True), map(round, plain["count"]), strict=True)
    return counts


def uses(words: Words, corpus: Mapping[Word, int]) -> list[Use]:
    """The words of an operator with their corpus counts, the most frequent (taken out or put in) first."""
    by_entry: dict[Word, list[int]] = {}
    for side, counter in enumerate((words.out, words.put)):
        for (word, kind), n in counter.items():
            known = kind or next((other for other in ENTRIES if (word, other) in corpus), "")
            by_entry.setdefault((word, known), [0, 0])[side] += n
    found = [Use(word, corpus.get((word, kind)), *counts) for (word, kind), counts in by_entry.items()]
    return sorted(found, key=lambda use: (-use.out - use.put, use.word, use.corpus or 0))


def exchanges(words: Words, top: int) -> list[tuple[str, str, int, int]]:
    """The `top` most frequent exchanges: (replaced, replacement, count, count of the reverse exchange)."""
    ordered = sorted(words.exchanges.items(), key=lambda item: (-item[1], item[0]))
    return [(old, new, n, words.exchanges[new, old]) for (old, new), n in ordered[:top]]
