"""Where a caption speaks of one thing or one set of things twice, so that a change in one place contradicts another.

"A plane is flying. **The plane** has two propellers", "two dogs; **one** is brown, **the other** is black", "three
people: **a man, a woman and a child**".
"""

from __future__ import annotations

from typing import NamedTuple

from ..caption import Caption, Token, cached_on_caption
from .boundaries import HYPHENS, in_one_sentence
from .coreference import may_corefer
from .grammar import NUMBERS, gender_of_pronoun, is_pronoun_of, is_third_person
from .semantic_classes import ANIMAL, gender, semantic_class

NOUN_POS = ("NOUN", "PROPN")
# What begins a noun phrase that takes up a thing the caption has spoken of.
DEFINITE = frozenset("the this that these those both each either neither his her its their said".split())
# Nouns that stand behind "other" and "first" without dividing a set: "the other side", "the first time".
PLACES = frozenset(
    "side end hand direction way day time half corner edge part room place floor row story level".split()
)
# Words that stand for members of a set without naming them: "one is brown, the other is black, both look up".
MEMBERS = frozenset("one ones both each either neither former latter".split())
QUANTIFIERS = ("all", "some", "most", "half")
ORDINALS = frozenset("first second third fourth fifth sixth seventh eighth ninth tenth last".split())
# What introduces one more thing of a kind: "a kitten … another kitten", "a camel … a second camel".
FURTHER = ORDINALS - {"first", "last"} | {"another", "other", "same"}
PAIRS = frozenset("pair couple duo trio group".split())  # "the pair walks", of a man and a woman
SINGLE = frozenset("single lone sole solitary".split())  # "a single dog": there is only one
# What an apposition may follow, and begin with: "a man, maybe a farmer, drives".
APPOSING = frozenset([",", "(", *HYPHENS])
HEDGES = frozenset("maybe perhaps probably possibly likely namely mostly apparently".split())
MUTUAL = (("each", "other"), ("one", "another"))
# What animals of all kinds have, and things a side or a place; and whom or what any may belong to.
COMMON_PARTS = frozenset(
    "head face mouth nose eye ear neck back body leg foot tail side belly stomach tongue tooth front end top bottom "
    "edge corner surface center middle color colour own owner master trainer keeper baby young child mother parent "
    "mate friend family herd reflection shadow way toy food ball bed home name place path life collar leash".split()
)


@cached_on_caption
def other_mentions(caption: Caption, noun: int) -> tuple[int, ...]:
    """The other nouns of a caption that name the same thing as the noun at a token.

    The same noun counts if the later of the two is definite ("a sink … the sink"), or stands without a determiner in
    another sentence. Another noun counts if it may name the same thing, the later one is definite, and it stands in
    another sentence ("a poodle … The dog"); of animals also if the caption has not named it before ("a lion … The big
    **cat's** tail").
    """
    this = caption.tokens[noun]
    mentions = []
    for other in caption.tokens:
        if other.pos not in NOUN_POS or other.index == noun:
            continue
        # The later one of two mentions has to be definite: "a dog ... a dog" may be two dogs.
        later = this if this.index > other.index else other
        is_elsewhere = not in_one_sentence(caption, noun, other.index)
        if other.lemma == this.lemma:
            if _is_definite(caption, later) or (is_elsewhere and _is_bare(caption, later)):
                mentions.append(other.index)
        elif is_elsewhere and _heads_phrase(other) and _is_definite(caption, later):
            if may_corefer(this.lemma, other.lemma) or _is_new_animal(caption, this, other, later):
                mentions.append(other.index)
    return tuple(mentions)


def _is_new_animal(caption: Caption, one: Token, other: Token, later: Token) -> bool:
    """Whether two nouns name animals, of which the later one, which is definite, is named for the first time."""
    if semantic_class(one.lemma) != ANIMAL or semantic_class(other.lemma) != ANIMAL:
        return False
    return all(token.lemma != later.lemma for token in caption.tokens[: later.index])


