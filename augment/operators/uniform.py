"""The negatives of VSE-C and UniVSE as their papers make them: drawn uniformly, and not checked to be false or fluent.

For tables that are to be compared with the papers' (Shi et al. 2018, section 3.1 and Table 8; Wu et al. 2019, Table 2
and supplement B.2). UniVSE's are false only in that no caption of the image says so. Many of these negatives can be
told without the image, and some are true of it; the operators without `uniform_` make better ones.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise, permutations
from random import Random
from typing import NamedTuple

import numpy as np

from ..candidates import Batch
from ..caption import Caption, Chunk, Token, cached
from ..edits import Edit, cased, cased_like, replace_tokens
from ..evidence import Evidence
from ..language.boundaries import begins_sentence
from ..language.grammar import indefinite_article, with_article
from ..language.semantic_classes import attribute_table, preposition_table
from ..language.wordnet import WordNet, first_sense
from ..lexicon.entries import Entries
from ..lexicon.lexicon import Lexicon
from ..mentions import chunk_heads
from ..reproducible import record_rng
from ..rows import BOTH, Row
from ..sampling import exponentials, name_keys
from ..scene_graph import scene_graph
from ..slots.nouns import Slot, attribute_slots, noun_slots, numeral_slots, numeral_value
from ..slots.verbs import preposition_units, preposition_uses, verb_slots
from .attribute import replace_attribute
from .operator import ListingOperator
from .preposition import replace_preposition
from .verb import replace_verb

ENUMERATED = 6  # of up to so many noun phrases, all permutations are listed
JOINING = {",", "and", "or", "with"}  # noun phrases with nothing else between them are interchangeable
REPLACE, APPEND = range(2)  # the two ways to use a place of a caption, see `Option`
MOST_ROWS = 1000  # rows of one caption that are drawn with repetition


class Option(NamedTuple):
    """A place of a caption, and the words that may be put there, each equally likely.

    position: the first token of the place.
    names: these words, entries of the lexicon.
    row: makes the row of one of the names.
    way: whether they replace the word (REPLACE) or follow it (APPEND).
    """

    position: int
    names: tuple[str, ...]
    row: Callable[[str], Row]
    way: int = REPLACE


class UniformOperator(ListingOperator):
    """An operator that chooses among pairs of a place and a replacement, all equally likely."""

    @abstractmethod
    def options(self, evidence: Evidence, lexicon: Lexicon) -> list[Option]:
        """The places of a caption where a word may be replaced or one may be added, with the words of the lexicon.

        A place may have two options: one to replace a noun, one to add another behind it. The evidence has the caption
        and what the other captions of its image mention.
        """

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> Iterator[Row]:
        """Make the rows of all pairs of a place and a replacement, in random order, each pair once.

        Each pair gets a random number, and the pairs are sorted by these numbers. A number depends only on the seed,
        the operator, the caption, the place and the replacement, and not on which other pairs there are. It comes from
        the exponential distribution, as in sampling by weight; for equal weights any distribution would do.
        """
        options = self.options(evidence, batch.lexicon)
        keys_of_options = [np.zeros(0)]  # so that there is an array to join if there are no options
        for option in options:
            # What is appended at a place has other random numbers than what replaces the word there.
            stream = self.name if option.way == REPLACE else f"{self.name} {option.way}"
            size = len(option.names)
            ids = [evidence.caption.caption_id] * size
            positions = np.full(size, option.position)
            keys_of_options.append(exponentials(seed, stream, ids, positions, name_keys(option.names)))
        # The pairs are numbered one option after the other; those of option i begin with number starts[i].
        starts = np.cumsum([0, *(len(option.names) for option in options)])
        keys = np.concatenate(keys_of_options)  # (pairs,)
        for pair in np.argsort(keys, kind="stable").tolist():
            option_number = int(np.searchsorted(starts, pair, "right")) - 1
            option = options[option_number]
            yield option.row(option.names[pair - int(starts[option_number])])


class UniformNoun(UniformOperator):
    """Replace the head of a noun phrase by any noun neither above nor below it in WordNet: "a dog" -> "a bench".

    Heads and replacements are single words of the lexicon: frequent and concrete.
    """

    def options(self, evidence: Evidence, lexicon: Lexicon) -> list[Option]:
        """One option for each head of a noun phrase that is in the lexicon: the nouns that are not related to it."""
        caption = evidence.caption
        nouns = lexicon.nouns
        return [
            Option(
                position=root.index, names=_unrelated(root.lemma, nouns), row=partial(_noun_row, caption, lexicon, root)
            )
            for root in chunk_heads(caption)
            if root.lemma in nouns.number
        ]


def _noun_row(caption: Caption, lexicon: Lexicon, token: Token, name: str) -> Row:
    """The row that puts a noun of the lexicon in place of a token, in its number, with a/an adjusted."""
    surface = lexicon.in_number(name, many=token.tag == "NNS")
    edits = with_article(caption, token.index, replace_tokens(caption, token.index, token.index + 1, surface), surface)
    return Row(
        change="noun",
        edits=edits,
        tokens=(token.index,),
        replaced=token.lemma,
        replacement=name,
        replaced_synset=first_sense(token.lemma),
        replacement_synset=first_sense(name),
    )


@cached(4096)
def _unrelated(noun: str, nouns: Entries) -> tuple[str, ...]:
    """The single-word nouns that are neither above nor below a noun in WordNet: "bench" for "dog", not "animal"."""
    related = WordNet.load().related
    return tuple(name for name in nouns.names if name != noun and " " not in name and not related(noun, name))


class UniformNumeral(UniformOperator):
    """Replace a numeral by any other of the lexicon; only the counted noun agrees: "a dog" -> "four dogs"."""

    def options(self, evidence: Evidence, lexicon: Lexicon) -> list[Option]:
        """One option for each numeral that counts something: the lexicon's other numbers."""
        caption = evidence.caption
        name_of_value = _numerals_by_value(lexicon.entries("numeral"))
        return [
            Option(
                position=slot.start,
                names=tuple(name for value, name in name_of_value.items() if value != slot.value),
                row=partial(_numeral_row, caption, lexicon, slot),
            )
            for slot in numeral_slots(caption)
        ]


