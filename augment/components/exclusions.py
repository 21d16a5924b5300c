"""What may be true of an image by its captions, so that it is no negative component there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from augment.caption import Caption
from augment.components.vocabulary import Vocabulary
from augment.context import mentions
from augment.contradiction import meaning, same_things
from augment.language import attributes, relations
from augment.language.overlaps import is_person, persons_may_be_same
from augment.language.places import NUMBERS
from augment.scene_graph import SceneGraph
from schemas.components import COMPONENT_EXCLUSIONS

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
        """Index the nouns by what they mean."""
        self._vocabulary = vocabulary
        self._named: dict[str, set[int]] = {}
        self._senses: dict[int, set[int]] = {}
        self._below: dict[int, set[int]] = {}
        self._persons = []
        for number, noun in enumerate(vocabulary.words["noun"]):
            its = meaning(noun)
            for index, keys in ((self._named, its.words), (self._senses, its.synsets), (self._below, its.above)):
                for key in keys:
                    index.setdefault(key, set()).add(number)  # type: ignore[attr-defined]
            if is_person(noun):
                self._persons.append((number, noun))
        self._known: dict[tuple[str, str], Ids] = {}

    def rows(self, captions: Sequence[Caption], graphs: Sequence[SceneGraph]) -> Iterator[Row]:
        """The rows of one image: its nouns, then each of its described, then each of its related objects, by name."""
        image = captions[0].image_id
        said = [mentions(caption) for caption in captions]
        nouns: set[int] = set()
        for noun in frozenset().union(*(its.nouns for its in said)):
            nouns |= self.nouns(noun)
        yield Row(image, "noun", "", sorted(nouns))
        described = {pair for its in said for pair in its.attributes}
        described |= {(WRITTEN[n], noun) for its in said for noun, n in its.quantities if n in WRITTEN}
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
        yield from self._of(image, "attribute", of_attributes, described, attributes.may_be_same)
        yield from self._of(image, "relation", of_relations, related, relations.may_be_same)

    def nouns(self, said: str) -> Ids:
        """The nouns of the vocabulary that clash with one said: `contradiction.clash` for all of them at once."""
        found = self._known.get(("noun", said))
        if found is None:
            its = meaning(said)
            numbers: set[int] = set()
            for word in its.words | its.same | its.implied:
                numbers |= self._named.get(word, set())
            for synset in its.above:
                numbers |= self._senses.get(synset, set())
            for synset in its.synsets:
                numbers |= self._below.get(synset, set())
            numbers.update(number for number, noun in self._persons if persons_may_be_same(noun, said))
            found = self._known["noun", said] = frozenset(numbers)
        return found

    def _of(
        self, image: str, kind: str, of: set[str], said: set[tuple[str, str]], same: Callable[[str, str], bool]
    ) -> Iterator[Row]:
        """A row an object in `of`: what is said of it, of what may be the same, or of something not named ("")."""
        for object in sorted(of):
            numbers: set[int] = set()
            for word, noun in said:
                if not noun or noun == object or same_things(noun, object):
                    numbers |= self._same(kind, word, same)
            yield Row(image, kind, object, sorted(numbers))

    def _same(self, kind: str, said: str, same: Callable[[str, str], bool]) -> Ids:
        """The words of the vocabulary that may be meant by one said."""
        found = self._known.get((kind, said))
        if found is None:
            words, drawn = self._vocabulary.words[kind], self._vocabulary.drawn[kind]
            found = self._known[kind, said] = frozenset(i for i in drawn if same(words[i], said))
        return found
