"""The lexicon: which words may replace which, from counts of where the corpus uses them.

`count_captions` counts, `select_entries` keeps the usable entries, and operators query a `Lexicon`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..caption import Caption, cached, read_only
from ..kinds import KINDS
from ..language.coreference import CoreferenceIndex, entry_numbers
from ..language.grammar import plural_of
from ..language.semantic_classes import head_word, is_person, noun_overlap_table
from ..slots.nouns import noun_slots
from ..slots.verbs import verb_slots
from .entries import ENTRY, KEY, Entries, Keys, layout_of, read_entries

if TYPE_CHECKING:
    import pyarrow as pa

    from ..cloze.model import ClozeModel
    from ..language.concreteness import Concreteness


PAPER_RARE = 200  # VSE-C: "more than 200 occurrences"
PAPER_CAPTIONS = 566_435  # COCO train + restval, the corpus of the papers' thresholds
FLOOR = 5  # occurrences that a word needs in a small corpus, too
UNIT = "unit"  # the kind of the units of the cloze model in a table of factors
# Below this share of plurals among the mentions of a noun, raters called 9 of 10 numerals above one odd ("on four
# beaches", "two fields"), above it 27 % of 190.
RARELY_PLURAL = 0.01
EXTRA_PLURALS = 0.5  # added to the plurals counted, so that no noun with at most 50 mentions is below that share
COUNTED = "counted"  # the `place` of a row that counts a noun's mentions with "a", "one" or the like
MISTAGGED = 0.1  # a word tagged as a plural less often than this share of its singular is a mistake of the tagger
NOUNS = 4096  # number of nouns whose results are cached


def default_min_count(captions: int, rare: int = PAPER_RARE) -> int:
    """The least count of a frequent word: more than `rare` times captions / PAPER_CAPTIONS (at most 1), or FLOOR."""
    return max(FLOOR, rare * min(captions, PAPER_CAPTIONS) // PAPER_CAPTIONS + 1)


def observations(caption: Caption) -> Iterator[tuple[str, str, str]]:
    """What a caption adds to the counts of a lexicon: kind, entry and place, such as ("noun", "dog", "left:a").

    An entry is counted once without a place (""), once in its form, and once in each of its contexts. The written forms
    of nouns and verbs are counted as well: ("surface", "dog", "nns:dogs"). See negcap.schemas.captions.
    """
    for kind in KINDS.values():
        for slot in kind.slots(caption):
            yield slot.kind, slot.entry, ""
            for context in (f"form:{slot.form}" if slot.form else "", *slot.contexts):
                if context:
                    yield slot.kind, slot.entry, context
    for noun in noun_slots(caption):
        tag = "nns:" if noun.plural else "nn:"
        root = caption.tokens[noun.noun]
        yield "surface", noun.entry, tag + caption.span(noun.start, noun.end).lower()
        if noun.end - noun.start > 1:  # a compound: its head is counted, too
            yield "surface", root.lemma, tag + root.lower
        if noun.form == "a":  # which only countable nouns have
            yield "surface", root.lemma, COUNTED
    for verb in verb_slots(caption):
        yield "surface", verb.entry, f"{caption.tokens[verb.start].tag.lower()}:{caption.lowered[verb.start]}"


def count_captions(captions: Iterable[Caption]) -> pa.Table:
    """Lexicon counts over `captions`: an unsorted `lexicon` table."""
    from ...schemas.captions import LEXICON
    from ...schemas.fields import table_of

    counter = Counter(chain.from_iterable(map(observations, captions)))
    return table_of(((*key, times) for key, times in counter.items()), LEXICON)


def select_entries(
    counts: pa.Table,
    min_count: int,
    concreteness: Concreteness,
    min_concreteness: float,
    attributes: frozenset[str] | None = None,
) -> pa.Table:
    """Select the counts of the words that may replace others, sorted by kind, word and context (`place`).

    Nouns need at least `min_count` occurrences as the head of a noun phrase and a concreteness of at least
    `min_concreteness`, and must not be vague. Words for persons count as concrete, since photos show persons, whatever
    score the word has. Attributes and verbs need at least `min_count` occurrences, prepositions and numerals 3. Counts
    of 1 in a context are dropped. Written forms (kind "surface") are all kept: they are also those of words that are
    only inflected, and replace no other.

    counts: those of `count_captions`. attributes: lists the attributes, however often they occur; None: they need
    `min_count` occurrences. Raises ValueError if min_count is below 1.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if min_count < 1:
        raise ValueError(f"min_count must be >= 1, was: {min_count}")
    # Conditions on columns, which `filter` evaluates for each row.
    kind_column = pc.field("kind")
    times = pc.field("count")
    is_usable = pc.scalar(False)
    for name, kind in KINDS.items():
        is_often = times >= (min_count if kind.least_count is None else kind.least_count)
        if name == "attribute" and attributes is not None:
            is_often = pc.field("entry").isin(pa.array(attributes, pa.string()))
        is_usable |= (kind_column == name) & is_often
    usable = counts.filter((pc.field("place") == "") & is_usable).select(ENTRY)
    words = zip(usable["kind"].to_pylist(), usable["entry"].to_pylist(), strict=True)
    is_shown = pa.array(
        (name != "noun" or is_concrete(word, concreteness, min_concreteness) for name, word in words), pa.bool_()
    )
    is_kept = (times > 1) | (pc.field("place") == "")  # without a place, a row has the total of its word
    selected = counts.filter(is_kept).join(usable.filter(is_shown), ENTRY, join_type="left semi").cast(counts.schema)
    rows = pa.concat_tables([selected, counts.filter(kind_column == "surface")])
    return rows.sort_by([(name, "ascending") for name in KEY]).combine_chunks()