def _numeral_row(caption: Caption, lexicon: Lexicon, slot: Slot, numeral: str) -> Row:
    """The row with another numeral; the noun becomes plural or singular if it must.

    slot: that of the old numeral. numeral: the new one, an entry of the lexicon.
    """
    noun = caption.tokens[slot.noun]
    many = numeral_value(numeral) > 1
    new_noun = noun.text
    if many != (slot.value > 1):
        new_noun = cased_like(lexicon.in_number(noun.lemma, many=many), noun.text, caption.casing)
    following = new_noun if slot.start + 1 == slot.noun else caption.tokens[slot.start + 1].text
    written = indefinite_article(following) if numeral == "a" else numeral  # "a" or "an"
    edits = [replace_tokens(caption, slot.start, slot.start + 1, written)]
    if new_noun != noun.text:
        edits.append(Edit(noun.start, noun.end, new_noun))
    # For a numeral, `tokens` has the noun that it counts.
    return Row(change="numeral", edits=tuple(edits), tokens=(slot.noun,), replaced=slot.entry, replacement=numeral)


@cached(8)
def _numerals_by_value(numerals: Entries) -> dict[int, str]:
    """The most frequent numeral of each value: {1: "a", 2: "two", …}, of "two" and "2" the one that is used more."""
    by_value: dict[int, str] = {}
    for number in (-numerals.counts).argsort(kind="stable").tolist():  # the most frequent first
        name = numerals.names[number]
        by_value.setdefault(numeral_value(name), name)
    return by_value


class UniformPreposition(UniformOperator):
    """Replace a preposition by any frequent one that shares no set of Table 8 with it: "on a table" -> "with a table".

    Frequent ones are at least as frequent as the rarest noun of the lexicon. Several words ("in front of") are one
    preposition, which is in the sets of all its words: "next to" is never replaced by "near".
    """

    def options(self, evidence: Evidence, lexicon: Lexicon) -> list[Option]:
        """One option for each preposition: the frequent ones that share no set of Table 8 with it."""
        caption = evidence.caption
        table = preposition_table()
        names = _frequent_prepositions(lexicon)
        options = []
        for start, end in preposition_units(caption):
            written = " ".join(caption.lowered[start:end])
            old = table.same.get(written, written)  # the entry of another spelling
            sets = _sets_of_words(old)
            others = tuple(name for name in names if name != old and sets.isdisjoint(_sets_of_words(name)))
            slot = Slot(kind="preposition", start=start, end=end, entry=old, noun=end - 1)
            options.append(Option(position=start, names=others, row=partial(replace_preposition, caption, slot)))
        return options


def _sets_of_words(preposition: str) -> set[int]:
    """The numbers of the sets of VSE-C's Table 8 that have any word of a preposition, for "next to" also "to"."""
    return {number for word in preposition.split() for number in preposition_table().sets.get(word, ())}


