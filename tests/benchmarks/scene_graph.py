"""Compare scene graphs with FACTUAL: `python -m tests.benchmarks.scene_graph FILE.csv[.gz] [--spacy-model NAME]`.

FACTUAL (Li et al. 2023) has Visual Genome region captions with triples `( subject , relation , object )`, where the
relation `is` marks an attribute, and `( object )` for an object without either. For each caption three sets are
compared: object names, (object, attribute) pairs, (subject, relation, object) triples. F1 is micro-averaged: matches,
predictions and gold tuples are summed over all captions; `all` sums the three kinds; `exact` is the share of captions
where all three sets are equal.

Words are matched by lemma, without synonyms: in gold and predictions, every word of a name or an attribute is replaced
by its WordNet noun base form, every word of a relation by its verb base form, and a numeral word by its digits.

SceneGraphParser (`pip install SceneGraphParser`) is measured too if it is installed, with the same spaCy pipeline.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import pyarrow.parquet as pq

from negcap.augment.caption import Caption
from negcap.augment.data import data_path
from negcap.augment.language.grammar import NUMBERS
from negcap.augment.language.parse import SHIPPED, parse
from negcap.augment.language.wordnet import WordNet
from negcap.augment.scene_graph import scene_graph

KINDS = ("objects", "attributes", "relations")
TRIPLE = re.compile(r"\( (.*?) \)(?= ,|$)")


class Facts(NamedTuple):
    """The lemmatised objects, (object, attribute) and (subject, relation, object) of one caption."""

    objects: frozenset[str]
    attributes: frozenset[tuple[str, str]]
    relations: frozenset[tuple[str, str, str]]


@cache
def lemmas(text: str, pos: str) -> str:
    """The text with every word in its base form for a part of speech ("n" or "v"), numerals as digits."""
    wordnet = WordNet.load()
    words = (str(NUMBERS.get(word, word)) for word in text.lower().split())
    return " ".join(_base(wordnet, word, pos) for word in words)


# Suffix rules of morphy(7WN).
SUFFIXES = {
    "n": "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y".split(),
    "v": "s: ies:y es:e es: ed:e ed: ing:e ing:".split(),
}


@cache
def _irregular() -> dict[tuple[str, str], list[str]]:
    """The lemmas of each irregular form and part of speech."""
    table = pq.read_table(data_path("wordnet.parquet"), columns=["pos", "irregular"])
    forms: dict[tuple[str, str], list[str]] = {}
    for pos, pairs in zip(table["pos"].to_pylist(), table["irregular"].to_pylist(), strict=True):
        for pair in pairs:
            forms.setdefault((pair["form"], pos), []).append(pair["lemma"])
    return forms


def base_form(wordnet: WordNet, word: str, pos: str) -> str | None:
    """The lemma of an inflected word (geese -> goose, riding -> ride), as morphy(7WN); None if WordNet has none.

    An irregular form has priority over a lemma with the same spelling, and among several lemmas by rule the one with
    most tags is chosen.
    """
    for lemma in (*_irregular().get((word, pos), ()), word):
        if wordnet.senses(lemma, pos):
            return lemma
    rules = (rule.split(":") for rule in SUFFIXES[pos])
    lemmas = [word.removesuffix(suffix) + ending for suffix, ending in rules if word.endswith(suffix)]
    known = [lemma for lemma in lemmas if wordnet.senses(lemma, pos)]
    return max(known, key=lambda lemma: sum(wordnet.tag_counts(lemma, pos)), default=None)


def _base(wordnet: WordNet, word: str, pos: str) -> str:
    """The base form; a plural that is also a WordNet lemma ("Windows") is one if its singular is more frequent."""
    if pos == "n" and word.endswith("s") and not word.endswith("ss"):
        singulars = [base_form(wordnet, word + "s", pos), word.removesuffix("s"), word.removesuffix("es")]
        best = max((s for s in singulars if s), key=lambda s: sum(wordnet.tag_counts(s, pos)))
        if sum(wordnet.tag_counts(best, pos)) > sum(wordnet.tag_counts(word, pos)):
            return best
    return base_form(wordnet, word, pos) or word


def facts(objects: Iterable[str], attributes: Iterable[Sequence[str]], relations: Iterable[Sequence[str]]) -> Facts:
    """Lemmatised facts; the objects of attributes and relations are added to `objects`."""
    described = frozenset((lemmas(thing, "n"), lemmas(value, "n")) for thing, value in attributes)
    related = frozenset((lemmas(a, "n"), lemmas(relation, "v"), lemmas(b, "n")) for a, relation, b in relations)
    named = {lemmas(thing, "n") for thing in objects} | {thing for thing, _ in described}
    return Facts(frozenset(named.union(*((a, b) for a, _, b in related))), described, related)


def gold(triples: str) -> Facts:
    """The facts in a cell of FACTUAL's column `scene_graph`."""
    split = [tuple(part.strip() for part in triple.split(" , ")) for triple in TRIPLE.findall(triples)]
    whole = [triple for triple in split if len(triple) == 3]
    return facts(
        [triple[0] for triple in split if len(triple) == 1],
        [(thing, value) for thing, relation, value in whole if relation == "is"],
        [triple for triple in whole if triple[1] != "is"],
    )


