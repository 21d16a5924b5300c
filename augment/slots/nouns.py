"""The nouns, attributes and quantities of a caption that may be replaced, with their forms and contexts.

A context is the governor or a neighbour of a slot, as a short string that a lexicon counts: `pobj:sit in` is the object
of "in" under "sit", `left:on a` follows "on a", `right:wearing` precedes "wearing". Counting and operators call the
same functions, so replacements are weighted by exactly these counts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..caption import Caption, Chunk, Token, cached_on_caption
from ..language.grammar import ARTICLES, NUMBERS, PLURAL_DETERMINERS, SINGULAR_DETERMINERS, singular_form
from ..language.semantic_classes import (
    attribute_table,
    has_other_sense_of_persons,
    is_compound,
    is_person,
    semantic_class,
    verb_class,
)
from ..language.wordnet import WordNet

NOUN_TAGS = {"NN", "NNS"}
ADJECTIVE_TAGS = {"JJ", "JJR", "JJS"}
DEGREES = {"JJR", "JJS"}
COUNTED = PLURAL_DETERMINERS | {"couple", "dozen"}
INTENSIFIERS = {"very", "too", "more", "most", "less", "so", "as", "light", "dark", "bright", "pale", "half"}


def word_before(caption: Caption, index: int) -> str:
    """The word before token `index`, or two words if that is an article ("on a", "an" as "a"); "^" at the start."""
    word = caption.word(index - 1) or "^"
    if word in ("a", "an", "the"):
        return f"{caption.word(index - 2) or '^'} {'the' if word == 'the' else 'a'}"
    return word


def word_after(caption: Caption, index: int) -> str:
    """The word at token `index`; "$" after the last token."""
    return caption.word(index) or "$"


def governor_context(caption: Caption, token: Token) -> str:
    """The dependency label and governor of a noun: `dobj:hold`, `pobj:sit in`; conjuncts share that of the first."""
    token = caption.first_conjunct(token)
    head = caption.tokens[token.head]
    if token.dep == "pobj":  # the head is the preposition, and what that depends on is as telling
        return f"pobj:{caption.tokens[head.head].lemma} {head.lower}"
    if token.dep == "ROOT":  # of a caption without a verb: "a dog running", "a dog on a couch"
        clause = caption.first_dependent(token.index, "acl", "relcl")
        preposition = caption.first_dependent(token.index, "prep")
        if clause is not None:
            return f"nsubj:{clause.lemma}"
        return "ROOT:" if preposition is None else f"ROOT:{preposition.lower}"
    return f"{token.dep}:{head.lemma}"


@lru_cache(maxsize=1 << 13)
def broader_context(context: str) -> str:
    """The context that a rare context backs off to, by semantic class or preposition; "" if there is none.

    "obj:poodle" -> "obj kind:1", "verb:stroll" -> "verb kind:verb.motion", "pobj:sit on" -> "pobj:on", "pobj:roof of"
    -> "of kind:18" (artifacts).
    """
    sort, _, word = context.partition(":")
    if sort == "pobj" and " " in word:  # "sit on": a governor and its preposition
        above, _, preposition = word.rpartition(" ")
        return f"of kind:{semantic_class(above)}" if preposition == "of" else f"pobj:{preposition}"
    if sort in ("subj", "gov", "obj", "pobj"):  # "pobj" and "obj" have one broader context
        return f"{sort.removeprefix('p')} kind:{semantic_class(word) if word else ''}"
    return f"{sort} kind:{verb_class(word)}" if sort in ("verb", "nsubj", "nsubjpass", "dobj") else ""


class Slot(NamedTuple):
    """A word or phrase of a caption that may be replaced: tokens `start` to `end` (exclusive).

    kind: noun, numeral, preposition, attribute or verb.
    entry: as a lexicon counts it: "tennis racket", "a", "in front of".
    noun: a token: the head of a noun; the noun that a numeral or attribute counts or describes; the object of a
        preposition; the verb itself.
    form: for a noun "plural", "a", "some" (a mass noun), "the" or "bare"; for an attribute "attributive" or
        "predicative" ("the car is **red**"); for a verb its pattern, "object", "prep:on" or "bare"; else "".
    contexts: what stands around it, such as "dobj:throw" and "left:a", the governor or noun first. A lexicon counts how
        often an entry has each of them.
    """

    kind: str
    start: int
    end: int
    entry: str
    noun: int
    form: str = ""
    contexts: tuple[str, ...] = ()

    @property
    def plural(self) -> bool:
        """Whether it is a noun in the plural."""
        return self.form == "plural"

    @property
    def value(self) -> int:
        """The number that a quantity means."""
        return numeral_value(self.entry)


def is_cut_compound(caption: Caption, root: int) -> bool:
    """Whether the parser wrongly ends a noun phrase inside a compound: "the blue ice | skates".

    root: the token index of the phrase's head.
    """
    if root + 1 == len(caption.tokens):
        return False
    following = caption.tokens[root + 1]
    if following.pos == "NOUN" and following.dep not in ("appos", "npadvmod"):
        return True
    # "A boy | scout salutes", whose second word passes for an adverb or a verb.
    if following.pos in ("ADV", "ADJ", "VERB") and following.tag not in ("VBZ", "VBG", "VBD"):
        return bool(WordNet.load().senses(f"{caption.tokens[root].lemma} {following.lower}", "n"))
    return False


@cached_on_caption
def noun_slots(caption: Caption) -> tuple[Slot, ...]:
    """The heads of noun phrases that are common nouns: "a **tennis racket** on a **bench**"."""
    slots = []
    tokens = caption.tokens
    lowered = caption.lowered
    for chunk in caption.chunks:
        root = tokens[chunk.root]
        if root.tag not in NOUN_TAGS or is_cut_compound(caption, chunk.root) or _has_unclear_number(caption, chunk):
            continue
        # The words that form a compound with the head: "tennis racket"; not one that belongs to a word before the head.
        start = chunk.root
        while start > chunk.start and tokens[start - 1].dep in ("compound", "nmod") and tokens[start - 1].head >= start:
            start -= 1
        # Only words, not "42" or ":)"; and no part of a name.
        if not all(token.text.replace("-", "").isalpha() for token in tokens[start : chunk.root + 1]):
            continue
        if start > 1 and _is_in_name(caption, start - 1):
            continue
        if start == chunk.root > chunk.start and tokens[start - 1].dep == "amod":
            if is_compound(lowered[start - 1], root.lemma):  # "hot dog": tagged as an adjective, but part of the noun
                start -= 1
        entry = " ".join([*lowered[start : chunk.root], root.lemma])
        dependents = [token for token in tokens[chunk.start : start] if token.head == root.index]
        # "Several sheep": by its tag the noun is a singular.
        plural = root.tag == "NNS" or not PLURAL_DETERMINERS.isdisjoint([token.lower for token in dependents])
        form = "plural" if plural else singular_form(dependents, start > 0 and tokens[start - 1].dep == "case")
        governor = governor_context(caption, root)  # such as "dobj:hold"
        left = f"left:{word_before(caption, start)}"
        right = f"right:{word_after(caption, chunk.root + 1)}"
        contexts = governor, broader_context(governor), left, right
        end = chunk.root + 1
        slots.append(Slot("noun", start, end, entry=entry, noun=chunk.root, form=form, contexts=contexts))
    return tuple(slots)


def _has_unclear_number(caption: Caption, chunk: Chunk) -> bool:
    """Whether a noun phrase has a singular determiner and a plural head, so that no edit of it is safe.

    Such a head may be a possessive without apostrophe ("licks a girls | hand"), a typo ("a women"), or a verb tagged as
    a noun ("a bee clings"). "A few dogs", "a dozen eggs" and "another two men" are plurals, and clear.
    """
    if caption.tokens[chunk.root].tag != "NNS":
        return False
    before_head = caption.tokens[chunk.start : chunk.root]
    if any(token.lower != "one" and (token.lower in COUNTED or token.tag == "CD") for token in before_head):
        return False
    return any(token.lower in SINGULAR_DETERMINERS and token.head == chunk.root for token in before_head)


def _described_noun(caption: Caption, token: Token) -> tuple[Token, str] | None:
    """The noun that an adjective describes, and the form, "attributive" or "predicative"; None if it describes none.

    ("car", "attributive") for "a red car", ("car", "predicative") for "the car is red". A conjunct describes the noun
    of the first conjunct: "a red and blue car".
    """
    # From a conjunct to the first adjective; the head of a root is the root itself.
    while token.dep == "conj" and caption.tokens[token.head].tag in ADJECTIVE_TAGS and token.head != token.index:
        token = caption.tokens[token.head]
    head = caption.tokens[token.head]
    if token.dep in ("amod", "compound") and head.tag in NOUN_TAGS and token.index < head.index:
        return head, "attributive"
    if token.dep == "acomp" and head.lemma == "be":
        subject = caption.first_dependent(head.index, "nsubj")
        if subject is not None and subject.tag in NOUN_TAGS:
            return subject, "predicative"
    return None


@cached_on_caption
def attribute_slots(caption: Caption) -> tuple[Slot, ...]:
    """The adjectives that describe common nouns, and materials that modify nouns: "a **metal** bench"."""
    slots = []
    table = attribute_table()
    lowered = caption.lowered
    for token in caption.tokens:
        word = lowered[token.index]
        is_material = word in table.dimensions and token.dep in ("amod", "compound")
        if token.tag not in ADJECTIVE_TAGS and not is_material:
            continue
        if token.tag in DEGREES and word not in table.dimensions:  # "bigger" compares with something, maybe unnamed
            continue
        if not word.replace("-", "").isalpha() or word in table.vague:  # "several", "full": not compared
            continue
        # It has to describe a noun, and alone: not "the White House", "light blue", nor "red-haired".
        owner = None if _is_in_name(caption, token.index) else _described_noun(caption, token)
        if owner is None or any(lowered[child] in INTENSIFIERS for child in caption.children[token.index]):
            continue
        noun, form = owner
        if _is_part_of_longer_attribute(caption, token.index):
            continue
        if is_person(noun.lemma) and has_other_sense_of_persons(word):  # "a black man"
            continue
        # Nor may it be a part of the noun: "hot dog".
        if form == "attributive" and token.index + 1 == noun.index and is_compound(word, noun.lemma):
            continue
        if token.dep == "compound" and WordNet.load().senses(f"{word} {noun.lemma}", "n"):
            continue
        left = f"left:{word_before(caption, token.index)}"
        right = f"right:{word_after(caption, token.index + 1)}"
        contexts = (f"noun:{noun.lemma}", left, right)
        end = token.index + 1
        slots.append(Slot("attribute", token.index, end, entry=word, noun=noun.index, form=form, contexts=contexts))
    return tuple(slots)


def _is_in_name(caption: Caption, index: int) -> bool:
    """Whether a word and the next one begin with a capital as parts of a name do: "the White House".

    Never in a text that Begins All Words So. The first word of a text has a capital anyway, so that the two words after
    it must have one: "Golden Gate Bridge", not "Young Asian woman".
    """
    words = [token.text for token in caption.tokens[index : index + (2 if index else 3)]]
    if len(words) < 2 or not all(word[0].isupper() and word[1:].islower() for word in words):
        return False
    return any(token.pos in ("NOUN", "VERB", "ADJ") and token.text[0].islower() for token in caption.tokens)


def _is_part_of_longer_attribute(caption: Caption, index: int) -> bool:
    """Whether a word is part of a longer attribute: "red-haired", "light blue"."""
    before = caption.word(index - 1)
    behind = caption.word(index + 1)
    colours = attribute_table().dimensions
    is_of_two = any("colour" in colours.get(word, ()) for word in (before, behind))
    if is_of_two and "colour" in colours.get(caption.word(index), ()):
        return True  # "golden brown"
    longer = before in INTENSIFIERS or behind in ("haired", "colored", "eyed", "headed", "sleeved")
    return longer or "-" in (before, behind)


def numeral_entry(token: Token) -> str | None:
    """The entry of a word that counts, None for another: "an" -> "a", "three" -> "three", "12" -> "12"."""
    word = token.lower
    if word in ARTICLES and token.tag == "DT":
        return "a"
    if word in NUMBERS and token.tag in ("CD", "DT"):
        return word
    is_number = token.tag == "CD" and word.isascii() and word.isdigit() and word == str(int(word))  # not "007"
    return word if is_number and 0 < int(word) <= 100 else None


@lru_cache(maxsize=1 << 10)
def numeral_value(entry: str) -> int:
    """The number that a quantity means: "a" -> 1, "three" -> 3, "12" -> 12."""
    return 1 if entry == "a" else NUMBERS.get(entry) or int(entry)


@cached_on_caption
def numeral_slots(caption: Caption) -> tuple[Slot, ...]:
    """The articles and numbers that count the head of a noun phrase: "**Two** dogs on **a** couch"."""
    slots = []
    tokens = caption.tokens
    for chunk in caption.chunks:
        root = tokens[chunk.root]
        if root.tag not in NOUN_TAGS or is_cut_compound(caption, chunk.root):  # "two ice | skates"
            continue
        for index in range(chunk.start, chunk.root):
            token = tokens[index]
            if token.head != root.index or token.dep not in ("det", "nummod"):
                continue
            entry = numeral_entry(token)
            if entry is None or caption.word(index - 1) in ARTICLES:  # "a three wheeler", "a two dogs"
                continue
            # "A dogs": parse or caption has a mistake, and no edit would make the two agree.
            if (root.tag == "NNS") != (numeral_value(entry) > 1):
                continue
            governor = governor_context(caption, root)  # such as "dobj:hold"
            left = f"left:{word_before(caption, index)}"
            right = f"right:{word_after(caption, index + 1)}"
            if index + 1 == chunk.root:
                # The word after the numeral is the noun, which `noun:` names; the word after the noun tells more.
                right = f"behind:{word_after(caption, root.index + 1)}"
            contexts = (f"noun:{root.lemma}", governor, broader_context(governor), left, right)
            slots.append(Slot("numeral", index, index + 1, entry=entry, noun=root.index, contexts=contexts))
            break  # a noun phrase has one count
    return tuple(slots)