@cached(8)
def _frequent_prepositions(lexicon: Lexicon) -> tuple[str, ...]:
    """The prepositions of the lexicon that were counted at least as often as its rarest noun."""
    entries = lexicon.entries("preposition")
    least = lexicon.nouns.counts.min(initial=math.inf)
    return tuple(name for name, count in zip(entries.names, entries.counts, strict=True) if count >= least)


class UniformShuffle(ListingOperator):
    """Permute the noun phrases: "a boy throws a ball to a dog" -> "a ball throws a dog to a boy".

    As in VSE-C's released code, a phrase never moves to where an interchangeable one stood, which a comma, "and", "or"
    or "with" joins it to ("three boys and a girl").
    """

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> Iterator[Row]:
        """Permute the noun phrases of a caption in each allowed way, in random order.

        A phrase is moved only to where a phrase of another group stood. If there are more than ENUMERATED phrases, only
        some random permutations are tried.
        """
        caption = evidence.caption
        tokens = caption.tokens
        chunks = [chunk for chunk in caption.chunks if tokens[chunk.root].pos in ("NOUN", "PROPN")]
        # Neighbours that only JOINING words separate are of one group; elsewhere the number of the group goes up.
        between = [set(caption.lowered[left.end : right.start]) for left, right in pairwise(chunks)]
        begins_group = [not (words and words <= JOINING) for words in between]
        groups = list(accumulate(begins_group, initial=0))
        rng = record_rng(seed, self.name, caption.caption_id)
        for order in _permutations_across_groups(groups, rng):
            yield _permuted_row(caption, chunks, order)


def _permuted_row(caption: Caption, chunks: Sequence[Chunk], order: Sequence[int]) -> Row:
    """The row that moves noun phrases: phrase number `order[n]` takes the place of phrase number n.

    chunks: the noun phrases, in text order. order: e.g. (1, 0, 2), where the first two change places.
    """
    tokens = caption.tokens
    moves = [(chunks[n], chunks[source]) for n, source in enumerate(order) if n != source]
    edits = []
    for target, source in moves:
        text = caption.span(source.start, source.end)
        if begins_sentence(caption, source.start) and tokens[source.start].pos != "PROPN":
            text = text[:1].lower() + text[1:]
        if begins_sentence(caption, target.start):
            text = cased(text, caption.span(target.start, target.end), first=True)
        edits.append(Edit(tokens[target.start].start, tokens[target.end - 1].end, text))
    old = [tokens[target.root].lemma for target, _ in moves]
    new = [tokens[source.root].lemma for _, source in moves]
    return Row(
        change="swap",
        edits=tuple(edits),
        tokens=tuple(target.root for target, _ in moves),
        replaced=BOTH.join(old),
        replacement=BOTH.join(new),
    )


def _permutations_across_groups(groups: Sequence[int], rng: Random) -> list[tuple[int, ...]]:
    """The orders into which noun phrases may be put: each stays, or goes where one of another group stood.

    Of "[three boys] and [a girl] with [a dog]", where the first two are one group, the groups are [0, 0, 1] and the
    orders (2, 1, 0) and (0, 2, 1): not (1, 0, 2), which exchanges boys and girl.

    groups: the number of each phrase's group, (phrases,). The orders, as for `_permuted_row`, come in random order,
    without the one in which all stay.
    """
    identity = tuple(range(len(groups)))
    orders: Iterable[tuple[int, ...]] = permutations(identity)
    if len(groups) > ENUMERATED:
        # There are too many to list: they are looked for among as many random ones as ENUMERATED phrases have.
        orders = (tuple(rng.sample(identity, len(identity))) for _ in range(math.factorial(ENUMERATED)))

    def changes_groups(order: tuple[int, ...]) -> bool:
        """Whether each phrase stays in an order, or goes where one of another group stood."""
        return all(place == phrase or groups[place] != groups[phrase] for place, phrase in enumerate(order))

    allowed = [order for order in dict.fromkeys(orders) if order != identity and changes_groups(order)]
    return rng.sample(allowed, len(allowed))