def _heads_phrase(token: Token) -> bool:
    """Whether a noun is a thing of its own, and not a part of another noun's phrase, such as "dog" of "dog house".

    The owner of something is a thing of its own: "an owl … **The bird's** eyes".
    """
    return token.dep not in ("compound", "nmod", "npadvmod")


def _is_definite(caption: Caption, noun: Token) -> bool:
    """Whether a noun phrase begins with "the", "both", "his" or the like."""
    first = caption.phrase_start(noun.index)
    begins_definite = first < noun.index and caption.lowered[first] in DEFINITE
    if begins_definite or caption.has_dependent(noun.index, "poss"):
        return True
    # "The dog's side" is a phrase of the side, so that "dog" heads none.
    return noun.dep == "poss" and any(token.lower in DEFINITE for token in caption.dependents(noun.index, "det"))


def _is_bare(caption: Caption, noun: Token) -> bool:
    """Whether a noun has neither a determiner nor a number nor an owner."""
    return not caption.has_dependent(noun.index, "det", "nummod", "poss")


class Member(NamedTuple):
    """A word that stands for members of a set, such as "other" of "the other dog".

    token: its number. word: in lower case; "both" for "the two", "the couple" and the like. noun: the lemma of its noun
    ("dog"), "" if it stands alone.
    """

    token: int
    word: str
    noun: str


@cached_on_caption
def _set_members(caption: Caption) -> tuple[Member, ...]:
    """The words of a caption that stand for members of a set, in text order."""
    members = []
    for token in caption.tokens:
        index = token.index
        word = token.lower
        before = caption.word(index - 1)
        following = caption.word(index + 1)
        # "They look at each other" divides no set.
        if (word, following) in MUTUAL or (before, word) in MUTUAL:
            continue
        noun = _noun_after_determiner(caption, token)
        if word in ("other", "others") or word in ORDINALS:  # "the other dog", "a second"
            if before in ("the", "a", "an", "each", "and") and noun not in PLACES:
                members.append(Member(token=index, word=word, noun=noun))
        elif word == "rest" or word in PAIRS:  # "the rest", "the pair"; not "the pair of shoes"
            if before == "the" and (word == "rest" or following != "of"):
                members.append(Member(token=index, word="both" if word in PAIRS else word, noun=""))
        elif word in QUANTIFIERS:  # "some of them"
            if following == "of" and not noun:
                members.append(Member(token=index, word=word, noun=""))
        elif word in MEMBERS:  # "one is brown"; not "one dog"
            # "The black one" is one thing that the caption has told from others, as "the former" is.
            is_told_apart = word == "one" and caption.has_dependent(index, "amod")
            if not noun or word == "neither":
                members.append(Member(token=index, word="former" if is_told_apart else word, noun=noun))
        elif word in NUMBERS and (not noun or before == "all"):
            if before in ("the", "all"):  # "the two are smiling", "all three carry bags", even if "carry" is misread
                members.append(Member(token=index, word="both", noun=""))
            elif before in (",", "and", "but") and token.dep != "nummod":  # "six cups, three with tea, three …"
                members.append(Member(token=index, word="one", noun=""))
            elif following == "of" and caption.word(index + 2) in ("them", "whom", "which"):  # "two of them"
                members.append(Member(token=index, word="one", noun=""))
    return tuple(members)


def _noun_after_determiner(caption: Caption, token: Token) -> str:
    """The lemma of the noun that a determiner or number belongs to; "" if it stands alone."""
    # "Other" and "first" are adjectives for the parser ("amod"); the last two labels are mistakes of it.
    if token.dep not in ("det", "nummod", "amod", "predet", "poss", "compound") or token.head <= token.index:
        return ""
    head = caption.tokens[token.head]
    # "One eats, the other drinks", whose verb passes for a plural noun.
    is_verb = token.lower == "other" and head.tag == "NNS" and is_third_person(head.lower)
    return head.lemma if head.pos in NOUN_POS and not is_verb else ""


