"""Scene graphs of sentences."""

from __future__ import annotations

from typing import NamedTuple


class Graph(NamedTuple):
    """A scene graph in words. Objects with the same name are numbered: `man`, `man (2)`.

    objects: names in text order. attributes: (attribute, object) pairs. relations: (subject, relation, object) triples.
    """

    objects: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    relations: tuple[tuple[str, str, str], ...]


def graph(sentence: str, *, simple: bool = False, spacy_model: str | None = None) -> Graph:
    """The scene graph of a sentence: objects, (attribute, object) pairs, (subject, relation, object) triples.

    Args:
        sentence: one English sentence.
        simple: whether to simplify as UniVSE does in training: one-word names, only the first attribute of an object.
        spacy_model: an installed spaCy pipeline or its folder; None: the shipped parser.

    Raises:
        TypeError: the sentence is no str.

    Examples:
        >>> graph("A man in front of a red car wears a hat").relations
        (('man', 'in front of', 'car'), ('man', 'wear', 'hat'))
    """
    from ...augment.language.parse import parse
    from ...augment.scene_graph import scene_graph
    from ..report.graph import named

    if not isinstance(sentence, str):
        raise TypeError(f"sentence must be a str, was: {type(sentence).__name__}")
    found = scene_graph(parse([" ".join(sentence.split())], spacy_model)[0], simple)
    names = named(found)
    return Graph(
        tuple(names.values()),
        tuple((a.value, names[a.object]) for a in found.attributes),
        tuple((names[r.subject], r.name, names[r.object]) for r in found.relations),
    )
