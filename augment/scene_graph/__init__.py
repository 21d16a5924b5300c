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
from .relations import Clauses, relations

__all__ = ["Attribute", "Object", "Relation", "SceneGraph", "scene_graph"]


def scene_graph(caption: Caption, simple: bool = False) -> SceneGraph:
    """The scene graph of a parsed caption.

    "A man in front of a red car wears a hat" -> objects man, car, hat; attributes (car, red); relations (man, in front
    of, car), (man, wear, hat). simple: name objects by the head noun only ("racket" for "tennis racket"), and keep only
    the first attribute of each object.
    """
    nouns = Nouns.read(caption)
    related, states = relations(caption, nouns)
    described = attributes(caption, nouns, states)
    objects = tuple(nouns.objects.values())
    if simple:
        objects = tuple(Object(o.token, o.token, o.name.rpartition(" ")[2]) for o in objects)
        first: dict[int, Attribute] = {}
        for attribute in described:
            first.setdefault(attribute.object, attribute)
        described = tuple(first.values())
    return SceneGraph(objects, described, related)


def attributes(caption: Caption, nouns: Nouns, states: Iterable[tuple[int, int]]) -> tuple[Attribute, ...]:
    """The attributes of a caption's objects, by object, in text order.

    states: (object, token) pairs of verbs that relate their subject to nothing ("a dog **sleeps**") and so are
    attributes.
    """
    described_by: set[tuple[int, int]] = {(object, token) for token, object in nouns.modifiers.items()}
    described_by.update(states)
    tokens = caption.tokens
    lowered = caption.lowered
    clauses = Clauses(caption, nouns)
    silent = nouns.named.union(nouns.covers)
    for token in tokens:
        index = token.index
        if token.dep in ("amod", "nummod") or lowered[index] == "both":
            if (token.head in nouns.objects or token.head in nouns.stands_for) and index not in silent:
                for object in nouns.objects_of(token.head)[:1]:
                    described_by.update((object, word) for word in _coordinated(caption, index))
        elif token.dep == "acomp" and token.pos in ("ADJ", "VERB") or token.dep == "attr" and is_colour(token):
            for object in clauses.subjects(token.head):
                described_by.update((object, word) for word in _coordinated(caption, index))
        elif token.dep == "pobj" and in_colour(caption, token):
            holder = tokens[tokens[token.head].head]
            things = nouns.objects_of(holder.index) if holder.pos != "VERB" else clauses.subjects(holder.index)
            described_by.update((object, index) for object in things[:1])
            described_by.difference_update((object, holder.index) for object in things)
        elif lowered[index] in FORMS and index in nouns.stands_for:
            described_by.update((object, index) for object in nouns.objects_of(index)[:1])
    # Not "several", "one", "full of", which a photo does not show.
    empty = {word for _, word in described_by if lowered[word] in WORDS["quantifiers"]}
    empty |= {word for _, word in described_by if lowered[word] == "full" and caption.word(word + 1) == "of"}
    # Nor what is denied, "the car is not red"; but "not the red car" has a red one.
    before_noun = ("amod", "nummod", "compound", "nmod", "conj")
    empty |= {
        word for _, word in described_by if word in denied_tokens(caption) and tokens[word].dep not in before_noun
    }
    spans = {word: _span(caption, tokens[word]) for _, word in described_by if word not in empty}
    within = {i for word, (start, end) in spans.items() for i in range(start, end) if i != word}
    described = []
    for object, word in sorted(described_by):
        if word in spans and word not in within:
            written = caption.span(*spans[word]).lower()
            described.append(Attribute(object, word, *spans[word], WRITTEN.get(written, written)))
    return tuple(described)


def _coordinated(caption: Caption, index: int) -> list[int]:
    indices = [index]
    for at in indices:
        for token in caption.dependents(at, "conj"):
            if token.index > at and (token.pos not in ("NOUN", "PROPN") or is_colour(token)):
                indices.append(token.index)
    return indices


def _span(caption: Caption, token: Token) -> tuple[int, int]:
    """The token span of an attribute: "light brown", "apple - shaped", "sitting down"."""
    lowered = caption.lowered
    start = token.index
    end = token.index + 1
    if end < len(lowered) and caption.tokens[end].dep == "prt" and caption.tokens[end].head == token.index:
        end += 1
    elif lowered[start] in FORMS and end < len(lowered) and FORMS[lowered[start]]:
        end += 1
    elif is_look(token) or caption.word(start - 1) == "-":
        hyphened = start > 1 and lowered[start - 1] == "-"
        word = start > 0 and caption.tokens[start - 1].pos in ("NOUN", "PROPN", "ADJ", "ADV")
        start -= 2 if hyphened else int(word)
    elif in_colour(caption, token):
        start = token.head
        end = max((t.index for t in caption.dependents(token.index, "conj")), default=token.index) + 1
    elif lowered[start] in COLOURS and start and lowered[start - 1] in WORDS["shades"]:
        start -= 1
    return start, end