def predicted(caption: Caption) -> Facts:
    """The facts of negcap's scene graph."""
    graph = scene_graph(caption)
    names = {thing.token: thing.name for thing in graph.objects}
    return facts(
        names.values(),
        [(names[a.object], a.value) for a in graph.attributes],
        [(names[r.subject], r.name, names[r.object]) for r in graph.relations],
    )


def from_scene_graph_parser(parsed: dict[str, Any]) -> Facts:
    """The facts of a result of SceneGraphParser."""
    things = [entity["lemma_head"] for entity in parsed["entities"]]
    described = [
        (entity["lemma_head"], modifier["lemma_span"])
        for entity in parsed["entities"]
        for modifier in entity["modifiers"]
        if modifier["dep"] != "det"
    ]
    related = [(things[r["subject"]], r["lemma_relation"], things[r["object"]]) for r in parsed["relations"]]
    return facts(things, described, related)


def scores(golds: Sequence[Facts], found: Sequence[Facts]) -> dict[str, float]:
    """F1 of each kind and of all three together, and the share of exact matches (`exact`), all in percent."""
    counts = {kind: [0, 0, 0] for kind in (*KINDS, "all")}
    for right, made in zip(golds, found, strict=True):
        for kind in KINDS:
            a, b = getattr(right, kind), getattr(made, kind)
            for name in (kind, "all"):
                counts[name][0] += len(a & b)
                counts[name][1] += len(a)
                counts[name][2] += len(b)
    result = {kind: 200 * both / max(of_gold + of_ours, 1) for kind, (both, of_gold, of_ours) in counts.items()}
    result["exact"] = 100 * sum(a == b for a, b in zip(golds, found, strict=True)) / max(len(golds), 1)
    return result


def read(path: str) -> tuple[list[str], list[Facts]]:
    """The captions and the gold facts of a FACTUAL file, plain or compressed."""
    with fsspec.open(path, "rt", encoding="utf-8", compression="infer") as lines:
        rows = list(csv.DictReader(lines))
    return [" ".join(row["caption"].split()) for row in rows], [gold(row["scene_graph"]) for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare scene graphs with FACTUAL's; F1 in %.")
    parser.add_argument("path", help="FACTUAL's CSV, plain or compressed")
    parser.add_argument("--spacy-model", help="spaCy pipeline; default: the shipped parser")
    given = parser.parse_args()
    texts, golds = read(given.path)
    rows = {"negcap": scores(golds, [predicted(caption) for caption in parse(texts, given.spacy_model)])}
    if find_spec("sng_parser"):
        import sng_parser

        theirs = sng_parser.Parser("spacy", model=str(given.spacy_model or SHIPPED))
        rows["SceneGraphParser"] = scores(golds, [from_scene_graph_parser(theirs.parse(text)) for text in texts])
    print(f"{len(texts):,} captions of {Path(given.path).name}")
    print(f"{'':<18}" + "".join(f"{kind:>12}" for kind in (*KINDS, "all", "exact")))
    for name, row in rows.items():
        print(f"{name:<18}" + "".join(f"{value:>12.1f}" for value in row.values()))


if __name__ == "__main__":
    main()
