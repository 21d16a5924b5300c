"""Which nouns of a caption are things, and which thing a noun stands for."""

from __future__ import annotations

from dataclasses import dataclass

from augment.caption import Caption, Token
from augment.scene_graph.graph import Object
from augment.scene_graph.words import AGES, COLOURS, MATERIALS, PLACES, PORTIONS

_NAMED = ("compound", "nmod")


@dataclass(frozen=True)
class Nouns:
    """The things of a caption: `objects` by head token; `stands_for`: a portion's token -> what it is a portion of.

    `modifiers`: noun modifiers that are attributes, not part of a name ("**brick** wall"), with their object's head.
    `places`: nouns that only say where ("the **side** of the road"). `portions`: portion token -> object.
    """

    caption: Caption
    objects: dict[int, Object]
    stands_for: dict[int, int]
    modifiers: dict[int, int]

    @classmethod
    def read(cls, caption: Caption) -> Nouns:
        """Find the things of a caption."""
        objects: dict[int, Object] = {}
        stands_for: dict[int, int] = {}
        modifiers: dict[int, int] = {}
        tokens, lowered = caption.tokens, caption.lowered
        for token in tokens:
            if (
                token.pos not in ("NOUN", "PROPN")
                or token.dep in _NAMED
                and tokens[token.head].pos in ("NOUN", "PROPN")
            ):
                continue
            index = token.index
            behind = _behind_of(caption, token)
            if behind is not None:
                if lowered[index] in PORTIONS:
                    stands_for[index] = behind
                    continue
                if lowered[index] in PLACES and token.dep == "pobj":
                    continue
            if lowered[index] == "front" and token.dep == "pobj":
                continue
            start = index
            while start > 0 and tokens[start - 1].dep in _NAMED and tokens[start - 1].head in range(start, index + 1):
                start -= 1
            while start < index and _is_attribute(tokens[start], caption):
                modifiers[start] = index
                start += 1
            name = " ".join([*lowered[start:index], token.lemma])
            objects[index] = Object(index, start, name)
        return cls(caption, objects, stands_for, modifiers)

    def things(self, index: int) -> list[int]:
        """The objects that a noun stands for, with those coordinated with it."""
        found = []
        seen = 0
        pending = [index]
        while pending and seen < 20:
            seen += 1
            at = pending.pop(0)
            thing = self.stands_for.get(at, at)
            if thing != at:
                pending.append(thing)
            elif thing in self.objects:
                found.append(thing)
            for child in self.caption.children[at]:
                if self.caption.tokens[child].dep == "conj":
                    pending.append(child)
        return found

    def doers(self, index: int) -> list[int]:
        """The objects that a clause behind noun `index` is said of: those of its kind before it, too."""
        return self.things(index)[:1]


def _behind_of(caption: Caption, token: Token) -> int | None:
    """The noun behind "of", if `token` has one."""
    for child in caption.children[token.index]:
        if caption.lowered[child] == "of" and caption.tokens[child].dep == "prep":
            for noun in caption.dependents(child, "pobj"):
                return noun.index
    return None


def _is_attribute(token: Token, caption: Caption) -> bool:
    word = caption.lowered[token.index]
    return word in MATERIALS or word in COLOURS or word in AGES