class UniformAttribute(UniformOperator):
    """Replace an attribute by any of the paper's 37; if there is none, add one to a noun.

    "a red car" -> "a snowy car"; "a car" -> "a snowy car". Attributes that a caption of the image mentions, and others
    of their groups, are never inserted.
    """

    def options(self, evidence: Evidence, lexicon: Lexicon) -> list[Option]:
        """One option for each attribute, to replace it; if there are none, one for each noun, to give it one."""
        caption = evidence.caption
        table = attribute_table()
        slots = attribute_slots(caption)
        mentions = evidence.caption_mentions["attribute"] | evidence.sibling_mentions["attribute"]
        mentioned = {word for _, word in mentions} | {slot.entry for slot in slots}
        # `univse_groups` has the pairs of attributes that are in one group.
        excluded = mentioned | {name for name, other in table.univse_groups if other in mentioned}
        names = tuple(name for name in table.univse if name not in excluded)
        options = [
            Option(position=slot.start, names=names, row=partial(replace_attribute, caption, slot)) for slot in slots
        ]
        if not slots:
            nouns = noun_slots(caption)
            options = [
                Option(position=slot.start, names=names, row=partial(_added_attribute_row, caption, slot))
                for slot in nouns
            ]
        return options


def _added_attribute_row(caption: Caption, noun: Slot, name: str) -> Row:
    """The row with an attribute before a noun; noun: its slot. name: the attribute, an entry of the lexicon."""
    edits = with_article(caption, noun.start, _insert_before(caption, noun.start, name), name)
    return Row(change="attribute", edits=edits, tokens=(noun.noun, noun.noun), replaced="", replacement=name)


def _insert_before(caption: Caption, start: int, words: str) -> Edit:
    """The edit that puts words before the token `start`; at the beginning of the caption they get its capital.

    "red" before token 1 of "A car" -> "A red car"; "snowy" before token 0 of "Cars" -> "Snowy cars".
    """
    first = caption.tokens[start]
    if start:
        return Edit(first.start, first.start, f"{words} ")
    return Edit(first.start, first.end, f"{cased(words, first.text, caption.casing, first=True)} {first.lower}")


class UniformObject(UniformOperator):
    """Replace a noun by any noun that no caption of the image mentions, or append one, with equal chance.

    "a dog on a couch" -> "a dog on a wave" or "a dog and a wave on a couch".
    """

    def options(self, evidence: Evidence, lexicon: Lexicon) -> list[Option]:
        """Two options for each noun: to replace it by a noun that no caption mentions, or to add one behind "and"."""
        caption = evidence.caption
        names = _unmentioned_nouns(evidence, lexicon)
        options = []
        for slot in noun_slots(caption):
            noun = caption.tokens[slot.noun]
            options.append(Option(position=noun.index, names=names, row=partial(_noun_row, caption, lexicon, noun)))
            options.append(
                Option(
                    position=noun.index,
                    names=names,
                    row=partial(_row_with_noun_behind, caption, lexicon, noun, "and"),
                    way=APPEND,
                )
            )
        return options


