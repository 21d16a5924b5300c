"""The verbs and prepositions of a caption that may be replaced, and which verbs are incompatible (data/verbs.toml)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain, product
from typing import NamedTuple

from ..caption import Caption, Token, cached_on_caption
from ..data import data_path, word_lists
from ..language.grammar import ARTICLES, third_person
from ..language.semantic_classes import LIVING, pairs_within_groups, preposition_table, semantic_class
from ..language.wordnet import WordNet
from .nouns import Slot, broader_context, word_after, word_before

CLAUSES = {"ROOT", "acl", "relcl", "advcl", "conj", "ccomp"}  # dependencies of verbs that head a clause
FINITE = {"VBG", "VBZ", "VBP", "VBD"}  # tags of verbs that may be a slot
OBJECT = "object"  # the pattern of verbs with a direct object
# A verb with one of these dependents is not replaced: particles, clauses, a second object, negation.
BLOCKING_DEPS = {"prt", "dative", "xcomp", "ccomp", "acomp", "oprd", "attr", "auxpass", "agent", "neg", "expl"}


class Verbs(NamedTuple):
    """The table of verbs.

    vague: verbs that are never replaced.
    postures: verbs that are only replaced if their subject is alive.
    body: intransitive verbs of the whole body; two of them are incompatible unless in `body_pairs`.
    objects: transitive verbs; two of them are incompatible unless in `object_pairs`.
    """

    vague: frozenset[str]
    postures: frozenset[str]
    body: frozenset[str]
    objects: frozenset[str]
    body_pairs: frozenset[tuple[str, str]]
    object_pairs: frozenset[tuple[str, str]]


@cache
def verb_table() -> Verbs:
    """The shipped table data/verbs.toml, read once per process."""
    table = word_lists(data_path("verbs.toml"))
    holding = table["holding"]
    held = table["held"]
    body = table["body"]
    objects = table["object"]
    return Verbs(
        vague=table["vague"],
        postures=table["postures"],
        body=frozenset(chain.from_iterable(body)),
        objects=frozenset(chain(*objects, holding, held)),
        body_pairs=pairs_within_groups(body, map(str.split, table["together"])),
        # Whoever holds a thing may also carry it, or do any of `held` with it.
        object_pairs=pairs_within_groups(objects, [holding], product(holding, held)),
    )


@cache
def are_incompatible(one: str, other: str, pattern: str) -> bool:
    """Whether two verbs cannot both be true of a subject (and object): sit~stand, throw~eat; not sit~rest.

    Both must be in the table and not listed as compatible, and neither may entail the other (WordNet's troponymy,
    entailment and cause). pattern: of the slot, "object", "prep:on" or "bare" (`Slot.form`).
    """
    table = verb_table()
    wordnet = WordNet.load()
    if one == other or not table.vague.isdisjoint((one, other)):
        return False
    known = table.objects if pattern == OBJECT else table.body
    if one not in known or other not in known:
        return False
    if (one, other) in (table.object_pairs if pattern == OBJECT else table.body_pairs):
        return False
    return not (wordnet.entails(one, other) or wordnet.entails(other, one))


@cache
def verbs_may_both_hold(one: str, other: str) -> bool:
    """Whether `one` may be true where a caption says `other`: the table allows both, or one entails the other."""
    table = verb_table()
    wordnet = WordNet.load()
    is_listed = (one, other) in table.body_pairs or (one, other) in table.object_pairs
    return one == other or is_listed or wordnet.entails(one, other) or wordnet.entails(other, one)


def verb_slots(caption: Caption) -> tuple[Slot, ...]:
    """Verbs with one object, one preposition or neither: "a man **throws** a ball", "a dog **sitting** on a bed"."""
    slots = []
    tokens = caption.tokens
    known = preposition_table().entries
    for token in tokens:
        if token.pos != "VERB" or token.tag not in FINITE or token.dep not in CLAUSES or not token.text.isalpha():
            continue
        arguments = [tokens[child] for child in caption.children[token.index]]
        deps = {argument.dep for argument in arguments}
        if not deps.isdisjoint(BLOCKING_DEPS):
            continue
        # The pattern of the verb: with an object behind it, a preposition right behind it, or neither.
        following = token.index + 1
        objects = [argument for argument in arguments if argument.dep == "dobj" and argument.index > token.index]
        object = objects[0] if objects else None
        prep = next((word for word in arguments if word.dep == "prep" and word.index == following), None)
        if object is not None:
            if object.pos not in ("NOUN", "PROPN"):
                continue
            pattern = OBJECT
            context = f"obj:{object.lemma}"
        elif prep is not None:
            if prep.lower not in known:
                continue
            noun = caption.first_dependent(prep.index, "pobj")
            pattern = f"prep:{prep.lower}"
            context = f"pobj:{noun.lemma if noun else ''}"
        elif following == len(tokens) or tokens[following].pos in ("PUNCT", "CCONJ"):
            pattern = "bare"
            context = "obj:"
        else:
            continue
        # "A bench sits by a lake" or stands there: several postures may be said of a thing that is not alive.
        doer = subject_of(caption, token)
        if doer is None or (token.lemma in verb_table().postures and semantic_class(doer.lemma) not in LIVING):
            continue
        left = f"left:{word_before(caption, token.index)}"
        right = f"right:{word_after(caption, following)}"
        subject_context = f"subj:{doer.lemma}"
        contexts = (subject_context, broader_context(subject_context), context, broader_context(context), left, right)
        slots.append(Slot("verb", token.index, following, token.lemma, token.index, form=pattern, contexts=contexts))
    return tuple(slots)


def subject_of(caption: Caption, verb: Token) -> Token | None:
    """The subject of a verb, also through relative clauses and coordination; None if the parse does not show it."""
    for _ in caption.tokens:  # no more steps than tokens, however the parse may go round in circles
        doer = caption.first_dependent(verb.index, "nsubj", "nsubjpass")
        head = caption.tokens[verb.head]
        if verb.dep in ("acl", "relcl") and (doer is None or doer.tag in ("WDT", "WP")):
            return head  # "a dog running", "a dog that runs"
        if doer is not None:
            return doer
        if verb.dep not in ("conj", "advcl") or head.index == verb.index:
            break
        # "A dog sits and eats": that of the verb that it depends on.
        verb = head
    return None


def inflect_verb(lemma: str, tag: str, surfaces: Mapping[str, str]) -> str | None:
    """A verb in the form of a Penn tag; None if the corpus has no such form.

    surfaces: lemma -> the corpus' form with this tag, used for -ing and -ed forms.
    """
    if tag == "VBZ":
        return third_person(lemma)
    if tag in ("VB", "VBP"):
        return lemma
    return surfaces.get(lemma)


def preposition_units(caption: Caption) -> Iterator[tuple[int, int]]:
    """Token spans of prepositions, those of several words as one: (2, 5) for "a dog in front of a car"."""
    lowered = caption.lowered
    tokens = caption.tokens
    phrases = preposition_table().phrases
    start = 0
    while start < len(tokens):
        candidates = phrases.get(lowered[start], ())
        phrase = next((words for words in candidates if lowered[start : start + len(words)] == words), None)
        end = start + (1 if phrase is None else len(phrase))
        # A phrase of the table is a preposition whatever the parse makes of its words; a single word has to be one.
        if phrase is not None or (tokens[start].dep == "prep" and tokens[start].pos == "ADP"):
            yield start, end
        start = end


@cached_on_caption
def preposition_uses(caption: Caption) -> tuple[Slot, ...]:
    """The prepositions of data/prepositions.toml with a noun object in a caption, also those in set phrases."""
    table = preposition_table()
    lowered = caption.lowered
    uses = []
    for start, end in preposition_units(caption):
        written = " ".join(lowered[start:end])
        entry = table.same.get(written, written)
        object = caption.first_dependent(end - 1, "pobj")
        if entry in table.entries and object is not None and object.pos in ("NOUN", "PROPN") and object.index >= end:
            uses.append(Slot(kind="preposition", start=start, end=end, entry=entry, noun=object.index))
    return tuple(uses)


def governor_of(caption: Caption, use: Slot) -> Token:
    """The word that a preposition, also of several words, belongs to: "sits" of "sits **in front of** a car".

    The words of a preposition may depend on each other: the governor is the head of the outermost one.
    """
    above = caption.tokens[use.start]
    while use.start <= above.index < use.end and above.head != above.index:
        above = caption.tokens[above.head]
    return above


def preposition_slots(caption: Caption) -> tuple[Slot, ...]:
    """The prepositions that may be replaced: no particle, no agent, no part of a set phrase."""
    slots = []
    for use in preposition_uses(caption):
        above = governor_of(caption, use)
        if _is_in_set_phrase(caption, use, above) or _belongs_to_other_words(caption, use):
            continue
        governor = f"{'gov' if above.pos == 'NOUN' else 'verb'}:{above.lemma}"  # such as "verb:sit"
        object = caption.tokens[use.noun].lemma
        of_object = f"obj:{object}"
        left = f"left:{word_before(caption, use.start)}"
        right = f"right:{caption.lowered[use.end]} {object}"
        both = f"{above.lemma}..{object}"  # such as "sit..bench"
        contexts = (governor, broader_context(governor), of_object, broader_context(of_object), left, right, both)
        slots.append(use._replace(contexts=contexts))
    return tuple(slots)


def _is_in_set_phrase(caption: Caption, use: Slot, above: Token) -> bool:
    """Whether a preposition is part of a set phrase, or forms one with its governor `above`."""
    table = preposition_table()
    object = caption.tokens[use.noun]
    is_next = object.index == use.end
    is_one_word = use.end - use.start == 1
    return (
        caption.word(use.start - 1) in (*ARTICLES, "the")  # "an out of focus picture"
        or (object.lemma in table.idioms and (is_next or is_one_word))  # "at night", "in the background"
        or (object.lemma in table.bare_idioms and is_next)  # "on stage"
        or any(token.index == use.end for token in caption.dependents(use.end - 1, "prep"))  # "off | of a wall"
        or above.lemma in table.governors  # "wrapped in paper"
        or use.entry in table.owned.get(above.lemma, ())  # "waits on a man"
        or (use.entry == "by" and above.tag == "VBN")  # an agent: "is held by a man"
    )


def _belongs_to_other_words(caption: Caption, use: Slot) -> bool:
    """Whether a preposition belongs to other words: "a carry-on", "side by side", "in and out", "from end to end"."""
    start = use.start
    end = use.end
    tokens = caption.tokens
    object = tokens[use.noun]
    if caption.lowered[start] in ("from", "to") and end - start == 1:
        beside = {token.lower for token in caption.dependents(tokens[start].head, "prep")}
        if beside >= {"from", "to"}:
            return True  # "from end to end"
    last = tokens[end - 1]
    if caption.text[last.end : last.end + 1] == "-" or caption.lowered[end] in ("and", "or"):
        return True  # "an on-ramp", "in and out"
    behind = object.index + 1
    if caption.word(behind) in ("on", "off") and not caption.has_dependent(behind, "pobj"):
        return True  # "in a shirt with a stripe on"
    if start == 0:
        return False
    if caption.text[tokens[start].start - 1] == "-" or tokens[start - 1].lemma == object.lemma:
        return True  # "a carry-on", "side by side"
    return start > 1 and tokens[start - 1].pos == "CCONJ" and tokens[start - 2].pos in ("ADP", "ADV")  # "in and out"