def is_divided(caption: Caption, noun: int, count: int) -> bool:
    """Whether the caption speaks of the members of a set, or lists them: "two dogs; **one** is brown, **the other** …".

    noun: the token of the thing that is counted; count: how many there are.
    """
    this = caption.tokens[noun]
    for member in _set_members(caption):
        is_behind = member.token > noun
        if member.word == "neither" and is_behind:  # of two, by whatever noun: "two sons, and neither boy smiles"
            return True
        if member.noun and not may_corefer(member.noun, this.lemma):
            continue
        if member.word == "each" and not member.noun and in_one_sentence(caption, noun, member.token):
            return True  # also if the noun stands behind "each", as it then belongs to each member
        if is_behind and (count > 1 or member.noun or member.word in ("both", "each", "former", "latter")):
            return True  # "two dogs … one is brown", "a dog … the other dog"
        if is_behind and caption.word(caption.phrase_start(noun)) == "one":  # "one dog is brown, the other black"
            return True
    return noun in listed_nouns(caption)


@cached_on_caption
def listed_nouns(caption: Caption) -> frozenset[int]:
    """The nouns of sets that a caption then lists, and those of the lists: "three people: a man, a woman and a child".

    A list stands behind a colon, or in apposition: "two men, a black man and a white man, sit".
    """
    tokens = caption.tokens
    listed = set[int]()
    for token in tokens:
        if token.pos not in NOUN_POS:
            continue
        above = tokens[token.head]
        if above.pos in NOUN_POS and (token.dep == "appos" or _is_apposed_conjunct(caption, above, token)):
            listed |= {above.index, *_conjuncts(caption, token)}
        if caption.has_dependent(token.index, "nummod"):
            members = _members_behind(caption, token)
            if members:
                listed |= {token.index, *members}
    for mark in tokens:
        if mark.text == ":" and mark.index:
            listed |= _listed_behind_colon(caption, mark.index)
    return frozenset(listed)


def _is_apposed_conjunct(caption: Caption, above: Token, conjunct: Token) -> bool:
    """Whether a conjunct by the parse really lists what the noun above it names: "two men, **a black man** and …".

    above: the noun that it is a conjunct of. Parses often err so, where no conjunction stands between the two.
    """
    if conjunct.dep != "conj" or above.dep == "conj" or not _follows_comma(caption, conjunct):
        return False
    joined = _conjuncts(caption, above)
    has_conjunction = any(caption.has_dependent(index, "cc") for index in joined)
    # Two phrases without "and" between them, or a list of what the first already names.
    return may_corefer(above.lemma, conjunct.lemma) or (len(joined) == 2 and not has_conjunction)


def _listed_behind_colon(caption: Caption, colon: int) -> set[int]:
    """The nouns on both sides of a colon, if it follows a set: "three **people**: a **man**, a **woman** and …"."""
    heads = [chunk for chunk in caption.chunks if in_one_sentence(caption, chunk.root, colon)]
    sets = [
        chunk.root
        for chunk in heads
        if chunk.end <= colon
        and (caption.has_dependent(chunk.root, "nummod") or caption.tokens[chunk.root].tag == "NNS")
    ]
    members = [chunk.root for chunk in heads if chunk.start > colon]
    return {*sets, *members} if sets and members else set[int]()


def _members_behind(caption: Caption, counted: Token) -> set[int]:
    """The tokens of the nouns by which a sentence lists a counted set after a comma.

    "five people in a room, three **men** and two **women**". The parse is not asked: a noun counts if it has a
    determiner or number, is not definite, and may name members of the set.
    """
    members = set[int]()
    has_comma = False
    for token in caption.tokens[counted.index + 1 :]:
        if not in_one_sentence(caption, counted.index, token.index):
            break
        has_comma = has_comma or token.text in APPOSING  # a comma, bracket or dash
        is_other_noun = token.pos in NOUN_POS and token.lemma != counted.lemma
        is_determined = caption.has_dependent(token.index, "nummod", "det")
        is_indefinite = is_other_noun and is_determined and not _is_definite(caption, token)
        if has_comma and is_indefinite and may_corefer(counted.lemma, token.lemma):
            members.add(token.index)
    return members


