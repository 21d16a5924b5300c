"""What may be true of an image by its captions, so that it is no negative component there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from negcap.augment.caption import Caption
from negcap.augment.components import relations
from negcap.augment.components.vocabulary import Vocabulary
from negcap.augment.context import attributes_said, nouns_said, quantities_said
from negcap.augment.language import attributes
from negcap.augment.language.clashes import Clashes, numbers
from negcap.augment.language.prepositions import prepositions
from negcap.augment.scene_graph import SceneGraph
from negcap.augment.slots import verbs
from negcap.augment.slots.nouns import NUMBERS
from negcap.augment.truth.contradiction import same_things
from negcap.schemas.components import COMPONENT_EXCLUSIONS

if TYPE_CHECKING:
    import pyarrow as pa

Ids = frozenset[int]
WRITTEN = {value: word for word, value in NUMBERS.items()}


class Row(NamedTuple):
    """A row of `component_exclusions`."""

    image_id: str
    kind: str
    of: str
    ids: list[int]


def tabulate(rows: Sequence[Row]) -> pa.Table:
    """Rows as a `component_exclusions` table."""
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) or [()] * 4
    arrays = [pa.array(values, field.type) for values, field in zip(columns, COMPONENT_EXCLUSIONS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=COMPONENT_EXCLUSIONS)


class Exclusions:
    """Answers for one vocabulary; the answer for a word said is kept."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Index the nouns by what they mean, the relations by their verbs and prepositions."""
        self._vocabulary = vocabulary
        self._known: dict[tuple[str, str], Ids] = {}
        self._clashes = Clashes(vocabulary.words["noun"])
        self._verbs: dict[str, set[int]] = {}
        self._prepositions: dict[str, set[int]] = {}
        for number in vocabulary.drawn["relation"]:
            verb, preposition = relations.words(vocabulary.words["relation"][number])
            _add(self._verbs, [verb], number)
            _add(self._prepositions, [preposition], number)

    def rows(self, captions: Sequence[Caption], graphs: Sequence[SceneGraph]) -> Iterator[Row]:
        """The rows of one image: its nouns, then each of its described, then each of its related objects, by name."""
        image = captions[0].image_id
        nouns = frozenset[str]().union(*map(nouns_said, captions))
        yield Row(image, "noun", "", numbers(self._clashes.with_any(nouns).all).tolist())
        described = set[tuple[str, str]]().union(*map(attributes_said, captions))
        for noun, count in frozenset().union(*map(quantities_said, captions)):
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

    def attributes(self, said: str) -> Ids:
        """The attributes that may be meant by one said."""
        found = self._known.get(("attribute", said))
        if found is None:
            words, drawn = self._vocabulary.words["attribute"], self._vocabulary.drawn["attribute"]
            found = frozenset(number for number in drawn if attributes.may_be_same(words[number], said))
            self._known["attribute", said] = found
        return found

    def relations(self, said: str) -> Ids:
        """The relations that may be meant by one said: `relations.may_be_same` for all of them at once."""
        found = self._known.get(("relation", said))
        if found is None:
            verb, preposition = relations.words(said)
            found = self._at_preposition(preposition)
            if verb:
                found &= self._with_verb(verb)
            self._known["relation", said] = found
        return found

    def _with_verb(self, said: str) -> Ids:
        found = self._known.get(("verb", said))
        if found is None:
            same = {verb for verb in self._verbs if not verb or verbs.may_be_same(verb, said)}
            found = self._known["verb", said] = frozenset(_union(self._verbs, same))
        return found

    def _at_preposition(self, said: str) -> Ids:
        found = self._known.get(("preposition", said))
        if found is None:
            table = prepositions()
            same = {other for other in self._prepositions if other and said and table.overlap(other, said)} or {said}
            found = self._known["preposition", said] = frozenset(_union(self._prepositions, same))
        return found


def _rows(
    image: str, kind: str, of: set[str], said: set[tuple[str, str]], meant: Callable[[str], Ids]
) -> Iterator[Row]:
    """A row an object in `of`: what is said of it, of what may be the same, or of something not named ("")."""
    ids: dict[str, set[int]] = {}
    for word, noun in said:
        numbers = meant(word)
        if numbers:
            ids.setdefault(noun, set()).update(numbers)
    for object in sorted(of):
        same = [its for noun, its in ids.items() if not noun or noun == object or same_things(noun, object)]
        yield Row(image, kind, object, sorted(frozenset().union(*same)))


def _add(index: dict[Any, set[int]], keys: Iterable[Any], number: int) -> None:
    for key in keys:
        index.setdefault(key, set()).add(number)


def _union(index: Mapping[Any, set[int]], keys: Iterable[Any]) -> set[int]:
    return set().union(*(index.get(key, ()) for key in keys))
