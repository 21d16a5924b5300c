"""Captions on whose parse two models agree: more training trees without annotation.

Only COCO captions (CC BY 4.0). Images whose number ends in 0 are held out for evaluating the parser.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from .tree import Tree

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

SHORTEST, LONGEST = 5, 30
DETERMINER_TAGS = ("DT", "PRP$")


def coco_captions(path: Path, held_out: bool = False) -> list[str]:
    """Return the captions of a COCO annotation file in file order, with normalised white space.

    Parameters
    ----------
    path
        `captions_*.json` or `captions_*.json.gz`.
    held_out
        True for the captions of images whose number ends in 0, False for all others.

    Raises
    ------
    ValueError
        If the file has no `annotations`.
    """
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")
    with opened as stream:
        record = json.load(stream)
    if "annotations" not in record:
        raise ValueError(f"{path}: a COCO caption file must have 'annotations', has: {sorted(record)}")
    return [
        " ".join(annotation["caption"].split())
        for annotation in record["annotations"]
        if (annotation["image_id"] % 10 == 0) == held_out
    ]


def agreed_trees(first: "Language", second: "Language", captions: Iterable[str], count: int, rng: Random) -> list[Tree]:
    """Return up to `count` parses of random captions on which both models agree in every tag, head and label."""
    texts = sorted(set(captions))
    agreed = list(_agreed(first.pipe(texts), second.pipe(texts)))
    return agreed if len(agreed) <= count else rng.sample(agreed, count)


def is_plausible(doc: "Doc") -> bool:
    """Return whether a parse has 5 to 30 words, one root, and no determiner outside a noun chunk."""
    if not SHORTEST <= len(doc) <= LONGEST or sum(token.head.i == token.i for token in doc) != 1:
        return False
    inside = {token.i for chunk in doc.noun_chunks for token in chunk}
    return all(token.i in inside for token in doc if token.tag_ in DETERMINER_TAGS and token.dep_ in ("det", "poss"))


def tree_of(doc: "Doc") -> Tree:
    """Return the predicted parse of a document with one sentence as a tree to train on."""
    return Tree(
        forms=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
        tags=[token.tag_ for token in doc],
        pos=[token.pos_ for token in doc],
        heads=[-1 if token.head.i == token.i else token.head.i for token in doc],
        deps=[token.dep_ for token in doc],
    )


def _agreed(first: Iterable["Doc"], second: Iterable["Doc"]) -> Iterator[Tree]:
    for one, other in zip(first, second, strict=True):
        same = all(
            left.tag == right.tag and left.dep == right.dep and left.head.i == right.head.i
            for left, right in zip(one, other, strict=True)
        )
        if same and is_plausible(one):
            yield tree_of(one)
