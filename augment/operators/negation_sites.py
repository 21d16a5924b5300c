"""Where a caption can say that something is missing, in which words (data/negation.toml), and where it does."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from ..caption import Caption, Token, cached_on_caption
from ..data import data_path
from ..edits import Edit, cased_like, replace_tokens
from ..language.grammar import indefinite_article, plural_verb, third_person
from ..language.negation import NEGATIONS, SUBJECTS, denials, is_unsettled
from ..language.semantic_classes import is_person
from ..slots.nouns import Slot, noun_slots
from ..slots.verbs import preposition_uses

ASSERTED_PRONOUNS = {"no one": "someone", "nobody": "someone", "nothing": "something"}
# Set phrases that deny, and what asserts the opposite.
ASSERTED_PHRASES = {
    ("not", "a", "single"): "a single",
    ("none", "of"): "all of",
    ("neither", "of"): "both of",
}
# Auxiliaries that stay as they are without "not". Not "can": no photo shows who can swim.
AUXILIARIES = ("is", "are", "was", "were", "has", "have")
# Behind "not", they are what is denied: "not only", "not all", "not very".
NOT_WITH = frozenset("only all many every even just quite very too so much a yet any always".split())
# Captions with one of these keep their denial: without it the rest would not fit ("is not wearing anything", "not black
# but brown", "not yet"), or they are questions.
KEPT_WITH_DENIAL = frozenset(
    "any anything anyone anybody anywhere either neither nor yet but except ever rather instead only alone other "
    "?".split()
)
# Nouns with one of these dependents are not negated: "without a man and his dog" may leave the man.
LISTED = {"conj", "cc", "appos", "acl", "relcl", "nummod", "poss", "preconj", "prep", "prt"}


class Frame(NamedTuple):
    """One construction that negates nouns, such as "without a hat"; data/negation.toml explains the fields.

    negated: the wordings that negate a noun. nouns: those that it can negate. both: the wording that asserts one noun
    and negates another; None if there is none. asserted: the one that asserts a noun which the caption does not have.
    plural: whether a negated noun is in the plural, "with no dogs nearby".
    """

    negated: list[str]
    nouns: frozenset[str]
    both: str | None = None
    asserted: str | None = None
    plural: bool = False


_TABLE = tomllib.loads(data_path("negation.toml").read_text("utf-8"))
WORDS = {name: frozenset(words) for name, words in _TABLE["words"].items()}
NOUNS = {name: frozenset(words) for name, words in _TABLE["nouns"].items()}
# In the file, a frame names the lists of NOUNS that it can negate; here it has all their nouns.
FRAMES = {
    name: Frame(**{**frame, "nouns": frozenset[str]().union(*map(NOUNS.__getitem__, frame["nouns"]))})
    for name, frame in _TABLE["frames"].items()
}


class Site(NamedTuple):
    """A position of a caption where a noun can be asserted or negated.

    frame: the construction, a key of FRAMES.
    index: the token of the noun's head; where words are added, the token after which they are.
    start, end: the characters that a negation replaces; equal where words are added.
    verb: in the frames "wear" and "hold", the verb as written; in "exists", "there" or "There", as the caption begins.
    slot: the noun that is there; None in the frames "around" and "person", which add words, and "exists", which
        replaces the caption.
    variant: 0 to 3, chooses among the wordings of the frame: bit 0 the wording, bit 1 "and" or "but".
    """

    frame: str
    index: int  # type: ignore[assignment]  # hides tuple.index
    start: int
    end: int
    verb: str = ""
    slot: Slot | None = None
    variant: int = 0

    def negate(self, **words: str) -> Edit:
        """The edit that negates a noun: with a="a hat", no="hat" it writes "without a hat" or "with no hat".

        words: what stands for the braces in the wordings of data/negation.toml. The caption's `variant` chooses one.
        """
        wordings = FRAMES[self.frame].negated
        return self.edit(wordings[self.variant % len(wordings)], words)

    def edit(self, wording: str, words: dict[str, str]) -> Edit:
        """The edit that puts a wording of the frame here: "without {a}" with {"a": "a hat"} -> "without a hat".

        words: what stands for the braces; {verb}, {there} and {and} are known here.
        """
        # The lower bit of the variant chooses a wording (see `negate`), the higher one its conjunction.
        link = ("and", "but")[self.variant // 2 % 2]
        return Edit(
            self.start, self.end, wording.format_map({**words, "verb": self.verb, "there": self.verb, "and": link})
        )


@cached_on_caption
def noun_sites(caption: Caption) -> tuple[Site, ...]:
    """The nouns of a caption that can be negated, in text order; none in a caption that has a negation."""
    if _is_negative(caption):
        return ()
    nouns = {slot.noun: slot for slot in noun_slots(caption)}
    variant = _variant(caption)
    sites = []
    for find_sites in (_objects_of_prepositions, _objects_of_verbs, _things_of_there_is, _last_of_two):
        for site in find_sites(caption):
            slot = nouns.get(site.index)
            following = caption.lowered[site.index + 1 :]
            # A later word may refer to the noun ("it"), or it goes on: "a dog's tail", "a bunch of".
            is_taken_up = not WORDS["anaphors"].isdisjoint(following) or following[:1] in (("'s",), ("of",), ("-",))
            if slot is not None and slot.entry in FRAMES[site.frame].nouns and not is_taken_up:
                sites.append(site._replace(slot=slot, variant=variant))
    return tuple(sorted(sites, key=lambda site: site.index))


@cached_on_caption
def added_sites(caption: Caption) -> dict[str, Site]:
    """Find the sites of a caption where words can be added that negate a noun which the caption does not mention.

    There are up to three, by frame:
    - "around": after the last word ("…, with no dogs nearby");
    - "person": after the noun of the only person ("a man without an umbrella …");
    - "exists": a sentence in place of the whole caption, as in VALSE ("There are no dogs in the picture"). The caption
      must not be one sentence of several, since the others would stay.

    A caption that has a negation has no sites.
    """
    words = [token for token in caption.tokens if token.pos not in ("PUNCT", "SPACE")]
    if not words or _is_negative(caption):
        return {}
    first = words[0]
    end = words[-1].end  # the position after the last word, before a full stop
    variant = _variant(caption)
    sites = {}
    if WORDS["elsewhere"].isdisjoint(caption.lowered):
        sites["around"] = Site(frame="around", index=words[-1].index, start=end, end=end, variant=variant)
    persons = [slot for slot in noun_slots(caption) if is_person(slot.entry)]
    if len(persons) == 1 and not persons[0].plural:
        root = caption.tokens[persons[0].noun]
        following = caption.tokens[root.index + 1 : root.index + 2]
        # Elsewhere the added words would part the noun from what belongs to it: "a man without a bag in a hat".
        goes_on = any(token.pos in ("VERB", "AUX") or token.lower in ("on", "at") for token in following)
        if goes_on and root.dep in ("nsubj", "ROOT", "nsubjpass"):
            sites["person"] = Site(frame="person", index=root.index, start=root.end, end=root.end, variant=variant)
    if caption.part_of is not None:  # one sentence of several
        return sites
    there = "there" if caption.text[first.start].islower() else "There"
    # Without a variant: of several wordings the frame always takes the first.
    return sites | {"exists": Site(frame="exists", index=first.index, start=first.start, end=end, verb=there)}


@cached_on_caption
def shown_nouns(caption: Caption, frame: str, *, persons: bool = False) -> frozenset[tuple[str, bool]]:
    """The nouns of a caption that its photo surely shows and that can be negated in a frame: (noun, whether plural).

    A noun that is negated, awaited, likened or of something is left out: "waiting for a bus", "a picture of a dog".

    persons: nouns for persons instead; a person behind "by" ("a photo by a man") is not shown.
    """
    if _is_negative(caption):
        return frozenset()
    preposition_of = {use.noun: use.entry for use in preposition_uses(caption)}  # by the token of its object
    shown = set()
    for slot in noun_slots(caption):
        is_asked_for = is_person(slot.entry) if persons else slot.entry in FRAMES[frame].nouns
        if not is_asked_for or caption.word(slot.end) == "of":
            continue
        preposition = preposition_of.get(slot.noun)
        is_at_shown_place = preposition in WORDS["shown"] and not (persons and preposition == "by")
        if is_at_shown_place or caption.tokens[slot.noun].dep in ("nsubj", "ROOT", "attr", "dobj"):
            shown.add((slot.entry, slot.plural))
    return frozenset(shown)


class DeniedStatement(NamedTuple):
    """What a caption denies, and the edit that asserts it.

    denied, asserted: what a row records of the caption and of the negative, such as "no hat" and "hat", "is not" and
        "is", "no one" and "someone".
    token: the noun, the verb that "not" follows, or the pronoun.
    edit: what asserts it: "without" -> "with", "no" -> "a", "is not" -> "is".
    """

    denied: str
    asserted: str
    token: int
    edit: Edit


@cached_on_caption
def denied_statements(caption: Caption) -> tuple[DeniedStatement, ...]:
    """What a caption denies in words that can be turned round, in text order.

    "Without a hat", "with no dogs", "no one is sitting on the bench", "the light is not green".
    """
    phrases = {word.index: phrase for word in caption.tokens if (phrase := _denied_phrase(caption, word))}
    # "Neither" is a word by which other captions keep their denial.
    in_phrases = {word for phrase in phrases.values() for word in phrase.denied.split()}
    if not KEPT_WITH_DENIAL.isdisjoint(set(caption.lowered) - in_phrases):
        return ()
    denied = []
    nouns = {slot.noun: slot for slot in noun_slots(caption)}
    for word in caption.tokens:
        statement = None
        if word.index in phrases:
            statement = phrases[word.index]
        elif word.lower == "without" and word.dep == "prep":
            object = caption.first_dependent(word.index, "pobj")
            if object is not None and object.index in nouns:
                edit = replace_tokens(caption, word.index, word.index + 1, "with")
                noun = nouns[object.index].entry
                statement = DeniedStatement(f"no {noun}", noun, object.index, edit)
        elif (
            word.lower == "no"
            and word.head in nouns
            and caption.word(word.head) != "one"
            and is_unsettled(caption, word.index)
        ):
            statement = _denied_noun(caption, word, nouns[word.head])
        elif pronoun := _denied_pronoun(caption, word):
            statement = pronoun
        elif word.dep == "neg" and word.lower in ("not", "n't"):
            statement = _denied_verb(caption, word)
        # "Few people walk without a hat": it is not said that somebody does.
        is_denied_itself = any(
            word.index in other.scope and other.word not in (word.index, word.head) for other in denials(caption)
        )
        if statement is not None and not is_denied_itself:
            denied.append(statement)
    return tuple(denied)


def _denied_noun(caption: Caption, no: Token, slot: Slot) -> DeniedStatement:
    """What asserts the noun behind "no": "some dogs", "a table", "some snow". slot: that of the noun."""
    determiner = (
        "some" if slot.plural or slot.entry in NOUNS["mass"] else indefinite_article(caption.word(no.index + 1))
    )
    edit = replace_tokens(caption, no.index, no.index + 1, determiner)
    return DeniedStatement(f"no {slot.entry}", slot.entry, slot.noun, edit)


def _denied_pronoun(caption: Caption, word: Token) -> DeniedStatement | None:
    """What asserts that there is somebody or something: "no one" -> "someone"; None for another word."""
    first = word.index
    end = first + 1
    if word.lower == "no" and caption.word(end) == "one":
        end += 1
    denied = " ".join(caption.lowered[first:end])
    if denied not in ASSERTED_PRONOUNS or caption.tokens[end - 1].dep not in ("nsubj", "nsubjpass", "pobj"):
        return None
    asserted = ASSERTED_PRONOUNS[denied]
    return DeniedStatement(denied, asserted, end - 1, replace_tokens(caption, first, end, asserted))


def _denied_phrase(caption: Caption, word: Token) -> DeniedStatement | None:
    """The statement that turns a set phrase of denial round, "none of" -> "all of"; None if the word begins none.

    The verb behind "none of" or "neither of" follows: "none of the men is riding" -> "all of the men are riding".
    """
    first = word.index
    phrase = next((words for words in ASSERTED_PHRASES if caption.lowered[first : first + len(words)] == words), None)
    if phrase is None:
        return None
    asserted = ASSERTED_PHRASES[phrase]
    end = first + len(phrase)
    edit = replace_tokens(caption, first, end, asserted)
    if phrase[-1] == "of":
        verb = caption.tokens[word.head]
        finite = caption.first_dependent(verb.index, "aux", "auxpass") or verb
        if word.dep not in SUBJECTS or finite.index < end:
            return None
        if finite.tag == "VBZ":
            between = caption.text[edit.end : finite.start]
            edit = Edit(edit.start, finite.end, edit.new + between + plural_verb(finite))
    return DeniedStatement(" ".join(phrase), asserted, first, edit)


def _denied_verb(caption: Caption, word: Token) -> DeniedStatement | None:
    """What asserts the verb that "not" denies: "is not" -> "is", "does not have" -> "has"; None: it is not known.

    word: "not" or "n't".
    """
    if word.index == 0 or caption.word(word.index + 1) in NOT_WITH:
        return None
    auxiliary = caption.tokens[word.index - 1]
    verb = caption.tokens[word.head]
    if auxiliary.lower in ("do", "does"):
        if verb.tag != "VB" or verb.index != word.index + 1:
            return None
        asserted = third_person(verb.lemma) if auxiliary.lower == "does" else verb.lemma
        edit = Edit(auxiliary.start, verb.end, asserted)
        return DeniedStatement(f"{auxiliary.lower} not {verb.lower}", asserted, verb.index, edit)
    asserted = auxiliary.lower
    if asserted not in AUXILIARIES:
        return None
    edit = Edit(auxiliary.start, word.end, cased_like(asserted, auxiliary.text))
    return DeniedStatement(f"{asserted} not", asserted, auxiliary.index, edit)


def _variant(caption: Caption) -> int:
    """A random number of two bits, which chooses a wording and a conjunction (see `Site.edit`).

    It depends on the caption alone, and not on the seed or the operator: true and false sentences have the same
    wordings.
    """
    return Random(caption.caption_id).randrange(4)


def _is_negative(caption: Caption) -> bool:
    """Whether a caption has a word of negation, or denies or leaves open something in other words."""
    return not NEGATIONS.isdisjoint(caption.lowered) or bool(denials(caption))


def _objects_of_prepositions(caption: Caption) -> Iterator[Site]:
    """Sites at the objects of prepositions: of "with" (not "filled with", "along with"), of "in" if they are worn, and
    of those that say where a thing is, at the caption's end.
    """
    for use in preposition_uses(caption):
        word = caption.tokens[use.start]
        if not _stands_alone(caption, caption.tokens[use.noun]) or word.dep != "prep":
            continue
        frame = ""
        if use.entry == "with":
            is_bound = caption.tokens[word.head].tag == "VBN" or caption.word(word.index - 1) in WORDS["bound_with"]
            frame = "" if is_bound else "with"
        elif use.entry == "in" and caption.tokens[use.noun].lemma in FRAMES["in"].nouns:
            frame = "in"
        elif use.entry in WORDS["shown"] and _ends_caption(caption, use):
            frame = "near"
        if frame:
            yield Site(frame=frame, index=use.noun, start=word.start, end=caption.tokens[use.noun].end)


def _objects_of_verbs(caption: Caption) -> Iterator[Site]:
    """Sites at the objects of "wear", and of "holding" or "carrying" behind a noun: "a man holding a bag"."""
    for verb in caption.tokens:
        if verb.lemma not in ("wear", "hold", "carry") or verb.pos != "VERB":
            continue
        object = caption.first_dependent(verb.index, "dobj")
        if object is None or not _stands_alone(caption, object) or caption.has_dependent(verb.index, "prt"):
            continue
        after_noun = verb.tag == "VBG" and verb.dep == "acl" and verb.head == verb.index - 1
        if verb.lemma == "wear" or after_noun:
            frame = "wear" if verb.lemma == "wear" else "hold"
            yield Site(frame=frame, index=object.index, start=verb.start, end=object.end, verb=verb.text)


def _things_of_there_is(caption: Caption) -> Iterator[Site]:
    """Sites at the things of "there is": "there is a dog" -> "there is no dog"."""
    for verb in caption.tokens:
        if verb.lemma != "be" or not caption.has_dependent(verb.index, "expl"):
            continue
        thing = caption.first_dependent(verb.index, "attr", "nsubj")
        if thing is None or caption.phrase_start(thing.index) != verb.index + 1:
            continue
        if not caption.has_dependent(thing.index, "conj", "preconj", "nummod", "poss"):
            yield Site(frame="there", index=thing.index, start=caption.tokens[verb.index + 1].start, end=thing.end)


def _last_of_two(caption: Caption) -> Iterator[Site]:
    """Sites at the last of two objects: "with a cup and a plate" -> "with a cup but no plate"."""
    for first in caption.tokens:
        if first.dep not in ("dobj", "pobj"):
            continue
        conjunctions = list(caption.dependents(first.index, "cc"))
        others = list(caption.dependents(first.index, "conj"))
        if len(conjunctions) != 1 or len(others) != 1:
            continue
        conjunction = conjunctions[0]
        other = others[0]
        is_next = caption.phrase_start(other.index) == conjunction.index + 1
        if conjunction.lower == "and" and is_next and _stands_alone(caption, other):
            yield Site(frame="and", index=other.index, start=conjunction.start, end=other.end)


def _ends_caption(caption: Caption, use: Slot) -> bool:
    """Whether a prepositional phrase ends the caption, and can be left out: neither another nor its verb needs it."""
    above = caption.tokens[caption.tokens[use.start].head]  # what the phrase belongs to
    if not use.start or any(word.pos != "PUNCT" for word in caption.tokens[use.noun + 1 :]):
        return False
    is_bound = above.lemma in WORDS["need_preposition"] or caption.has_dependent(above.index, "dobj", "prt")
    return above.dep not in ("pobj", "prep") and not is_bound


def _stands_alone(caption: Caption, noun: Token) -> bool:
    """Whether a noun can be denied without its surroundings: it has no list, number, owner or clause (LISTED)."""
    return not caption.has_dependent(noun.index, *LISTED)