def _follows_comma(caption: Caption, conjunct: Token) -> bool:
    """Whether a comma or a dash precedes the phrase of a conjunct, and no conjunction: "two men, a black man and …"."""
    start = caption.phrase_start(conjunct.index)
    if caption.word(start - 1) in HEDGES:  # "a man, maybe a farmer"
        start -= 1
    return caption.word(start - 1) in APPOSING


def _conjuncts(caption: Caption, token: Token) -> list[int]:
    """A token and its conjuncts."""
    joined = [token.index]
    for index in joined:  # it grows while it is read: a conjunct may have conjuncts
        joined += [conjunct.index for conjunct in caption.dependents(index, "conj") if conjunct.index not in joined]
    return joined


def has_further(caption: Caption, noun: int) -> bool:
    """Whether a caption speaks of one more thing of the same name: "a **kitten** licks its paw, another **kitten** …".

    If one of them changed, "another" would be left without the other. noun: the token of either.
    """
    lemma = caption.tokens[noun].lemma
    same = [token.index for token in caption.tokens if token.lemma == lemma and token.pos in NOUN_POS]
    further = [any(word.lower in FURTHER for word in caption.dependents(index, "det", "amod")) for index in same]
    return len(same) > 1 and any(further)


@cached_on_caption
def is_taken_up(caption: Caption, noun: int) -> bool:
    """Whether the caption goes on to speak of a thing without naming it: "a **piano** … its lid", "the former".

    What it says there fits things of this sort: "a horse … its lid" would not. noun: the token of the thing.
    """
    for member in _set_members(caption):
        if member.token > noun and not member.noun and member.word in (*MEMBERS, "rest"):
            return True
    return any(pronoun.index > noun and is_pronoun_of(caption, noun, pronoun) for pronoun in caption.pronouns)


def has_part_of_its_own(caption: Caption, noun: int) -> bool:
    """Whether a caption gives a thing or an animal what not all of its sort have: "a **deer** … its antlers".

    noun: the token of the thing. What all have is in `COMMON_PARTS`: "a dog with its tongue out".
    """
    for pronoun in caption.pronouns:
        if pronoun.dep != "poss" or pronoun.index < noun or caption.tokens[pronoun.head].lemma in COMMON_PARTS:
            continue
        if is_pronoun_of(caption, noun, pronoun):
            return True
        # "The tower is tall. A flag hangs from a pole on **its** roof": the subject of a sentence before may be meant.
        is_subject = caption.tokens[noun].dep in ("nsubj", "nsubjpass", "ROOT")
        if is_subject and pronoun.lower == "its" and not in_one_sentence(caption, noun, pronoun.index):
            return True
    return False


def speaks_of_one_of(caption: Caption, noun: int, sex: str) -> bool:
    """Whether a caption goes on with "he" or "she" of one of several persons: "three **women** … at **her** phone".

    noun: the token of the persons, a plural; sex: theirs, male or female. False if a singular noun of this sex stands
    before the pronoun, which may mean that person.
    """
    for pronoun in caption.pronouns:
        if pronoun.index > noun and gender_of_pronoun(pronoun.lower) == sex:
            before = caption.tokens[: pronoun.index]
            return not any(token.tag == "NN" and gender(token.lemma) == sex for token in before)
    return False


def is_single(caption: Caption, noun: int) -> bool:
    """Whether a noun says where a single thing is: "a **single** flower in a **vase**". Then it must not become plural:
    a single thing is in one place.
    """
    token = caption.tokens[noun]
    return token.dep == "pobj" and not SINGLE.isdisjoint(caption.lowered[: token.index])
