"""Verb slots: the verbs of a caption that may be replaced, and which verbs are incompatible (data/verbs.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import NamedTuple

from ..caption import Caption, Token
from ..data import data_path
from ..language.grammar import third_person
from ..language.prepositions import prepositions
from ..language.semantic_classes import LIVING, semantic_class
from ..language.wordnet import WordNet
from .contexts import after, before, broader

CLAUSES = {"ROOT", "acl", "relcl", "advcl", "conj", "ccomp"}
FINITE = {"VBG", "VBZ", "VBP", "VBD"}
OBJECT = "object"
# A verb with one of these dependents is not replaced: particles, clauses, a second object, negation.
ARGUMENTS = {"prt", "dative", "xcomp", "ccomp", "acomp", "oprd", "attr", "auxpass", "agent", "neg", "expl"}


class VerbSlot(NamedTuple):
    """The verb at token index `index`, its lemma `entry`, Penn tag, and pattern: "object", "prep:on" or "bare".

    contexts (see negcap.augment.slots.contexts): its subject and what that backs off to, its object or the
    preposition's and what that backs off to, the words before, the word after.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    entry: str
    tag: str
    pattern: str
    contexts: tuple[str, ...]


@dataclass(frozen=True)
class Verbs:
    """The table of verbs.

    vague: verbs that are never replaced. body: intransitive verbs of the whole body; two of them are incompatible
    unless in `body_pairs`. objects: transitive verbs; two of them are incompatible unless in `object_pairs`. postures:
    verbs that are only replaced if their subject is alive.
    """

    vague: frozenset[str]
    body: frozenset[str]
    postures: frozenset[str]
    objects: frozenset[str]
    body_pairs: frozenset[tuple[str, str]]
    object_pairs: frozenset[tuple[str, str]]


@cache
def verbs() -> Verbs:
    """The shipped table data/verbs.toml, read once per process."""
    table = tomllib.loads(data_path("verbs.toml").read_text("utf-8"))
    body, object = (_pairs(table[name]) for name in ("body", "object"))
    holding, held = table["holding"], table["held"]
    object |= _pairs([holding, *([one, other] for one in holding for other in held)])
    return Verbs(
        frozenset(table["vague"]),
        frozenset(verb for group in table["body"] for verb in group),
        frozenset(table["postures"]),
        frozenset(verb for group in (*table["object"], holding, held) for verb in group),
        body | _pairs([pair.split() for pair in table["together"]]),
        object,
    )


def _pairs(groups: list[list[str]]) -> frozenset[tuple[str, str]]:
    pairs: set[tuple[str, str]] = set()
    for group in groups:
        for one, other in combinations(group, 2):
            pairs.update([(one, other), (other, one)])
    return frozenset(pairs)


@cache
def are_incompatible(one: str, other: str, pattern: str) -> bool:
    """Whether two verbs cannot both be true of a subject (and object): sit~stand, throw~eat; not sit~rest.

    pattern: as in VerbSlot. Both must be in the table and not listed as compatible, and neither may entail the other
    (WordNet's troponymy, entailment and cause).
    """
    table, wordnet = verbs(), WordNet.load()
    if one == other or not table.vague.isdisjoint((one, other)):
        return False
    known = table.objects if pattern == OBJECT else table.body
    if one not in known or other not in known:
        return False
    if (one, other) in (table.object_pairs if pattern == OBJECT else table.body_pairs):
        return False
    return not (wordnet.entails(one, other) or wordnet.entails(other, one))


@cache
def may_be_same(one: str, other: str) -> bool:
    """Whether `one` may be true where a caption says `other`: compatible by the table, or one entails the other."""
    table, wordnet = verbs(), WordNet.load()
    return (
        one == other
        or (one, other) in table.body_pairs
        or (one, other) in table.object_pairs
        or wordnet.entails(one, other)
        or wordnet.entails(other, one)
    )


def verb_slots(caption: Caption) -> tuple[VerbSlot, ...]:
    """Verbs with one object, one preposition or neither: "a man **throws** a ball", "a dog **sitting** on a bed"."""
    slots = []
    tokens, known = caption.tokens, prepositions().entries
    for token in tokens:
        if token.pos != "VERB" or token.tag not in FINITE or token.dep not in CLAUSES or not token.text.isalpha():
            continue
        arguments = [tokens[child] for child in caption.children[token.index]]
        deps = {argument.dep for argument in arguments}
        if not deps.isdisjoint(ARGUMENTS):
            continue
        following = token.index + 1
        noun: Token | None
        object = next((a for a in arguments if a.dep == "dobj" and a.index > token.index), None)
        if object is not None and object.pos not in ("NOUN", "PROPN"):
            continue
        prep = next((a for a in arguments if a.dep == "prep" and a.index == following), None)
        if object is not None:
            pattern, context, noun = OBJECT, f"obj:{object.lemma}", object
        elif prep is not None:
            if prep.lower not in known:
                continue
            noun = next(caption.dependents(prep.index, "pobj"), None)
            pattern, context = f"prep:{prep.lower}", f"pobj:{noun.lemma if noun else ''}"
        elif following == len(tokens) or tokens[following].pos in ("PUNCT", "CCONJ"):
            pattern, context, noun = "bare", "obj:", None
        else:
            continue
        doer = subject(caption, token)
        if doer is None or (token.lemma in verbs().postures and semantic_class(doer.lemma) not in LIVING):
            continue
        subject_context = f"subj:{doer.lemma}"
        contexts = (
            subject_context,
            broader(subject_context),
            context,
            broader(context),
            f"left:{before(caption, token.index)}",
            f"right:{after(caption, following)}",
        )
        slots.append(VerbSlot(token.index, token.lemma, token.tag, pattern, contexts))
    return tuple(slots)


def subject(caption: Caption, verb: Token) -> Token | None:
    """The subject of a verb, also through relative clauses and coordination; None if the parse does not show it."""
    for _ in caption.tokens:
        own = next(caption.dependents(verb.index, "nsubj", "nsubjpass"), None)
        head = caption.tokens[verb.head]
        if verb.dep in ("acl", "relcl") and (own is None or own.tag in ("WDT", "WP")):
            own = head
        if own is not None:
            return own
        if verb.dep not in ("conj", "advcl") or head.index == verb.index:
            break
        verb = head
    return None


def inflected(lemma: str, tag: str, surfaces: Mapping[str, str]) -> str | None:
    """A verb in the form of a Penn tag; None if the corpus has no such form.

    surfaces: lemma -> the corpus' form with this tag, used for -ing and -ed forms.
    """
    if tag == "VBZ":
        return third_person(lemma)
    if tag in ("VB", "VBP"):
        return lemma
    return surfaces.get(lemma)
