"""What a caption denies or leaves open, and which of its numbers are bounds: what operators and scene graphs ask.

"No one is sitting on the bench" and "no one is sitting on the couch" may both be true of a photo, as may "at most four
dogs" and "at most four cats", "there may be a dog" and "there may be a cat". So nothing in the scope of a negation or
of a doubt is replaced, and what a negation says is not there is no part of a scene graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..caption import Caption, Token, cached_on_caption
from .boundaries import HYPHENS, in_one_sentence
from .grammar import NUMBERS

# Words that deny what they belong to. "Hardly anyone" is as good as no one; "few" denies without "a" before it.
NEARLY = frozenset("hardly barely scarcely rarely seldom".split())
NEGATIONS = NEARLY.union(
    "no not n't never without neither nor none nobody nothing nowhere cannot lack lacks lacked lacking devoid".split()
)
FEW = "few"
# Words that deny only what depends on them: "without a hat", "devoid of people", "an apple instead of a pear".
OF_PHRASE = ("without", "devoid", "except", "instead")
# Before "no" in a name: "a no parking sign", "the no smoking area".
DETERMINERS = ("a", "an", "the", "this", "that", "each", "every")
# What signs forbid: "no parking" is mostly the name of a sign, "no painting", "no railing" deny a thing.
FORBIDDEN = frozenset(
    "parking smoking swimming skiing turning trespassing littering loitering peddling stopping entering fishing diving "
    "skating skateboarding biking cycling camping walking feeding passing crossing waiting".split()
)
INDEFINITE = ("a", "an", "any", "some", "no", "neither", "another", "single", "one")
# What a definite noun phrase begins with; it names a thing that is there even if the clause is denied.
DEFINITE = ("the", "this", "that", "these", "those")
# Grammatical roles of a noun by which a denial of it denies the whole clause: "no one sits on the bench".
SUBJECTS = ("nsubj", "nsubjpass", "expl", "csubj")
OF_CLAUSE = (*SUBJECTS, "dobj", "attr", "dative")
# What introduces a clause that stands on its own beside a denied one: "nobody sits on the bench while a dog runs".
BESIDE = ("while", "as", "although", "though", "but", "because", "whereas")
# They leave open whether what they belong to is so: "there may be a dog", "probably a dog", "dogs often sit there".
DOUBTING_VERBS = frozenset("may might could would".split())
DOUBTING_ADVERBS = frozenset(
    "perhaps maybe possibly probably presumably supposedly conceivably potentially likely "
    "often usually sometimes occasionally typically generally normally".split()
)
DOUBTING_CONJUNCTIONS = ("whether", "if", "unless")
HABITS = frozenset("like love hate prefer tend".split())  # "cats love to sleep in boxes", which is said of all cats
# What these verbs are about is not shown, or not shown yet: "a boy wants to ride a horse".
UNREAL = HABITS | frozenset(
    "want wish hope refuse avoid dream imagine plan intend say tell think believe claim".split()
)
# Before "of the …" they leave open what the others do: "one of the boys wears a red hat".
PARTS_OF_GROUP = frozenset(
    "half third thirds quarter quarters fifth fifths percent % fraction portion part majority minority bulk "
    "handful couple number dozens many several some most few any either".split()
)
# Of them, those that need no "the" behind "of": "the majority of people", "twenty percent of cars".
SHARES = frozenset("third thirds quarter quarters fifth fifths percent % fraction majority minority bulk".split())
# As a subject they stand for some of a group: "some sit on benches, others on the grass".
SOME_OF_GROUP = frozenset("some others many several most few".split())
# After "every", they say that the others are passed over: "every second car is red".
EVERY_NTH = frozenset("other second third fourth fifth tenth".split())
# What holds for all things of a kind may hold for all of another: "all the men wear hats", "everything on the shelf".
UNIVERSAL = ("all", "every", "each", "any")
UNIVERSAL_PRONOUNS = frozenset("everyone everybody everything anyone anybody anything".split())
OF_GROUP = ("the", "these", "those", "his", "her", "its", "their")
INEXACT = frozenset("about around nearly almost roughly approximately under over below above".split())
# Before a number, they say which of more things: "the first two runners", "the last three".
OF_ORDER = ("first", "last", "next", "other", "remaining")
# Words before a number that make it a bound, and the counts that they leave open: those from the number on with an
# offset, or those up to it.
BOUNDS: dict[tuple[str, ...], tuple[str, int]] = {
    ("at", "least"): ("from", 0),
    ("no", "fewer", "than"): ("from", 0),
    ("no", "less", "than"): ("from", 0),
    ("not", "fewer", "than"): ("from", 0),
    ("not", "less", "than"): ("from", 0),
    ("more", "than"): ("from", 1),
    ("greater", "than"): ("from", 1),
    ("at", "most"): ("to", 0),
    ("up", "to"): ("to", 0),
    ("no", "more", "than"): ("to", 0),
    ("not", "more", "than"): ("to", 0),
    ("fewer", "than"): ("to", -1),
    ("less", "than"): ("to", -1),
}
LONGEST_BOUND = 3
# Between two numbers that are one expression: "two or three dogs", "three to four", "2 - 3", "one out of three".
BETWEEN_NUMBERS = ("or", "to", "of", "/", ":", "x", "by", *HYPHENS)
QUOTES = frozenset("\"“”„«»''``")


class Denial(NamedTuple):
    """What one word denies or leaves open, as token indices.

    word: the word, or the number that is an upper bound.
    scope: where a replacement may be true.
    denied: what is said not to be so; the subject of a denied verb is none of it ("**a man** is not wearing a hat").
    """

    word: int
    scope: frozenset[int]
    denied: frozenset[int]


class Bound(NamedTuple):
    """A number that bounds a count: tokens `start` to the number; the counts `lowest` to `highest` may be true."""

    start: int
    lowest: int
    highest: int


@cached_on_caption
def denials(caption: Caption) -> tuple[Denial, ...]:
    """The denials and doubts of a caption, in text order.

    A denied verb denies its clause, as does a denied subject or object: all of "nobody wears a red hat", "there are no
    cars on the street". A noun denied in a prepositional phrase denies this phrase: "with no hat" of "a man with no hat
    sits on a bench", "without a table and chairs". An upper bound ("at most two dogs") denies as "few" does, since it
    is also true if there are none.
    """
    of_caption = []
    for token in caption.tokens:
        if _is_negation(caption, token):
            of_caption.append(_denial_by(caption, token))
        elif _is_few_or_bound(caption, token):
            # Nothing is said not to be there; but what has few dogs may have few cats, too, and at least two dogs may
            # run where at least two sit: so nothing is replaced.
            of_caption.append(_denial_by(caption, token)._replace(denied=frozenset()))
        elif open_tokens := _left_open_by(caption, token):
            of_caption.append(Denial(token.index, scope=open_tokens, denied=frozenset()))
    return tuple(of_caption)


@cached_on_caption
def unsettled_tokens(caption: Caption) -> frozenset[int]:
    """The indices of the tokens in the scope of a negation or a doubt, in which nothing is replaced."""
    return frozenset[int]().union(*(denial.scope for denial in denials(caption)))


def is_unsettled(caption: Caption, token: int) -> bool:
    """Whether the token with this index is in the scope of a negation."""
    return token in unsettled_tokens(caption)


@cached_on_caption
def denied_tokens(caption: Caption) -> frozenset[int]:
    """The indices of the tokens that a caption says are not so: its scene graph has no relation by one of these."""
    return frozenset[int]().union(*(denial.denied for denial in denials(caption)))


def is_denied_noun(caption: Caption, noun: int) -> bool:
    """Whether a caption says that there is no thing that this noun names, or does not say that there is one.

    "No **dogs**", "without a **collar**", "nobody wears a **hat**"; but "nobody wears **the hat**" has a hat.
    """
    if noun not in denied_tokens(caption):
        return False
    first = caption.phrase_start(noun)
    phrase = caption.lowered[first : noun + 1]
    is_definite = phrase[0] in DEFINITE or caption.has_dependent(noun, "poss") or caption.tokens[noun].pos == "PROPN"
    return not is_definite or not NEGATIONS.isdisjoint(phrase)


@cached_on_caption
def _bounds_by_token(caption: Caption) -> dict[int, Bound]:
    """The numbers of a caption that are bounds: {token of the number: bound}."""
    bounds = {}
    for token in caption.tokens:
        value = number_of(token.lower)
        if value is None:
            continue
        # The longest wording first: "no more than five" is an upper bound, and its end "more than five" a lower one.
        for length in range(LONGEST_BOUND, 1, -1):
            start = token.index - length
            rule = BOUNDS.get(tuple(caption.lowered[start : token.index])) if start >= 0 else None
            if rule is not None:
                direction, offset = rule
                if direction == "from":
                    bounds[token.index] = Bound(start, lowest=value + offset, highest=1 << 30)  # without an upper end
                else:
                    bounds[token.index] = Bound(start, lowest=0, highest=value + offset)
                break
    return bounds


def bound_of(caption: Caption, number: int) -> Bound | None:
    """The bound that the number at this token sets: "at least four", "fewer than ten"; None: it sets none."""
    return _bounds_by_token(caption).get(number)


def leaves_count_open(caption: Caption, number: int) -> bool:
    """Whether the number at this token leaves open how many there are: "about four", "two or three", "the first two".

    Not "at least four", which excludes some counts: see `bound_of`.
    """
    before = caption.word(number - 1)
    two_before = caption.word(number - 2)
    if before in INEXACT or before in OF_ORDER or (before == "than" and two_before in ("rather", "other")):
        return True
    if before == "and" and caption.word(number - 3) == "between":
        return True
    following = caption.word(number + 1)
    if following in ("or", "to", "plus", "+", *HYPHENS) or (before == "between" and following == "and"):
        return True
    if before == "the" and two_before == "of":
        part = caption.tokens[number - 3] if number > 2 else None
        if part is not None and (number_of(part.lower) is not None or part.tag in ("JJR", "JJS")):
            return True  # "two of the three men", "the taller of the two men"
    is_behind_number = two_before == "out" or number_of(two_before) is not None
    return before in BETWEEN_NUMBERS and is_behind_number


def number_of(word: str) -> int | None:
    """The value of a number word or of digits in lower case: "three" -> 3, "12" -> 12; None: it is none."""
    return NUMBERS.get(word) or (int(word) if word.isascii() and word.isdigit() else None)


def _is_negation(caption: Caption, token: Token) -> bool:
    """Whether a word denies something. Not in a name ("a no parking sign"), nor in "not only", "nothing but"."""
    word = token.lower
    following = caption.word(token.index + 1)
    before = caption.word(token.index - 1)
    if word not in NEGATIONS and word not in OF_PHRASE and token.dep != "neg":
        return False
    if (word, following) in (("not", "only"), ("nothing", "but"), ("none", "other"), ("except", "that")):
        return False
    if word in ("no", "not") and following in ("more", "less", "fewer"):
        return False  # a bound, see `_is_few_or_bound`
    if word == "instead" and following != "of":
        return False
    names_a_ban = following in FORBIDDEN and before not in ("is", "was")  # "there is no parking" denies it
    if word == "no" and (before in DETERMINERS or names_a_ban):
        return False
    # "A never-ending road", with nothing between the word and the hyphen.
    is_hyphened = following in HYPHENS and caption.tokens[token.index + 1].start == token.end
    return not (word == "never" and is_hyphened)


def _is_few_or_bound(caption: Caption, token: Token) -> bool:
    """Whether a word says that there are few, or a number bounds how many there are."""
    if token.lower == FEW:
        is_counting = token.dep in ("amod", "det", "nummod", "nsubj", "nsubjpass")
        return is_counting and caption.word(token.index - 1) not in ("a", "quite", "the", "these", "those")
    return bound_of(caption, token.index) is not None


def _left_open_by(caption: Caption, word: Token) -> frozenset[int]:
    """The tokens of what a word leaves open, where another word may be true as well; empty for most words.

    "May" leaves its clause open, "possibly" what it belongs to, "wants" what is wanted, "one of the boys" what this one
    does, "all men" whom it is said of, "or" both alternatives, "than" what something is compared with, a question mark
    its sentence.
    """
    if word.text == "?":
        before = range(word.index)
        return frozenset(index for index in before if in_one_sentence(caption, index, word.index))
    if word.lower == "than" or (word.lower == "as" and caption.word(word.index - 2) == "as"):
        # By its words, since parsers read comparisons in many ways.
        standard = next((chunk for chunk in caption.chunks if chunk.start > word.index), None)
        is_of_bound = bound_of(caption, word.index + 1) is not None  # "more than two dogs"
        return frozenset(range(word.index, standard.end)) if standard and not is_of_bound else frozenset()
    if word.lemma in UNREAL:
        clauses = caption.dependents(word.index, "xcomp", "ccomp", "acl")
        if word.lemma not in HABITS:  # "wants to ride a horse": only what is wanted
            return frozenset[int]().union(*(_subtree(caption, clause) for clause in clauses))
        return frozenset(_scope_below(caption, word, word)) if clauses else frozenset()
    if word.lower == "too" and word.dep == "advmod":  # "too small to climb onto the sofa"
        above = caption.tokens[word.head].head  # "is", on which the parse may make "to climb" depend
        behind = [
            clause
            for top in {word.head, above}
            for clause in caption.dependents(top, "xcomp", "advcl", "ccomp")
            if clause.index > word.index
        ]
        return frozenset[int]().union(*(_subtree(caption, clause) for clause in behind))
    top = _top_of_doubt(caption, word)
    return frozenset() if top is None else frozenset(_scope_below(caption, top, word))


def _top_of_doubt(caption: Caption, word: Token) -> Token | None:
    """The token whose phrase or clause a doubting or general word leaves open; None if the word is none of these."""
    above = caption.tokens[word.head]
    # "A dog may bark"; but "clocks may be seen on the tower" doubts nothing.
    if word.tag == "MD" and word.lower in DOUBTING_VERBS:
        return None if above.lemma in ("see", "find") else above
    # "Possibly a dog", "perhaps".
    if word.pos == "ADV" and word.lower in DOUBTING_ADVERBS:
        return above
    # "Whether it rains".
    if word.lower in DOUBTING_CONJUNCTIONS and word.dep in ("mark", "advmod"):
        return above
    # "A wolf or a dog".
    if word.lower == "or" and word.dep == "cc":
        return above
    # "Everyone runs", "all run".
    if word.lower in UNIVERSAL_PRONOUNS or (word.lower in UNIVERSAL and word.dep in SUBJECTS):
        return word
    # "Most boys run", "every other boy runs", "half the boys run".
    is_half = word.lower == "half" and caption.word(word.index + 1) in OF_GROUP
    if (
        is_half
        or (word.lower == "most" and word.dep == "amod")
        or (word.lower == "every" and caption.word(word.index + 1) in EVERY_NTH and word.dep == "det")
    ):
        return _clause_of_share(caption, above)
    # "Some sit on benches".
    if word.lower in SOME_OF_GROUP and word.dep in SUBJECTS:
        return _clause_of_share(caption, word)
    # "Nine out of ten people", "two out of every five seats".
    if _is_second_of_ratio(caption, word.index):
        return _clause_of_share(caption, word)
    # "All men"; but "each other" says nothing of all.
    if word.lower in UNIVERSAL and word.dep in ("det", "predet"):
        return None if above.lower == "other" else above
    # "One of the boys runs", "one in three of the boys runs".
    if word.lower == "of" and _is_part_of_group(caption, word, above):
        return _clause_of_share(caption, above)
    return None


def _is_second_of_ratio(caption: Caption, number: int) -> bool:
    """Whether the number at this token tells of how many things a first one is a part: "nine out of **ten** people"."""
    if number_of(caption.word(number)) is None:
        return False
    before = number - 1
    if caption.word(before) == "every":
        before -= 1
    if caption.word(before) == "of" and caption.word(before - 1) == "out":
        before -= 1
    elif caption.word(before) != "in" and caption.word(number - 1) != "every":
        return False  # "two of three dogs" has no share of all dogs
    return number_of(caption.word(before - 1)) is not None


def _clause_of_share(caption: Caption, part: Token) -> Token:
    """The verb that stands behind a part of a group and that this belongs to; the part itself if there is none.

    That is "have" for "a third" in "around a third of the boats have blue sails", whatever the parse makes of "around".
    """
    verb = next(_verbs_above(caption, part), part)
    return verb if verb.index > part.index else part


def _is_part_of_group(caption: Caption, word: Token, above: Token) -> bool:
    """Whether "of" (`word`) follows what tells a part of a group (`above`): "half of the dogs", "two of these"."""
    if above.lower in SHARES and any(object.tag == "NNS" for object in caption.dependents(word.index, "pobj")):
        return True
    is_part = above.lower in PARTS_OF_GROUP or number_of(above.lower) is not None
    return is_part and caption.word(word.index + 1) in OF_GROUP


def _denial_by(caption: Caption, word: Token) -> Denial:
    """What a negating word denies: of "no dog" the dog; of "a man is not wearing a hat" the verb and the hat."""
    if quoted := _quoted(caption, word.index):
        return Denial(word.index, scope=quoted, denied=frozenset())  # what is quoted is neither replaced nor denied
    if phrase := _phrase_with_nearly_no(caption, word):
        return Denial(word.index, scope=phrase, denied=phrase)
    top = _top_of_denial(caption, word)
    scope = frozenset(_scope_below(caption, top, word))
    if top.pos not in ("VERB", "AUX"):
        return Denial(word.index, scope=scope, denied=scope)
    # A subject that does not carry the negation itself is there: "a man is not …", but not "nobody is …".
    asserted = set[int]()
    for subject in caption.dependents(top.index, *SUBJECTS):
        of_subject = _subtree(caption, subject)
        if word.index not in of_subject:
            asserted |= of_subject
    return Denial(word.index, scope=scope, denied=scope - asserted)


def _quoted(caption: Caption, index: int) -> frozenset[int]:
    """The tokens of the quotation that a token is in, with its marks; empty if it is in none."""
    marks = [token.index for token in caption.tokens if token.text in QUOTES]
    for first, last in zip(marks[::2], marks[1::2], strict=False):
        if first < index < last:
            return frozenset(range(first, last + 1))
    return frozenset()


def _phrase_with_nearly_no(caption: Caption, word: Token) -> frozenset[int]:
    """The tokens of a phrase like "with barely any hair", from the preposition to the noun; empty for another word.

    By its words, since parsers read such phrases in many ways. word: "barely", or another of NEARLY.
    """
    if word.lower not in NEARLY or not word.index or caption.word(word.index + 1) not in INDEFINITE:
        return frozenset()
    noun = next((chunk.root for chunk in caption.chunks if chunk.end > word.index + 1), word.index)
    is_object = caption.tokens[word.index - 1].pos == "ADP"
    return frozenset(range(word.index - 1, noun + 1)) if is_object and noun > word.index else frozenset()


def _top_of_denial(caption: Caption, word: Token) -> Token:
    """The token that a negating word denies, with what stands below it in the parse: "sit" for "nobody sits"."""
    tokens = caption.tokens
    if word.lower == "instead" and caption.tokens[word.index + 1].head != word.index:
        return caption.tokens[word.index + 1]  # "instead of chasing a cat", where the parse has "of" beside "instead"
    if word.lower in OF_PHRASE or word.head == word.index or word.lemma == "lack":
        return word
    # First the word that it belongs to; then, if that is a noun of a clause, the verb of the clause.
    if word.pos in ("NOUN", "PRON", "PROPN"):  # "nobody", "none of the men"
        denied = word
    elif bound := bound_of(caption, word.index):
        denied = tokens[word.head]
        while denied.dep == "pobj" and denied.head >= bound.start:  # "up to six boats float", parsed as "up (to boats)"
            denied = _token_above_bound(caption, denied, bound.start)
    else:
        denied = tokens[word.head]
        if denied.dep in ("aux", "auxpass"):  # "rarely does a dog sit"
            denied = tokens[denied.head]
        elif denied.lemma in ("time", "point") and caption.word(word.index - 1) == "at":  # "at no time is a car parked"
            denied = tokens[tokens[denied.head].head]
        has_determiner = caption.word(word.index - 1) in DETERMINERS
        if denied.pos == "ADJ" and (word.dep == "advmod" or has_determiner):  # "hardly visible", "a not very big dog"
            return denied
        if denied.pos in ("ADJ", "NUM", "DET") and denied.head > denied.index:  # "not many people", "not one child"
            denied = tokens[denied.head]
        if word.dep == "advmod" or (denied.pos in ("ADV", "ADP") and word.pos == "ADV"):  # "nowhere", "no longer"
            denied = next(_verbs_above(caption, denied), denied)
    if denied.pos in ("VERB", "AUX"):
        return denied
    if denied.dep == "conj" and denied.head < word.index:  # "a bed but no windows": the bed is there
        return denied
    above = tokens[denied.head]
    if denied.dep in OF_CLAUSE and above.pos in ("VERB", "AUX"):
        return above
    return above if denied.dep == "pobj" else denied


def _token_above_bound(caption: Caption, token: Token, start: int) -> Token:
    """The nearest token above `token` in the parse that is outside of its bound: "float" for "boats", see the caller.

    start: the first token of the bound, such as "up" of "up to six boats".
    """
    above = caption.tokens[token.head]
    for _ in range(LONGEST_BOUND):
        if start <= above.index < token.index:
            above = caption.tokens[above.head]
    return above


def _verbs_above(caption: Caption, token: Token) -> Iterator[Token]:
    """The verbs that a token is one of, or depends on, the nearest first."""
    for _ in caption.tokens:  # no more steps than tokens, however the parse may go round in circles
        if token.pos in ("VERB", "AUX"):
            yield token
        if token.head == token.index:
            return
        token = caption.tokens[token.head]


def _scope_below(caption: Caption, top: Token, word: Token) -> Iterator[int]:
    """The tokens that `word` denies by denying `top`: what stands below `top`, without clauses that stand alone."""
    yield top.index
    is_no_one = word.lower == "no" and caption.word(word.index + 1) == "one"
    if is_no_one or word.lower in ("nobody", "nothing", "none"):
        # "A bench with no one | sitting on it", whatever the parse makes sit.
        for following in caption.tokens[word.index + 1 : word.index + 3]:
            if following.dep in ("acl", "prep", "pcomp", "advcl") and following.head < word.index:
                yield from _subtree(caption, following)
    has_own_not = top.pos in ("VERB", "AUX") and word.dep == "neg"
    conjunction = ""  # the last one before the child
    for index in caption.children[top.index]:
        child = caption.tokens[index]
        if child.dep == "cc":
            conjunction = child.lower
        if child.index > word.index and _stands_alone(caption, top, child, conjunction, has_own_not=has_own_not):
            continue
        yield from _subtree(caption, child)


def _stands_alone(caption: Caption, top: Token, child: Token, conjunction: str, *, has_own_not: bool) -> bool:
    """Whether a dependent of a denied word is not denied with it.

    That is what follows "but" ("not on the couch but on the bed"); a conjunct with a subject of its own, or a finite
    one after a verb that is denied by its own "not" ("does not sit and holds a ball"); and a clause with a subject
    after "while".

    Args:
        caption: the caption.
        top: the denied word.
        child: its dependent.
        conjunction: the last one before the child; "": none.
        has_own_not: whether `top` is a verb with a "not" of its own.
    """
    has_subject = caption.has_dependent(child.index, *SUBJECTS)
    if child.dep in ("conj", "parataxis"):
        if conjunction == "but" or (has_subject and conjunction not in ("nor", "or")):
            return True
        return has_own_not and conjunction == "and" and child.tag in ("VBZ", "VBP", "VBD") and top.tag != child.tag
    if child.dep in ("advcl", "prep", "ccomp") and has_subject:
        marks = [mark.lower for mark in caption.dependents(child.index, "mark", "advmod")]
        return any(mark in BESIDE for mark in marks)
    return False


def _subtree(caption: Caption, top: Token) -> set[int]:
    """The indices of a token and of all that depends on it, however the parse may go round in circles."""
    reached = set[int]()
    waiting = [top.index]
    while waiting:
        index = waiting.pop()
        if index not in reached:
            reached.add(index)
            waiting += caption.children[index]
    return reached
