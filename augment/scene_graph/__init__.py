"""Caption -> scene graph: objects, their attributes, and the relations between them.

The graph is read from the stored parse by rules, one per construction; no parser runs here. `simple` makes the two
simplifications of UniVSE's training (Wu et al. 2019, supplementary A.1).
"""

from __future__ import annotations

from ..caption import Caption
from .attributes import attributes
from .nouns import Attribute, Nouns, Object, Relation, SceneGraph
from .relations import relations

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
