"""Replace one word or phrase of a caption: what may stand in each slot, with which weight, and drawing from it.

For each slot of a caption (a noun, a preposition, an attribute or a verb) there is one `Choice`, and `draw` chooses
among the replacements of all of them together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import partial
from itertools import chain, pairwise
from random import Random
from typing import NamedTuple

import numpy as np

from ..caption import Caption, cached, read_only
from ..context import Batch, computed_together
from ..edits import COMPATIBLE, LIKELY_TRUE, NOTHING, UNNATURAL, Candidate, Edit, Kind, cased, replace
from ..judgement import is_fallback, preference, refusals
from ..language import semantic_classes
from ..language.grammar import ARTICLES, is_negated, pronoun_edits, with_article
from ..language.semantic_classes import gender, head, is_worn, prepositions
from ..language.wordnet import first_sense
from ..lexicon.entries import Entries
from ..lexicon.lexicon import Lexicon, sample
from ..reproducible import exp, log
from ..slots import verbs
from ..slots.nouns import Slot, attribute_slots, noun_slots
from ..slots.verbs import inflected, preposition_slots, preposition_uses, verb_slots

# The lowest log p(replacement | rest of the caption), by operator; of shuffle, the lowest sum of the log-odds of both
# nouns in each other's place. Of nouns also the lowest score, which is log p + LIFT * the log lift given the governor
# of the slot (verb, preposition or noun), of which at most MAX_LIFT counts.
FLOORS = {"noun": -8.0, "preposition": -9.0, "attribute": -8.0, "verb": -7.0, "shuffle": -15.0}
MIN_SCORE = -8.5
LOWEST = -1e30  # below all scores
LIFT = 2.0
MAX_LIFT = 1.0
WITHOUT = "without"  # never put in: readers called all of 10 odd


@dataclass(frozen=True, eq=False)
class Choice:
    """One slot of a caption (a noun, a number, a preposition, an attribute or a verb), and what may replace it.

    tokens: as `Candidate.slots`. entry: the lexicon entry in the slot. names: the entries that may replace it. weights:
    for each, its chance of being drawn, not normalised, (names,). log_odds: for each, the plausibility of the negative
    with it, (names,), NaN or None if only reading the whole negative tells. candidate: makes the candidate with an
    entry; None if the entry has no form that fits. refused: for each, why it is not drawn, (names,): "" if it is,
    UNNATURAL or COMPATIBLE if readers would say so, LIKELY_TRUE if it may be true of the image. plural: of a noun.
    judged: for each, `Candidate.p_unnatural` and `p_compatible`, (2, names), NaN or None if only reading the whole
    negative tells. compatible: other plausible entries, not drawn since they may be true of the same thing. spare: for
    each, if it is UNNATURAL, whether it may be drawn where nothing else can be, (names,) booleans, or None if not
    known.
    """

    tokens: tuple[int, ...]
    entry: str
    names: Sequence[str]
    weights: np.ndarray
    log_odds: np.ndarray | None
    candidate: Callable[[str], Candidate | None]
    refused: np.ndarray
    plural: bool = False
    judged: np.ndarray | None = None
    compatible: Sequence[str] = ()
    spare: np.ndarray | None = None


def draw(choices: Sequence[Choice], rng: Random, limit: int, *, excluded: bool = False) -> Iterator[Candidate]:
    """Candidates in random order: at most `limit` pairs of a slot and an entry, drawn by weight without replacement.

    A slot with many likely replacements is changed more often than one whose word is nearly certain, see `sample`.
    excluded: whether what is plausible, but not drawn since it may be true or readers would refuse it, is yielded too,
    as rejected candidates; what is LIKELY_TRUE without a reason, which the check of its truth gives.
    """
    for choice in choices if excluded else ():
        for name in choice.compatible:
            if candidate := choice.candidate(name):
                yield candidate._replace(rejected=COMPATIBLE)
    refused = [choice.refused for choice in choices]
    out = None if excluded else [its != "" for its in refused]
    for slot, number in sample([choice.weights for choice in choices], rng, limit, out):
        choice = choices[slot]
        candidate = choice.candidate(choice.names[number])
        if candidate is None:
            continue
        if refused[slot][number] in (UNNATURAL, COMPATIBLE) and not candidate.rejected:
            candidate = candidate._replace(rejected=str(refused[slot][number]))
        if choice.log_odds is not None and (odds := float(choice.log_odds[number])) == odds:
            candidate, edits = candidate._replace(plausibility=odds), candidate.edits
            alone = len(edits) == 1 or sum(edit.new.lower() not in ARTICLES for edit in edits) == 1
            if choice.judged is not None and alone:  # no other word is replaced than the article before it
                odd, both = choice.judged[:, number].tolist()
                candidate = candidate._replace(p_unnatural=odd, p_compatible=both) if odd == odd else candidate
        yield candidate


def draw_or_reason(
    choices: Sequence[Choice], rng: Random, limit: int, *, excluded: bool = False
) -> Iterator[Candidate]:
    """As `draw`, but if it yields nothing and words are refused, a candidate that stands for all of them, rejected for
    the reason that most have.
    """
    proposed = False
    for candidate in draw(choices, rng, limit, excluded=excluded):
        proposed = True
        yield candidate
    if proposed:
        return
    reasons = Counter(reason for choice in choices for reason in choice.refused.tolist() if reason)
    if reasons:
        yield NOTHING._replace(rejected=max(sorted(reasons), key=reasons.__getitem__))


def draw_spare(choices: Sequence[Choice], rng: Random, limit: int, *, excluded: bool = False) -> Iterator[Candidate]:
    """As `draw`, but only what is odder than preferred, `Choice.spare`: where nothing else is accepted."""
    some = ((its, its.spare) for its in choices if its.spare is not None)
    spare = [changed(its, refused=np.where(mask, "", UNNATURAL)) for its, mask in some if mask.any()]
    return draw(spare, rng, limit)


class Open(NamedTuple):
    """What may replace the words in some slots: for each replacement, the number of its slot, ascending, that of the
    entry, and log p or another score that decides its weight; all (replacements,).
    """

    slot: np.ndarray
    new: np.ndarray
    score: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, floor: float) -> Open:
        """The entries whose score is at least `floor`, and finite; scores: (slots, entries)."""
        slot, new = np.nonzero(scores >= max(floor, LOWEST))
        return cls(slot, new, scores[slot, new])

    def parts(self, slots: int) -> Iterator[slice]:
        """The replacements in each of so many slots."""
        ends = np.searchsorted(self.slot, np.arange(slots), "right").tolist()
        return (slice(start, end) for start, end in pairwise([0, *ends]))


def weigh(entries: Entries, olds: Sequence[str], open: Open, *, plural: bool = False) -> np.ndarray:
    """The weights of entries that may replace `olds`, one in each slot: (replacements,).

    weight(new) = e^score * balance(new) / balance(old). balance: the factors in `entries`, see negcap.augment.balance;
    those of plural nouns with `plural`.
    """
    ratios = entries.balance[int(plural)][open.new] / entries.factors(olds, plural=plural)[open.slot]
    return exp(open.score) * ratios


def _choices(
    batch: Batch,
    kind: Kind,
    slots: Sequence[tuple[int, Slot]],
    open: Open,
    log_odds: np.ndarray | None,
    candidates: Iterable[Callable[[str], Candidate | None]],
    same: Iterable[Sequence[int]],
    form: str = "",
    true: np.ndarray | None = None,
) -> list[Choice]:
    """The choices in some slots, each with the number of its caption.

    log_odds: of the words that may come in; None: those of the whole negatives, as far as they are estimated.
    candidates: for each slot, what makes a candidate. same: for each, the numbers of the plausible entries that may be
    true of the same thing. form: see `plausibility.entry_units`. true: which replacements may be true of the image,
    (replacements,): they are not drawn, and not judged, which is what takes time.
    """
    entries, plural = batch.lexicon.entries(kind), form == "nns"
    asked = np.ones(len(open.new), bool) if true is None else ~true
    estimates = np.full((3, len(open.new)), np.nan)
    estimates[:, asked] = batch.judged(kind, slots, open.slot[asked], open.new[asked], form)
    whole, odd, both = estimates
    weights = weigh(entries, [slot.entry for _, slot in slots], open, plural=plural) * preference(odd, both)
    refused = refusals(odd, both, batch.preferred_unnatural, batch.max_compatible)
    spare = (refused == UNNATURAL) & is_fallback(odd, both, batch.max_unnatural, batch.max_compatible)
    if true is not None:
        refused = np.where(true, LIKELY_TRUE, refused)
    for reason in (UNNATURAL, COMPATIBLE, LIKELY_TRUE):
        batch.count_excluded(kind, open.new[refused == reason], reason)
    itself = (entries.number.get(slot.entry) for _, slot in slots)
    same = [[other for other in left if other != number] for left, number in zip(same, itself, strict=True)]
    batch.count_excluded(kind, np.array([*chain.from_iterable(same)], int), COMPATIBLE)
    odds, probabilities, names = whole if log_odds is None else log_odds, np.stack([odd, both]), entries.names
    made = []
    for (_, slot), candidate, left, part in zip(slots, candidates, same, open.parts(len(slots)), strict=True):
        tokens = (slot.noun,) if kind == "noun" else (slot.start,) if kind == "verb" else (slot.start, slot.noun)
        its = [names[number] for number in open.new[part].tolist()]
        known = weights[part], odds[part], candidate, refused[part], plural, probabilities[:, part]
        made.append(Choice(tokens, slot.entry, its, *known, [names[number] for number in left], spare[part]))
    return made


@computed_together
def noun_choices(batch: Batch) -> list[list[Choice]]:
    """Replace the head of a noun phrase (VSE-C, Section 3.1): "a dog on a couch" -> "a dog on a table".

    Heads and replacements are nouns of the lexicon; no relational nouns ("a group of").
    """
    nouns, lexicon = batch.lexicon.nouns, batch.lexicon
    slots = [
        (number, slot)
        for number, caption in enumerate(batch.captions)
        for slot in known_slots(caption, nouns)
        if slot.form in nouns.priors and _excludes_others(caption, slot)
    ]
    made: dict[int, Choice] = {}
    for plural in (False, True):
        at = [i for i, (_, slot) in enumerate(slots) if slot.plural == plural]
        own, form, forms = [slots[i] for i in at], "nns" if plural else "nn", lexicon.forms(many=plural)
        some, log_odds, same = open_nouns(batch, own, plural=plural)
        true = may_be_true(batch, own, some)
        same = [[number for number in left if nouns.names[number] in forms] for left in same]
        candidates = (noun_candidates(batch.captions[number], lexicon, slot) for number, slot in own)
        made |= zip(at, _choices(batch, "noun", own, some, log_odds, candidates, same, form, true), strict=True)
    return _by_caption(batch, slots, made)


def open_nouns(
    batch: Batch, slots: Sequence[tuple[int, Slot]], *, plural: bool
) -> tuple[Open, np.ndarray, list[list[int]]]:
    """What may replace the nouns in some slots, each with the number of its caption; the log-odds of each to the noun
    there, (replacements,); and for each slot the numbers of other plausible nouns, which may name the same thing.

    plural: the number of all these nouns, whose forms the lexicon has.
    """
    nouns = batch.lexicon.nouns
    likely = batch.log_probabilities("noun", slots, "nns" if plural else "nn")
    of_old = likely[np.arange(len(slots)), [nouns.number[slot.entry] for _, slot in slots]]
    same: list[list[int]] = []
    for row, (_, slot) in zip(likely, slots, strict=True):
        row[nouns.without_form(slot.form)] = -np.inf
        same.append(take_out(row, batch.lexicon.may_corefer(slot.entry), "noun"))
    some = Open.of(likely, FLOORS["noun"])
    parts = zip(slots, some.parts(len(slots)), strict=True)
    lifts = [nouns.lift(slot.contexts[:2])[some.new[part]] for (_, slot), part in parts]
    lift = log(np.concatenate([np.zeros(0), *lifts]) + 1e-9)
    scores = (some.score + LIFT * np.minimum(lift, MAX_LIFT)).astype(likely.dtype)
    good = scores >= MIN_SCORE
    log_odds = (some.score - of_old[some.slot])[good]
    return Open(some.slot[good], some.new[good], scores[good]), log_odds, same


def may_be_true(batch: Batch, slots: Sequence[tuple[int, Slot]], open: Open) -> np.ndarray:
    """For each noun that could be put into a slot, whether it is perhaps true of the image (`Said.may_be_true`), so
    that the negative would not be false: (replacements,) booleans. open: these nouns.
    """
    true = np.zeros(len(open.new), bool)
    for (number, slot), part in zip(slots, open.parts(len(slots)), strict=True):
        true[part] = batch.said[number].may_be_true(slot.entry)[open.new[part]]
    return true


def _by_caption(batch: Batch, slots: Sequence[tuple[int, Slot]], choices: Mapping[int, Choice]) -> list[list[Choice]]:
    """The choices of each caption, in the order of its slots; choices: by the number of the slot."""
    found: list[list[Choice]] = [[] for _ in batch.captions]
    for i, (number, _) in enumerate(slots):
        found[number].append(choices[i])
    return found


def take_out(row: np.ndarray, numbers: np.ndarray, kind: Kind) -> list[int]:
    """Make the log p of entries -inf, in place; returns the numbers of those that were plausible.

    row: of all entries of a kind. numbers: of those that may be true of the same thing as the word that they would
    replace.
    """
    plausible = numbers[row[numbers] >= FLOORS[kind]].tolist()
    row[numbers] = -np.inf
    return plausible


def noun_candidates(caption: Caption, lexicon: Lexicon, slot: Slot) -> Callable[[str], Candidate]:
    """A function that makes the candidate with a noun of the lexicon in this slot, adjusting article and pronouns."""
    surfaces = lexicon.forms(many=slot.plural)
    first, root, slots, entry = caption.tokens[slot.start], slot.noun, (slot.noun,), slot.entry
    start, end, old = first.start, caption.tokens[root].end, first.text
    casing, sense = None if old.islower() else caption.casing, first_sense(entry)
    old_gender = None if slot.plural else gender(entry)

    def candidate(name: str) -> Candidate:
        surface = surfaces[name]
        edit = Edit(start, end, surface if casing is None else cased(surface, old, casing, first=slot.start == 0))
        edits = with_article(caption, slot.start, edit, surface)
        pronouns = pronoun_edits(caption, root, old=old_gender, new=name, plural=slot.plural)
        rejected = "dangling_pronoun" if pronouns is None else None
        if pronouns:
            edits = tuple(sorted([*edits, *pronouns]))
        return Candidate("noun", edits, slots, entry, name, sense, first_sense(name), rejected)

    return candidate


def known_slots(caption: Caption, nouns: Entries) -> list[Slot]:
    """The slots whose entry is in the lexicon; if there are none, those whose head alone is.

    A noun before "of" has no slot: "a bowl of soup" may be called a plate of soup as well. Readers held 9 % of 50 such
    negatives, which the judge would take, true of the same photo as their captions, of other nouns 5 %.
    """
    slots = [
        slot for slot in noun_slots(caption) if caption.word(slot.end) != "of" and not is_negated(caption, slot.noun)
    ]
    headed = (slot._replace(entry=head(slot.entry)) for slot in slots)
    known = [slot for slot in slots if slot.entry in nouns.number]
    return known or [slot for slot in headed if slot.entry in nouns.number]


def _excludes_others(caption: Caption, slot: Slot) -> bool:
    """Whether another noun in a slot would make the caption false of the photo.

    Not what is worn ("a man in a shirt" may have a hat as well), nor beside something ("by a tree" may be by a river):
    of such negatives that the judge lets through, readers said of 78 % of 30 and 72 % of 90 that one photo fits both.
    """
    noun = caption.tokens[slot.noun]
    object = caption.first_conjunct(noun)
    preposition = next((use.entry for use in preposition_uses(caption) if use.noun == object.index), "")
    worn = is_worn(slot.entry) and (preposition == "in" or noun.dep == "conj")
    return preposition not in prepositions().beside and not worn and "dobj:wear" not in slot.contexts


@computed_together
def preposition_choices(batch: Batch) -> list[list[Choice]]:
    """Replace a preposition (VSE-C, Table 8): "a cat on the table" -> "a cat under the table".

    Prepositions of several words ("in front of") are one unit; particles, agents and set phrases are not replaced.
    """
    entries = batch.lexicon.prepositions
    slots = [
        (number, slot)
        for number, caption in enumerate(batch.captions)
        for slot in preposition_slots(caption)
        if slot.entry in entries.number and caption.tokens[slot.noun].pos == "NOUN"
        if slot.entry == WITHOUT or not is_negated(caption, slot.noun)
    ]
    likely = batch.log_probabilities("preposition", slots)
    same: list[list[int]] = []
    for row, (number, slot) in zip(likely, slots, strict=True):
        caption = batch.captions[number]
        object = caption.tokens[slot.noun]
        several = object.tag == "NNS" or caption.has(slot.noun, "conj")
        place = object.lemma if object.lemma in prepositions().places else ""
        left = take_out(row, _kept_out(slot.entry, entries.names, several, place), "preposition")
        same.append([n for n in left if not prepositions().may_replace(slot.entry, entries.names[n], place)])
    candidates = (
        partial(preposition_candidate, batch.captions[number], slot.start, slot.end, slot.noun, slot.entry)
        for number, slot in slots
    )
    some = Open.of(likely, FLOORS["preposition"])
    return _by_caption(
        batch, slots, dict(enumerate(_choices(batch, "preposition", slots, some, None, candidates, same)))
    )


@cached(1 << 11)
def _kept_out(entry: str, names: tuple[str, ...], several: bool, place: str) -> np.ndarray:
    """The numbers of the prepositions that never replace `entry`: those that `Prepositions.may_replace` excludes,
    "without", and before one thing (not `several`) also "between" and "among". place: the noun, if the table has it.
    """
    never = {WITHOUT, *(() if several else ("between", "among"))}
    may_replace = prepositions().may_replace
    return read_only(np.flatnonzero([name in never or not may_replace(entry, name, place) for name in names]))


def preposition_candidate(caption: Caption, start: int, end: int, object: int, old: str, new: str) -> Candidate:
    """The candidate that puts the preposition `new` in place of `old`, at tokens `start` to `end` (exclusive); object:
    the token of its noun, or another for the check of truth (see `Candidate.slots`).
    """
    return Candidate("preposition", (replace(caption, start, end, new),), (start, object), old, new)


@computed_together
def attribute_choices(batch: Batch) -> list[list[Choice]]:
    """Replace an attribute by an incompatible one (UniVSE, supplement B.2): "a red car" -> "a blue car"."""
    slots = [
        (number, slot)
        for number, said in enumerate(batch.said)
        for slot in attribute_slots(said.caption)  # "a leather jacket" is one unit
        if not is_negated(said.caption, slot.noun) and said.reading.is_unit(slot.start)
    ]
    return _choices_of_words(
        batch,
        "attribute",
        [(number, slot, "", partial(attribute_candidate, batch.captions[number], slot)) for number, slot in slots],
    )


@computed_together
def verb_choices(batch: Batch) -> list[list[Choice]]:
    """Replace a verb by an incompatible one: "a boy throws a ball" -> "a boy kicks a ball".

    The inflection and the object or preposition stay; neither verb entails the other (WordNet's troponymy, entailment,
    cause).
    """
    made = [
        (number, slot, caption.tokens[slot.start].tag, partial(verb_candidate, caption, batch.lexicon, slot))
        for number, caption in enumerate(batch.captions)
        for slot in verb_slots(caption)
    ]
    return _choices_of_words(batch, "verb", made)


def _choices_of_words(
    batch: Batch, kind: Kind, words: Sequence[tuple[int, Slot, str, Callable[[str], Candidate | None]]]
) -> list[list[Choice]]:
    """What may replace single words of captions, by their probability there.

    words: for each, the number of its caption, the slot, the form that a replacement has, and what makes a candidate.
    """
    entries = batch.lexicon.entries(kind)
    made: dict[int, Choice] = {}
    for form in sorted({form for _, _, form, _ in words}):
        at = [i for i, word in enumerate(words) if word[2] == form]
        slots = [words[i][:2] for i in at]
        likely = batch.log_probabilities(kind, slots, form)
        own = [batch.said[number].reading.log_probability(slot.start) for number, slot in slots]
        same = [
            take_out(row, _compatible(kind, slot.entry, entries.names, slot.form), kind)
            for row, (_, slot) in zip(likely, slots, strict=True)
        ]
        if kind == "attribute":  # most others describe something else: "large" and "red"
            may_be_same = semantic_classes.may_be_same
            same = [
                [number for number in left if may_be_same(entries.names[number], slot.entry)]
                for left, (_, slot) in zip(same, slots, strict=True)
            ]
        some = Open.of(likely, FLOORS[kind])
        log_odds = some.score - np.array(own, np.float32)[some.slot]
        candidates = (words[i][3] for i in at)
        made |= zip(at, _choices(batch, kind, slots, some, log_odds, candidates, same, form), strict=True)
    return _by_caption(batch, [word[:2] for word in words], made)


@cached(8192)
def _compatible(kind: str, entry: str, names: tuple[str, ...], form: str) -> np.ndarray:
    """The entry numbers of the attributes or verbs that may be true of the same thing as `entry`; form: of its slot."""
    if kind == "attribute":
        excluded = [not semantic_classes.are_incompatible(name, entry) for name in names]
    else:
        excluded = [not verbs.are_incompatible(name, entry, form) for name in names]
    return read_only(np.flatnonzero(excluded))


def attribute_candidate(caption: Caption, slot: Slot, name: str) -> Candidate:
    """The candidate that puts the attribute `name` in a slot, with a/an adjusted."""
    edits = with_article(caption, slot.start, replace(caption, slot.start, slot.start + 1, name), name)
    return Candidate("attribute", edits, (slot.start, slot.noun), slot.entry, name)


def verb_candidate(caption: Caption, lexicon: Lexicon, slot: Slot, name: str) -> Candidate | None:
    """The candidate that puts the verb `name` in a slot; None if the corpus never has it in the form needed."""
    tag = caption.tokens[slot.start].tag
    surface = inflected(name, tag, lexicon.inflected.get(tag.lower(), {}))
    if surface is None:
        return None
    edit = replace(caption, slot.start, slot.start + 1, surface)
    senses = first_sense(slot.entry, "v"), first_sense(name, "v")
    return Candidate("verb", (edit,), (slot.start,), slot.entry, name, *senses)
