"""Find the components that may be true of an image according to its captions: they must not be sampled as negatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...schemas.components import COMPONENT_EXCLUSIONS
from ..cache import cached
from ..caption import Caption
from ..language import attributes
from ..language.coreference import CoreferenceIndex, entry_numbers, may_corefer
from ..language.determiners import NUMBERS
from ..language.prepositions import prepositions
from ..mentions import mentioned_attributes, mentioned_nouns, mentioned_quantities
from ..scene_graph import SceneGraph
from ..slots import verbs
from . import relations
from .vocabulary import ComponentVocabulary

if TYPE_CHECKING:
    import pyarrow as pa

Ids = frozenset[int]
WORDS = 1 << 13  # number of mentioned words whose results are cached
WRITTEN = {value: word for word, value in NUMBERS.items()}


class Exclusion(NamedTuple):
    """The components that may be true of an image, one row of the table `component_exclusions`.

    kind: noun, attribute or relation. of: the object that the attributes describe or that is the object of the
    relations; "" for nouns. ids: of the vocabulary, ascending.
    """

    image_id: str
    kind: str
    of: str
    ids: list[int]


def tabulate(rows: Sequence[Exclusion]) -> pa.Table:
    """Rows of `Exclusions.rows` as a table `component_exclusions` (negcap.schemas.components)."""
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) or [()] * 4
    arrays = [pa.array(values, field.type) for values, field in zip(columns, COMPONENT_EXCLUSIONS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=COMPONENT_EXCLUSIONS)


class Exclusions:
    """Finds which components of a vocabulary may be true of an image."""

    def __init__(self, vocabulary: ComponentVocabulary) -> None:
        """Index the nouns by meaning, and the relations by their verbs and prepositions."""
        self._vocabulary = vocabulary
        self._nouns = CoreferenceIndex(vocabulary.words["noun"])
        self._verbs: dict[str, set[int]] = {}
        self._prepositions: dict[str, set[int]] = {}
        for number in vocabulary.negatives["relation"]:
            verb, preposition = relations.words(vocabulary.words["relation"][number])
            self._verbs.setdefault(verb, set()).add(number)
            self._prepositions.setdefault(preposition, set()).add(number)

    def rows(self, captions: Sequence[Caption], graphs: Sequence[SceneGraph]) -> Iterator[Exclusion]:
        """The components that may be true of one image, as rows of the table `component_exclusions`.

        First its nouns, then one row per object with attributes, then one per pair of related objects, by name.
        captions: all captions of the image; graphs: their scene graphs, in the same order.
        """
        image = captions[0].image_id
        nouns = frozenset[str]().union(*map(mentioned_nouns, captions))
        yield Exclusion(image, "noun", "", entry_numbers(self._nouns.with_any(nouns).all).tolist())
        described = set[tuple[str, str]]().union(*map(mentioned_attributes, captions))
        for noun, count in frozenset().union(*map(mentioned_quantities, captions)):
            if count in WRITTEN:
                described.add((WRITTEN[count], noun))
        related: set[tuple[str, str]] = set()
        of_attributes, of_relations = set(), set()
        for graph in graphs:
            names = {thing.token: thing.name for thing in graph.objects}
            for object, _, _, _, value in graph.attributes:
                of_attributes.add(names[object])
                described.add((value, names[object]))
            for subject, object, _, name in graph.relations:
                of_relations.add(names[object])
                related.add((name, names[object]))
                related.update((inverse, names[subject]) for inverse in relations.inverses(name))
        yield from _rows(image, "attribute", of_attributes, described, self.attributes)
        yield from _rows(image, "relation", of_relations, related, self.relations)

    @cached(WORDS)
    def attributes(self, mentioned: str) -> Ids:
        """The ids of the attributes that may be true if `mentioned` is."""
        words, negatives = self._vocabulary.words["attribute"], self._vocabulary.negatives["attribute"]
        return frozenset(number for number in negatives if attributes.may_be_same(words[number], mentioned))

    @cached(WORDS)
    def relations(self, mentioned: str) -> Ids:
        """The ids of the relations that may be true if `mentioned` is: `relations.may_be_same` for all at once."""
        verb, preposition = relations.words(mentioned)
        found = self._with_preposition(preposition)
        return found & self._with_verb(verb) if verb else found

    @cached(WORDS)
    def _with_verb(self, mentioned: str) -> Ids:
        same = [verb for verb in self._verbs if not verb or verbs.may_be_same(verb, mentioned)]
        return frozenset().union(*(self._verbs[verb] for verb in same))

    @cached(WORDS)
    def _with_preposition(self, mentioned: str) -> Ids:
        table = prepositions()
        same = {other for other in self._prepositions if other and mentioned and table.overlap(other, mentioned)}
        return frozenset().union(*(self._prepositions.get(other, ()) for other in same or {mentioned}))


def _rows(
    image: str, kind: str, of: set[str], mentioned: set[tuple[str, str]], meant: Callable[[str], Ids]
) -> Iterator[Exclusion]:
    """One row per object in `of`, with the ids that may be true of it.

    `mentioned` holds (attribute or relation, noun) pairs, the noun "" if the parse gives none; a pair counts for an
    object if its noun may be the same thing. `meant` maps an attribute or relation to ids.
    """
    ids: dict[str, set[int]] = {}
    for word, noun in mentioned:
        numbers = meant(word)
        if numbers:
            ids.setdefault(noun, set()).update(numbers)
    for object in sorted(of):
        same = [its for noun, its in ids.items() if not noun or noun == object or may_corefer(noun, object)]
        yield Exclusion(image, kind, object, sorted(frozenset().union(*same)))