def is_concrete(noun: str, concreteness: Concreteness, min_concreteness: float) -> bool:
    """Whether a noun names something that a photo shows: it is concrete (score >= min_concreteness) or a person, and
    not vague.
    """
    vague = noun_overlap_table().vague
    score = min_concreteness if is_person(noun) else concreteness.score(noun)
    return noun not in vague and head_word(noun) not in vague and score is not None and score >= min_concreteness


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The entries of a corpus, which may replace one another, their written forms, and the model that draws from them.

    by_kind: the entries of each of the KINDS.
    singular, plural: the most frequent written form of each noun.
    inflected: by Penn tag in lower case, the most frequent written form of each verb.
    countable: the nouns that the corpus has in the plural or with "a".
    singular_only: the nouns that the corpus has often, and in less than RARELY_PLURAL of their mentions in the plural.
    cloze: the model that says which entries are plausible in a caption; None: the shipped one.
    """

    by_kind: Mapping[str, Entries]
    singular: Mapping[str, str]
    plural: Mapping[str, str]
    inflected: Mapping[str, Mapping[str, str]]
    countable: frozenset[str]
    singular_only: frozenset[str]
    cloze: ClozeModel | None = None

    @property
    def nouns(self) -> Entries:
        """The nouns."""
        return self.by_kind["noun"]

    @cached_property
    def coreference(self) -> CoreferenceIndex:
        """An index of which nouns of the lexicon may be true of an image if a noun is mentioned."""
        return _coreference_index(self.nouns.names)

    @cached(NOUNS)
    def may_corefer(self, noun: str) -> np.ndarray:
        """The numbers of the nouns that may name the same thing as `noun`, and so must not replace it; read-only."""
        return read_only(entry_numbers(self.coreference.with_noun(noun).all))

    def forms(self, *, many: bool) -> Mapping[str, str]:
        """The most frequent written form of each noun in the singular, or with `many` in the plural."""
        return self.plural if many else self.singular

    def in_number(self, noun: str, *, many: bool) -> str:
        """The written form of any noun in the singular, or with `many` in the plural: by rule, if none was counted."""
        return (self.plural.get(noun) or plural_of(noun)) if many else self.singular.get(noun, noun)

    def entries(self, kind: str) -> Entries:
        """The entries of one of the KINDS."""
        return self.by_kind[kind]

    @classmethod
    def from_table(cls, table: pa.Table, cloze: ClozeModel | None = None) -> Lexicon:
        """Build a lexicon from a `lexicon` table (see negcap.schemas.captions), with a cloze model."""
        keys = Keys(table)
        counts = table["count"].to_numpy()
        by_kind = {name: read_entries(layout_of(keys, name), counts) for name in KINDS}
        written = _written_forms(_surface_layout(keys), counts)
        return cls(
            by_kind=by_kind,
            singular=written.by_tag["nn"],
            plural=written.by_tag["nns"],
            inflected={tag: forms for tag, forms in written.by_tag.items() if tag not in ("nn", "nns")},
            countable=written.countable,
            singular_only=written.singular_only,
            cloze=cloze,
        )

    def balanced(self, balance: pa.Table) -> Lexicon:
        """A copy of this lexicon using the factors in `balance`, which were fitted to it (negcap.schemas.captions)."""
        from ..cloze.adaptation import adapted
        from ..cloze.model import cloze_model

        factors: dict[str, dict[tuple[str, bool], float]] = {name: {} for name in KINDS}
        factors_of_units: dict[str, float] = {}  # of the cloze model
        for kind, entry, is_plural, factor in zip(*balance.to_pydict().values(), strict=True):
            if kind == UNIT:
                factors_of_units[entry] = factor
            else:
                factors[kind][entry, is_plural] = factor
        balanced = {name: entries.rebalanced(factors[name]) for name, entries in self.by_kind.items()}
        cloze = adapted(self.cloze or cloze_model(), factors_of_units) if factors_of_units else self.cloze
        return replace(self, by_kind=balanced, cloze=cloze)


@dataclass(frozen=True, eq=False)
class SurfaceLayout:
    """The written forms in a `lexicon` table, by entry and tag; it does not depend on the counts.

    rows: the numbers of the rows of the table, grouped by tag and entry, in each group as in the table.
    starts: where each group starts in `rows`, and the last one ends, (groups + 1,).
    surfaces: the written form of each of `rows`.
    groups: (tag, entry) of each group.
    row_of: the row of each (entry, place).
    countable: the nouns that the corpus has with "a".
    """

    rows: np.ndarray
    starts: np.ndarray
    surfaces: list[str]
    groups: list[tuple[str, str]]
    row_of: Mapping[tuple[str, str], int]
    countable: frozenset[str]

    @cached_property
    def group_of_row(self) -> np.ndarray:
        """The number of the group of each of `rows`: (rows,)."""
        return np.repeat(np.arange(len(self.groups)), np.diff(self.starts))


@lru_cache(maxsize=2)
def _surface_layout(keys: Keys) -> SurfaceLayout:
    """Find which rows of a `lexicon` table count which written form.

    Their place is a tag and the form, such as "nns:dogs" for the entry "dog".
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = np.flatnonzero(pc.equal(keys.table["kind"], "surface").to_numpy())
    entries, places = (keys.table[name].take(pa.array(rows)).to_pylist() for name in ("entry", "place"))
    groups: dict[tuple[str, str], list[int]] = {}
    surfaces = []
    for i, (entry, place) in enumerate(zip(entries, places, strict=True)):
        tag, _, surface = place.partition(":")
        surfaces.append(surface)
        if surface:
            groups.setdefault((tag, entry), []).append(i)
    order = np.array(list(chain.from_iterable(groups.values())), int)
    starts = np.cumsum([0, *map(len, groups.values())])
    row_of = dict(zip(zip(entries, places, strict=True), rows.tolist(), strict=True))
    countable = frozenset(entry for entry, place in row_of if place == COUNTED)
    return SurfaceLayout(
        rows=rows[order],
        starts=starts,
        surfaces=[surfaces[i] for i in order.tolist()],
        groups=list(groups),
        row_of=row_of,
        countable=countable,
    )


