"""Is a negative really false of the image? These functions find the word of a caption by which it may be true.

Each operator has a check of its own (`Operator.violation`), made of these functions. It refuses the negatives that
captions or WordNet make true. For the others, `estimates` gives the probability that another caption of the image would
make them true, estimated from the captions of the corpus, and calibrated by `fit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..caption import Caption, Token, cached_on_caption, cached_on_context, read_only
from ..evidence import Evidence, Mention
from ..kinds import KINDS
from ..language.coreference import CoreferenceIndex, entry_numbers
from ..language.semantic_classes import is_worn, preposition_table
from ..lexicon.lexicon import Lexicon
from ..mentions import mentioned_nouns
from ..rows import LIKELY_TRUE, Row
from ..scene_graph import scene_graph
from .estimates import ImageTruth, is_transition

# "A dog faces a cat" means "a cat faces a dog".
SYMMETRIC_VERBS = {
    "face", "meet", "hug", "kiss", "fight", "touch", "join", "resemble", "match", "accompany", "marry", "embrace",
    "wrestle", "race", "tackle", "separate", "be", "have", "include",
}  # fmt: skip


class Violation(NamedTuple):
    """Why a negative may be true.

    reason: one of negcap.schemas.negatives.REASONS. word: the word of a caption that decides; None if none does.
    sibling_id: the caption_id of the first sibling that has the word; None if the caption itself has it.
    """

    reason: str
    word: str | None = None
    sibling_id: str | None = None

    def reject(self, row: Row) -> None:
        """Give the negative's row this reason, with what decides."""
        row.reason = self.reason
        row.sibling_id = self.sibling_id
        # For a negation, the thing that it denies precedes the word that decides: "hat: cap".
        row.detail = self.word if self.word is None or row.absent is None else f"{row.absent}: {self.word}"


def said_by_caption(reason: str, evidence: Evidence, kind: str, fits: Callable[[Mention], bool]) -> Violation | None:
    """A violation if the caption has a fitting mention of a kind of word; it names the first of them.

    Args:
        reason: of the violation.
        evidence: what the caption and its siblings mention.
        kind: of word, one of KINDS.
        fits: whether a mention of this kind, such as "dog" or ("car", "red"), makes the negative true.
    """
    fitting = [mention for mention in evidence.caption_mentions[kind] if fits(mention)]
    return Violation(reason, _word_of_mention(kind, min(fitting))) if fitting else None


def said_by_sibling(reason: str, evidence: Evidence, kind: str, fits: Callable[[Mention], bool]) -> Violation | None:
    """A violation if a sibling, another caption of the image, has a fitting mention; it names the first such sibling.

    reason, evidence, kind, fits: as for `said_by_caption`.
    """
    said = evidence.first_sibling_mention(kind, fits)
    return None if said is None else Violation(reason, _word_of_mention(kind, said.mention), said.sibling_id)


def _word_of_mention(kind: str, mention: Mention) -> str:
    """How a mention is shown: (couch, on) as "on couch", (dog, 2) as "dog", (car, red) as "red", a thing as it is."""
    if isinstance(mention, str):
        return mention
    thing, value = mention
    if kind == "numeral":
        return thing
    return f"{value} {thing}" if kind == "preposition" else value


def possible_nouns(evidence: Evidence, lexicon: Lexicon, replaced: str) -> np.ndarray:
    """Boolean mask of the lexicon's nouns that may be true of the image in place of the noun `replaced`: (nouns,).

    A noun may be true if it may name the same thing as a noun of one of the image's captions, or is one of
    `ImageTruth.likely_nouns`. A sibling's noun that is only more general than `replaced` does not count: "animal" for a
    dog makes no cat possible.
    """
    mentioned = evidence.caption_mentions["noun"] | evidence.specific_sibling_nouns(replaced)
    return _possible_nouns(lexicon, mentioned, evidence.image)


@cached_on_context
def _possible_nouns(lexicon: Lexicon, mentioned: frozenset[str], image: ImageTruth | None) -> np.ndarray:
    """The mask of `possible_nouns`, computed from the nouns that are mentioned: (nouns,), read-only.

    It is cached by these nouns, which are mostly the same for all captions of an image.
    """
    possible = np.zeros(len(lexicon.nouns.names), bool)
    # The nouns that may name the same thing as one that is mentioned.
    possible[entry_numbers(lexicon.coreference.with_any(mentioned).all)] = True
    return read_only(possible if image is None else possible | image.likely_nouns)