class UniformRelation(ListingOperator):
    """Replace the subject, the relation word or the object of a triple by any other of the lexicon, equally often.

    "a dog chases a cat" -> "a wave chases a cat", "a dog wears a cat" or "a dog chases a wave". In a caption without
    relations one is added, with the new noun as its object or subject: "a dog" -> "a dog on a wave", "a wave on a dog".
    """

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> Iterator[Row]:
        """Draw up to MOST_ROWS rows at random: first what is replaced (a noun, a preposition, a verb), then where, then
        the new word.

        In a caption without relations a noun gets one: "a dog" -> "a dog on a wave" or "a wave on a dog". A row may
        come more than once: the caller drops repeated texts.
        """
        caption = evidence.caption
        lexicon = batch.lexicon
        relations = scene_graph(caption).relations
        # What can be replaced: subjects and objects that are common nouns, and the words of the relations.
        ends = [caption.tokens[index] for relation in relations for index in (relation.subject, relation.object)]
        ends = [end for end in ends if end.tag in ("NN", "NNS")]
        relation_words = {index for relation in relations for index in relation.tokens}
        uses = [use for use in preposition_uses(caption) if use.start in relation_words]
        verbs = [slot for slot in verb_slots(caption) if slot.start in relation_words]
        # Where there is no relation, one can be added to any noun.
        nouns = [] if relations else [caption.tokens[slot.noun] for slot in noun_slots(caption)]

        # What can be put there: words of the lexicon that no caption of the image mentions.
        used = evidence.caption_mentions["preposition"] | evidence.sibling_mentions["preposition"]
        used_prepositions = {preposition for _, preposition in used}  # of (object, preposition) pairs
        used_verbs = evidence.caption_mentions["verb"] | evidence.sibling_mentions["verb"]
        new_nouns = _unmentioned_nouns(evidence, lexicon)
        new_prepositions = [name for name in _frequent_prepositions(lexicon) if name not in used_prepositions]
        new_verbs = [name for name in lexicon.entries("verb").names if name not in used_verbs]

        def preposition_row(use: Slot, name: str) -> Row:
            """The row with another preposition; its `tokens` are the ends of the old one, as `UniformPreposition`."""
            return replace_preposition(caption, use._replace(noun=use.end - 1), name)

        def verb_row(slot: Slot, name: str) -> Row | None:
            """The row with another verb; None if the corpus never has it in the form needed."""
            return replace_verb(caption, slot, name, lexicon)

        # Subject and object together weigh twice as much as the relation word, which is a preposition or a verb.
        parts = [
            RelationPart(weight=4, choices=(ends, new_nouns), row=partial(_noun_row, caption, lexicon)),
            RelationPart(weight=1 if verbs else 2, choices=(uses, new_prepositions), row=preposition_row),
            RelationPart(weight=1 if uses else 2, choices=(verbs, new_verbs), row=verb_row),
            RelationPart(
                weight=1,
                choices=(nouns, new_prepositions, new_nouns),
                row=partial(_row_with_noun_behind, caption, lexicon),
            ),
            RelationPart(
                weight=1,
                choices=(nouns, new_prepositions, new_nouns),
                row=partial(_row_with_noun_before, caption, lexicon),
            ),
        ]
        present = [part for part in parts if part.choices[0]]  # those for which the caption has a place
        weights = [part.weight for part in present]
        rng = record_rng(seed, self.name, caption.caption_id)
        for _ in range(MOST_ROWS if present else 0):
            (part,) = rng.choices(present, weights)
            if not all(part.choices):  # the lexicon has nothing new for this part
                continue
            row = part.row(*map(rng.choice, part.choices))  # such as a noun of the caption, and a new noun
            if row is not None:
                yield row


class RelationPart(NamedTuple):
    """A part of a caption's relations that `UniformRelation` changes: nouns, prepositions or verbs.

    weight: how often it is changed, relative to the other parts. choices: one element of each is drawn at random: of
    the first a place of the caption, of the others the words put there. row: makes the row of what was drawn; None if a
    word lacks the form that is needed.
    """

    weight: int
    choices: tuple[Sequence[object], ...]
    row: Callable[..., Row | None]


def _unmentioned_nouns(evidence: Evidence, lexicon: Lexicon) -> tuple[str, ...]:
    """The single-word nouns of the lexicon that no caption of the image mentions."""
    mentioned = evidence.caption_mentions["noun"] | evidence.sibling_mentions["noun"]
    return tuple(name for name in lexicon.nouns.names if " " not in name and name not in mentioned)


def _row_with_noun_behind(caption: Caption, lexicon: Lexicon, noun: Token, word: str, name: str) -> Row:
    """The row with "and a NAME" or "on a NAME" behind a noun; in the plural after a plural.

    noun: the token of the caption's noun. word: "and" or a preposition. name: the new noun, an entry of the lexicon.
    """
    return _added_noun_row(noun, name, Edit(noun.end, noun.end, f" {word} {_noun_with_article(lexicon, noun, name)}"))


def _row_with_noun_before(caption: Caption, lexicon: Lexicon, noun: Token, preposition: str, name: str) -> Row:
    """The row that puts a new noun and a preposition before a noun phrase: "a hat on | a dog", "hats on | dogs".

    noun: the token of the caption's noun. name: the new noun, an entry of the lexicon.
    """
    start = next((chunk.start for chunk in caption.chunks if chunk.start <= noun.index < chunk.end), noun.index)
    words = f"{_noun_with_article(lexicon, noun, name)} {preposition}"
    return _added_noun_row(noun, name, _insert_before(caption, start, words))


def _added_noun_row(noun: Token, name: str, edit: Edit) -> Row:
    """The row that adds a noun beside another one. name: the new noun, an entry of the lexicon."""
    return Row(
        change="noun",
        edits=(edit,),
        tokens=(noun.index,),
        replaced="",
        replacement=name,
        replaced_synset=None,
        replacement_synset=first_sense(name),
    )


def _noun_with_article(lexicon: Lexicon, noun: Token, name: str) -> str:
    """A noun of the lexicon as it is put beside another one: "a wave" beside "dog", "waves" beside "dogs"."""
    many = noun.tag == "NNS"
    surface = lexicon.in_number(name, many=many)
    return surface if many else f"{indefinite_article(surface)} {surface}"