@lru_cache(maxsize=1)
def _coreference_index(names: tuple[str, ...]) -> CoreferenceIndex:
    """The index of some nouns: lexicons that differ only in their counts share it."""
    return CoreferenceIndex(names)


class WrittenForms(NamedTuple):
    """The most frequent written forms, by tag (Penn's, in lower case) and entry; and sets of nouns as in `Lexicon`."""

    by_tag: dict[str, dict[str, str]]
    countable: frozenset[str]
    singular_only: frozenset[str]


def _written_forms(layout: SurfaceLayout, counts: np.ndarray) -> WrittenForms:
    """The most frequent written form of each noun and verb, by some counts, and what nouns are countable.

    counts: of all rows of the `lexicon` table.
    """
    forms = _most_frequent_forms(layout, counts)
    _correct_singulars_as_plurals(forms["nns"], layout, counts)
    # The parser takes "people" for a lemma of its own; here "person" and "people" are forms of one noun.
    forms["nn"]["people"] = "person"
    forms["nns"]["person"] = "people"
    countable = layout.countable | set(forms["nns"])
    return WrittenForms(forms, frozenset(countable), _nouns_without_plural(layout, counts))


def _most_frequent_forms(layout: SurfaceLayout, counts: np.ndarray) -> dict[str, dict[str, str]]:
    """By tag and entry, the form that was counted most often; of equally frequent ones the first of the table."""
    forms: dict[str, dict[str, str]] = {"nn": {}, "nns": {}}
    if not layout.groups:
        return forms
    # As arrays, since a loop over the tens of thousands of groups is slow; `times` and `group_of_row` are (rows,).
    times = counts[layout.rows]
    group_of_row = layout.group_of_row
    most = np.maximum.reduceat(times, layout.starts[:-1])  # (groups,)
    best = np.flatnonzero(times == most[group_of_row])
    is_first_of_group = np.diff(group_of_row[best], prepend=-1) > 0
    for (tag, entry), row in zip(layout.groups, best[is_first_of_group].tolist(), strict=True):
        forms.setdefault(tag, {})[entry] = layout.surfaces[row]
    return forms