def noun_violation(replaced: str, new: str, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
    """A violation if a noun of this caption or a sibling may name the same thing as the noun `new`: `related_in_*` in
    WordNet, or `overlap_in_*` by the table of nouns.
    """
    number = lexicon.nouns.number.get(new)
    index = lexicon.coreference
    if number is None:  # a noun that the lexicon lacks: an index of it alone
        number = 0
        index = CoreferenceIndex((new,))
    elif not possible_nouns(evidence, lexicon, replaced)[number]:  # a fast test, which ends most calls
        return None
    nouns = evidence.caption_mentions["noun"]
    if reason := index.with_any(nouns).reason(number):
        return said_by_caption(
            f"{reason}_in_caption", evidence, "noun", lambda noun: index.with_noun(noun).reason(number) == reason
        )
    sibling_nouns = evidence.specific_sibling_nouns(replaced)
    if reason := index.with_any(sibling_nouns).reason(number):
        return said_by_sibling(
            f"{reason}_in_sibling",
            evidence,
            "noun",
            lambda noun: noun in sibling_nouns and index.with_noun(noun).reason(number) == reason,
        )
    return None


def likely_violation(row: Row, evidence: Evidence) -> Violation:
    """The violation `likely_true` of a row, with the word of the image's captions that makes it likeliest."""
    asserted = row.assertion or row  # for a negation, the row that asserts what it denies
    if evidence.image is None or asserted.change not in KINDS or is_transition(asserted.change):
        # No word makes it likely: the thing that is counted or described, the last of the tokens, is named instead.
        return Violation(LIKELY_TRUE, evidence.caption.tokens[asserted.tokens[-1]].lemma)
    nouns = frozenset[str]().union(*map(mentioned_nouns, evidence.image.captions))
    word = evidence.image.truth.associations[asserted.change].strongest(nouns, asserted.replacement)
    if word in mentioned_nouns(evidence.caption):
        return Violation(LIKELY_TRUE, word)
    with_word = (sibling.caption_id for sibling in evidence.siblings if word in mentioned_nouns(sibling))
    return Violation(LIKELY_TRUE, word, next(with_word, None))


def interchangeable(caption: Caption, first: Token, second: Token) -> bool:
    """Whether a caption stays true if two of its nouns change places.

    They may be conjuncts, in a symmetric relation, or in equivalent positions. "A trick on a bike on a ramp": objects
    of equal prepositions may be in either order. "A girl is behind a car and a boy is behind the car": two clauses
    state the same of each.
    """
    # In "a dog and a cat near a bed" the parse attaches only the dog to the rest: so first conjuncts are tested, too.
    first_conjuncts = (caption.first_conjunct(first), caption.first_conjunct(second))
    are_objects = all(token.dep == "pobj" for token in first_conjuncts)
    if are_objects and len({caption.lowered[token.head] for token in first_conjuncts}) == 1:
        return True
    if first.dep == second.dep == "pobj":  # both locate the same noun: "a man in the water, on a boat"
        above = caption.tokens[first.head].head
        if above == caption.tokens[second.head].head and caption.tokens[above].pos == "NOUN":
            return True
    pairs = ((first, second), (second, first), first_conjuncts, first_conjuncts[::-1])
    if any(_is_joined_by_with(caption, *pair) for pair in pairs) or _stand_in_one_list(caption, first, second):
        return True
    if _follows_after_swap(caption, first.index, second.index):
        return True
    is_joined = first_conjuncts[0].index == first_conjuncts[1].index
    is_side_by_side = is_joined or any(_relates_symmetrically(caption, *pair) for pair in pairs)
    return is_side_by_side and not _says_more_of_one(caption, first, second)


class Statement(NamedTuple):
    """A relation that a caption states of two nouns: their token indices, its verb and its preposition, "" if none."""

    subject: int
    object: int
    verb: str
    preposition: str

    @property
    def is_symmetric(self) -> bool:
        """Whether its subject and object may change places: by its preposition if it has one, else by its verb."""
        if self.preposition:
            return self.preposition in preposition_table().symmetric
        return self.verb in SYMMETRIC_VERBS

    def makes_true(self, other: Statement, caption: Caption) -> bool:
        """Whether this makes `other` true: the same relation of the same nouns, in either order if symmetric."""
        if self.verb != other.verb and "" not in (self.verb, other.verb):  # without a verb it may be any
            return False
        if preposition_table().are_exclusive(self.preposition, other.preposition):
            return False
        orders = [(self.subject, self.object)]
        if other.is_symmetric:
            orders.append((self.object, self.subject))
        return any(
            _is_same_thing(caption, subject, other.subject) and _is_same_thing(caption, object, other.object)
            for subject, object in orders
        )


@cached_on_caption
def _stated_relations(caption: Caption) -> tuple[Statement, ...]:
    """The relations of a caption's scene graph that the caption has words for."""
    statements = []
    for relation in scene_graph(caption).relations:
        if not relation.tokens:
            continue
        words = [caption.tokens[index] for index in relation.tokens]
        verb = " ".join(word.lemma for word in words if word.pos in ("VERB", "AUX"))
        preposition = " ".join(word.lower for word in words if word.pos not in ("VERB", "AUX"))
        statements.append(Statement(relation.subject, relation.object, verb=verb, preposition=preposition))
    return tuple(statements)


def _follows_after_swap(caption: Caption, first: int, second: int) -> bool:
    """Whether a caption states nothing new after two of its nouns have changed places.

    "A man and a dog sit on a bed": after the swap the man and the dog are each on the bed, as before. False if the
    caption states nothing of the two. first, second: the tokens of the nouns.
    """
    stated = _stated_relations(caption)
    swapped = {first: second, second: first}
    after_swap = [
        old._replace(subject=swapped.get(old.subject, old.subject), object=swapped.get(old.object, old.object))
        for old in stated
        if old.subject in swapped or old.object in swapped
    ]
    return bool(after_swap) and all(any(old.makes_true(new, caption) for old in stated) for new in after_swap)


def _says_more_of_one(caption: Caption, first: Token, second: Token) -> bool:
    """Whether a caption says something of one of two things near each other that need not be true of the other.

    It acts on a third thing ("a man **rides** a horse next to a woman"), or wears it. A statement of where it is does
    not count, as the other one is mostly there, too.
    """
    both = (first.index, second.index)
    for statement in _stated_relations(caption):
        if statement.subject not in both or statement.object in both:
            continue
        acts_on_it = statement.preposition == "" and statement.verb not in {"", *SYMMETRIC_VERBS}
        if acts_on_it or (statement.preposition == "in" and is_worn(caption.tokens[statement.object].lemma)):
            return True
    return False


def _is_same_thing(caption: Caption, first: int, second: int) -> bool:
    """Whether two nouns, by their tokens, mean one thing, or things that the caption describes alike.

    They are one token, or one noun, the later time with "the" or both times in the same words ("a car … a car").
    """
    if first == second:
        return True
    if caption.tokens[first].lemma != caption.tokens[second].lemma:
        return False
    is_definite = any(word.lower == "the" for word in caption.dependents(max(first, second), "det"))
    return is_definite or _phrase_without_determiner(caption, first) == _phrase_without_determiner(caption, second)


def _phrase_without_determiner(caption: Caption, noun: int) -> tuple[str, ...]:
    """The words of a noun's phrase up to it, without its determiner."""
    start = caption.phrase_start(noun)
    if start < noun and caption.tokens[start].dep == "det":
        start += 1
    return caption.lowered[start : noun + 1]


def _stand_in_one_list(caption: Caption, first: Token, second: Token) -> bool:
    """Whether only noun phrases, commas and conjunctions stand between two nouns, whatever the dependencies say."""
    in_phrases = {index for chunk in caption.chunks for index in range(chunk.start, chunk.end)}
    start = caption.phrase_start(second.index)
    between = {caption.lowered[index] for index in range(first.index + 1, start) if index not in in_phrases}
    return between <= {",", "and", "or", "&", "as", "well", "plus"}  # "a dog as well as a cat"


def _is_joined_by_with(caption: Caption, holder: Token, thing: Token) -> bool:
    """Whether `thing` is with `holder`, even where the parse attaches "with" elsewhere: "a plate with oranges"."""
    governor = caption.tokens[thing.head]
    if thing.dep != "pobj" or governor.lower != "with":
        return False
    if caption.phrase_start(thing.index) == governor.index + 1 and holder.index == governor.index - 1:
        return True
    # "Holds a plate on a table with oranges": the parse attaches "with" to the verb, or to the head of the verb.
    above = caption.tokens[holder.head]
    return governor.head in (above.index, above.head) and holder.dep in ("dobj", "pobj")


def _relates_symmetrically(caption: Caption, one: Token, other: Token) -> bool:
    """Whether a symmetric preposition or verb relates `one` to `other`: "a dog next to a cat"."""
    governor = caption.tokens[other.head]
    if governor.dep != "prep" and governor.pos != "ADP":
        # "A dog faces a cat".
        of_one_verb = one.dep == "nsubj" and other.dep in ("dobj", "attr") and other.head == one.head
        return of_one_verb and caption.tokens[one.head].lemma in SYMMETRIC_VERBS
    # "next to": the object depends on "to", this on "next", and this on what is next to it.
    outer = governor
    words = [governor.lower]
    while outer.head != outer.index and caption.tokens[outer.head].pos in ("ADP", "ADV"):
        outer = caption.tokens[outer.head]
        words.append(outer.lower)
    if preposition_table().symmetric.isdisjoint([governor.lower, " ".join(reversed(words))]):
        return False
    above = caption.tokens[outer.head]
    holder = above
    while holder.dep == "pobj":  # "sausage in a bowl with salad": the salad is with the sausage
        holder = caption.tokens[caption.tokens[holder.head].head]
    is_direct = one.index in (above.index, holder.index)  # "a dog next to a cat"
    is_by_verb = one.dep in ("nsubj", "nsubjpass", "dobj", "attr") and one.head == above.index  # "a dog sits next to …"
    is_by_clause = above.dep in ("acl", "relcl") and above.head == one.index  # "a dog sitting next to a cat"
    return is_direct or is_by_verb or is_by_clause
