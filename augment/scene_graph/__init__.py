"""Caption -> scene graph: objects, their attributes, and the relations between them, without what is denied.

The graph is read from the stored parse by rules, one per construction; no parser runs here. `simple` makes the two
simplifications of UniVSE's training (Wu et al. 2019, supplementary A.1).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..caption import Caption, Token
from ..language.negation import denied_tokens
from .nouns import (
    COLOURS,
    FORMS,
    WORDS,
    WRITTEN,
    Attribute,
    Nouns,
    Object,
    Relation,
    SceneGraph,
    in_colour,
    is_colour,
    is_look,
)
from .relations import Clauses, Described, read_relations

__all__ = ["Attribute", "Object", "Relation", "SceneGraph", "scene_graph"]


def scene_graph(caption: Caption, simple: bool = False) -> SceneGraph:
    """The scene graph of a parsed caption.

    "A man in front of a red car wears a hat" -> objects man, car, hat; attributes (car, red); relations (man, in front
    of, car), (man, wear, hat). simple: name objects by the head noun only ("racket" for "tennis racket"), and keep only
    the first attribute of each object.
    """
    nouns = Nouns.read(caption)
    clauses = read_relations(caption, nouns)
    described = read_attributes(caption, nouns, clauses.states)
    objects = tuple(nouns.objects.values())
    if simple:
        objects = tuple(
            Object(token=thing.token, start=thing.token, name=thing.name.rpartition(" ")[2]) for thing in objects
        )
        first_of_object: dict[int, Attribute] = {}
        for attribute in described:
            first_of_object.setdefault(attribute.object, attribute)
        described = tuple(first_of_object.values())
    return SceneGraph(objects=objects, attributes=described, relations=clauses.relations)


def read_attributes(caption: Caption, nouns: Nouns, states: Iterable[Described]) -> tuple[Attribute, ...]:
    """The attributes of a caption's objects, by object, in text order.

    nouns: which objects the nouns name. states: verbs that say something of an object alone, see `ClauseRelations`.
    """
    # First collect all pairs of an object and a word that may say something of it; below, words become attributes.
    described = {Described(object, token) for token, object in nouns.modifiers.items()}
    described.update(states)
    clauses = Clauses(caption, nouns)
    part_of_name = nouns.named.union(nouns.covers)
    for token in caption.tokens:
        index = token.index
        # "a red car", "both dogs".
        if token.dep in ("amod", "nummod") or caption.lowered[index] == "both":
            if (token.head in nouns.objects or token.head in nouns.stands_for) and index not in part_of_name:
                for object in nouns.objects_of(token.head)[:1]:
                    described.update(Described(object, word) for word in _coordinated(caption, index))
        elif _is_predicate(token):  # "the car is red"
            for object in clauses.subjects(token.head):
                described.update(Described(object, word) for word in _coordinated(caption, index))
        elif token.dep == "pobj" and in_colour(caption, token):  # "a man in black", "a man dressed in black"
            holder = caption.tokens[caption.tokens[token.head].head]
            things = nouns.objects_of(holder.index) if holder.pos != "VERB" else clauses.subjects(holder.index)
            described.update(Described(object, index) for object in things[:1])
            # "Dressed" alone says nothing of the man.
            described.difference_update(Described(object, holder.index) for object in things)
        elif caption.lowered[index] in FORMS and index in nouns.stands_for:  # "a group of dogs"
            described.update(Described(object, index) for object in nouns.objects_of(index)[:1])

    spans = {
        word: _attribute_span(caption, caption.tokens[word]) for _, word in described if _says_something(caption, word)
    }
    # A word inside the span of another attribute is a part of that: "light" in "light brown".
    within = {position for word, span in spans.items() for position in span if position != word}
    attributes = []
    for object, word in sorted(described):
        if word in spans and word not in within:
            span = spans[word]
            written = caption.span(span.start, span.stop).lower()
            attributes.append(
                Attribute(
                    object=object, token=word, start=span.start, end=span.stop, value=WRITTEN.get(written, written)
                )
            )
    return tuple(attributes)


def _is_predicate(token: Token) -> bool:
    """Whether a word is what a clause says of its subject: "the car is **red**"."""
    return (token.dep == "acomp" and token.pos in ("ADJ", "VERB")) or (token.dep == "attr" and is_colour(token))


def _says_something(caption: Caption, word: int) -> bool:
    """Whether a photo shows what an attribute's word says, and the caption does not deny it."""
    if caption.lowered[word] in WORDS["quantifiers"]:  # "several", "one"
        return False
    if caption.lowered[word] == "full" and caption.word(word + 1) == "of":
        return False
    # "The car is not red" denies it; but "not the red car" has a red one.
    is_before_noun = caption.tokens[word].dep in ("amod", "nummod", "compound", "nmod", "conj")
    return is_before_noun or word not in denied_tokens(caption)


def _coordinated(caption: Caption, index: int) -> list[int]:
    """A word and the adjectives and colours that are coordinated with it: "red, white and blue"."""
    indices = [index]
    for position in indices:  # which grows
        for token in caption.dependents(position, "conj"):
            if token.index > position and (token.pos not in ("NOUN", "PROPN") or is_colour(token)):
                indices.append(token.index)
    return indices


def _attribute_span(caption: Caption, token: Token) -> range:
    """The token span of an attribute: "light brown", "apple - shaped", "sitting down"."""
    lowered = caption.lowered
    start = token.index
    end = token.index + 1
    following = caption.tokens[end] if end < len(lowered) else None
    if following is not None and following.dep == "prt" and following.head == token.index:  # "sitting down"
        end += 1
    elif following is not None and FORMS.get(lowered[start]):  # "group of"
        end += 1
    elif is_look(token) or caption.word(start - 1) == "-":  # "apple - shaped", "apple shaped"
        has_hyphen = start > 1 and lowered[start - 1] == "-"
        if has_hyphen:
            start -= 2
        elif start > 0 and caption.tokens[start - 1].pos in ("NOUN", "PROPN", "ADJ", "ADV"):
            start -= 1
    elif in_colour(caption, token):  # "in black and white"
        start = token.head
        end = max((word.index for word in caption.dependents(token.index, "conj")), default=token.index) + 1
    elif lowered[start] in COLOURS and start and lowered[start - 1] in WORDS["shades"]:  # "light brown"
        start -= 1
    return range(start, end)