def _correct_singulars_as_plurals(plurals: dict[str, str], layout: SurfaceLayout, counts: np.ndarray) -> None:
    """Give countable nouns a plural by rule if theirs is a mistake of the tagger, in place: "beach" -> "beaches".

    It is such a mistake if the plural is written as the singular, and is much rarer (MISTAGGED) than the singular and
    than the noun with "a", "one" or the like.

    plurals: the most frequent plural of each noun.
    """

    def times_of(entry: str, place: str) -> float:
        """How often the corpus has an entry in a place, such as "nns:dogs"."""
        row = layout.row_of.get((entry, place))
        return 0.0 if row is None else float(counts[row])

    for noun in layout.countable:
        if plurals.get(noun) == noun:
            most_mistakes = MISTAGGED * times_of(noun, f"nn:{noun}")
            if times_of(noun, f"nns:{noun}") < most_mistakes < times_of(noun, COUNTED):
                plurals[noun] = plural_of(noun)


def _nouns_without_plural(layout: SurfaceLayout, counts: np.ndarray) -> frozenset[str]:
    """The nouns that the corpus has often, and (nearly) never in the plural, see RARELY_PLURAL."""
    # Added up in the order of the rows, so that the sums are the same on every processor.
    times = np.bincount(layout.group_of_row, counts[layout.rows])  # (groups,)
    mentions = dict(zip(layout.groups, times.tolist(), strict=True))
    nouns = set[str]()
    for (tag, noun), singulars in mentions.items():
        plurals = mentions.get(("nns", noun), 0.0)
        if tag == "nn" and noun != "person" and plurals + EXTRA_PLURALS < RARELY_PLURAL * (plurals + singulars):
            nouns.add(noun)
    return frozenset(nouns)
