"""Determiners, and agreement after an edit: number of nouns and verbs, pronouns that refer to a noun, and a/an."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from string import ascii_letters
from typing import Any

from ..caption import Caption, Casing, Token
from ..data import data_path, word_lists
from ..edits import Edit, cased, cased_like
from .boundaries import in_one_sentence
from .semantic_classes import Gender, gender
from .wordnet import WordNet

ARTICLES = {"a", "an"}
NUMBERS = {
    word: value
    for value, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), start=1)
}
SINGULAR_DETERMINERS = {"a", "an", "another", "one", "each", "every"}
# Words before plurals only ("several sheep"), and before plurals or mass nouns ("some bread").
PLURAL_DETERMINERS = {"several", "many", "few", "these", "those", "both", "various", *NUMBERS} - {"one"}
MASS_DETERMINERS = {"some", "any", "enough", "more", "much", "most", "all"}
_WORDS = word_lists(data_path("grammar.toml"))
_PLURALS: dict[str, str] = _WORDS["plurals"]
_PLURAL_ENDINGS: dict[str, str] = _WORDS["plural_endings"]
_REGULAR: dict[str, frozenset[str]] = _WORDS["regular_plurals"]
_PLURAL_VERBS: dict[str, str] = _WORDS["plural_verbs"]
_SINGULAR_VERBS = {plural: singular for singular, plural in _PLURAL_VERBS.items()}
# The pronoun of each gender or number as subject, object, possessive or reflexive; and what each pronoun is.
_FORMS: dict[tuple[str, str], str] = {
    (kind, role): word for kind, words in _WORDS["pronouns"].items() for role, word in words.items()
}
_PRONOUNS = {word: form for form, word in _FORMS.items()} | {
    "hers": ("female", "object"),
    "theirs": ("plural", "object"),
}
_PLACES = frozenset(["top", "front", "back", "side", "middle"])  # within prepositions: "on top of it"
_LISTED: dict[str, frozenset[str]] = _WORDS["letters"]  # lists of words and letters, for "a" or "an" before initials
# No English word matches: no vowel (tv, lcd), or two initial consonants that English does not combine (fbi, mri).
_LETTERS = re.compile(
    r"[^aeiouy]+$|f[bcdfghkmnpqstvwxz]|h(?!mong)[b-df-hj-np-tv-xz]|l[bcdfgkmnpqrstvwxz]|m[bdfghjklmpqrstvxz]"
    r"|n[bcdfhjklmpqrstvwxz]|r[bcdfgjklmnpqrstvxz]|s[bdgjsx]|x[bcdfgjklmnpqrstvwz]"
)
# Vowel letters that sound as consonants: "a unicorn", "a one-way street", "a ewe", "a ouija board"; "an unimportant".
_A = re.compile(
    r"one(?:s|self|ness|time|sies?)?(?![a-z])|once|oui[jm]|eu(?!ler)|ewe(?:rs?|s)?(?![a-z])"
    r"|uni(?!d(?!ir)|ll|m(?!od|at)|n|ro(?!y)|ss|tal)|una(?:nim|bom)|unesc|us[aeiu]|ut[aeio]"
    r"|ur(?:[aeiu]|ol)|uk|ubi|ugan|ulys|uv[ue]"
)
_AN = re.compile(r"hour(?!i)|honest|honou?r|heir|herb(?!iv|ic|er)|hors[ -]d|y[^aeiou]")
# How many words may stand between a preposition's object and its verb: three in "is visible right behind it".
_DEPTH = 3
_NOUN_POS = ("NOUN", "PROPN")
# Before a noun that says what another is like: "shaped like a goose", "posing as a statue", "pretending to be a dog".
LIKENING = ("like", "as", "be")
_RELATIVE = ("that", "who", "which")
_NEXT_CLAUSE = (",", ";", "and", "but", "while", "when", "because", "where")  # before a clause with a noun of its own
# What introduces a clause with a verb of its own; "like" does so only by mistake of the parse.
_CLAUSE_WORDS = frozenset("that if while as when where why how because until before after so whether though".split())
_NUMBER = re.compile(r"8|1[18](?:\d\d)?(?!\d)|1[18](?:,?\d{3})+(?!\d)")  # eight, eleven, eighteen and their thousands


def singular_form(dependents: Sequence[Token], possessed: bool) -> str:
    """The form of a singular noun, by its determiner: "a", "some", "the", or "bare" without one.

    dependents: its dependents before it. possessed: whether a possessive 's precedes it (a dependent of the owner).
    """
    words = [token.lower for token in dependents]
    if not SINGULAR_DETERMINERS.isdisjoint(words):
        return "a"
    if not MASS_DETERMINERS.isdisjoint(words):
        return "some"
    # "The" stands for all that leaves no room for an article: "this dog", "her dog", "the man's dog", "1 dog".
    return "the" if possessed or any(token.dep in ("det", "nummod", "poss") for token in dependents) else "bare"


@cache
def _inflect_engine() -> Any:
    """The engine of the package inflect.

    inflect lets typeguard check the arguments of its functions, which takes a second or more to set up and slows down
    each call. During the import of inflect, the function below stands for typeguard's decorator and leaves inflect's
    functions unchanged.
    """
    import typeguard

    checked: Any = typeguard.typechecked

    def typechecked(target: Any = None, **options: Any) -> Any:
        return target if getattr(target, "__module__", "") == "inflect" else checked(target, **options)

    typeguard.typechecked = typechecked
    try:
        import inflect
    finally:
        typeguard.typechecked = checked
    engine = inflect.engine()
    engine.defnoun("gentleman", "gentlemen")  # which it takes for a nation's name, as "german"
    return engine


@cache
def plural_of(noun: str) -> str:
    """The plural of a noun or compound: "box" -> "boxes", "man" -> "men", "runner-up" -> "runners-up"."""
    if noun in _PLURALS:
        return _PLURALS[noun]
    # In a compound the last word is inflected, "tennis rackets"; exceptions such as "runners-up" are in the table.
    start = max(noun.rfind(" "), noun.rfind("-")) + 1
    first = noun[:start]
    last = noun[start:]
    if last in _PLURALS:
        return first + _PLURALS[last]
    if last.endswith("man") and last in _REGULAR["in_man"]:
        return noun + "s"
    for ending, of_many in _PLURAL_ENDINGS.items():
        if last.endswith(ending):
            return noun[: len(noun) - len(ending)] + of_many
    if last.endswith(("f", "o")):
        return noun + ("es" if last in _REGULAR["in_oes"] else "s")
    # All other nouns are left to inflect, which is slow to load.
    many = _inflect_engine().plural_noun(last)
    # "Jeans", "pants": a noun in "s" that would take another "s" has no singular.
    return noun if last.endswith("s") and many == last + "s" else first + many


@cache
def third_person(verb: str) -> str:
    """The third person singular present of a base form: "carry" -> "carries", "be" -> "is"."""
    if verb in ("be", "have", "quiz"):
        return {"be": "is", "have": "has", "quiz": "quizzes"}[verb]
    if verb.endswith(("eo", "io", "oo")):  # video, radio, moo
        return verb + "s"
    if re.search(r"(?:s|x|z|ch|sh|o)$", verb):
        return verb + "es"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ies"
    return verb + "s"


def agreement_edits(caption: Caption, noun: int, *, plural: bool) -> list[Edit] | None:
    """The edits that make verbs agree with a noun when its number changes: "a dog runs" -> "two dogs run".

    Args:
        caption: has the verbs.
        noun: the token index of the noun.
        plural: whether the noun becomes plural, or else singular.

    Returns:
        The edits of verbs alone, none if no verb changes; None if no edit is known to be safe.
    """
    # Better no negative than "two dogs runs": wherever parse and words disagree, the number is not changed.
    if _verb_is_unclear(caption, caption.tokens[noun], plural=plural):
        return None
    edits = []
    agreeing = set[int]()
    for verb in _agreeing_verbs(caption, caption.tokens[noun], plural=plural):
        finite = caption.first_dependent(verb.index, "aux", "auxpass") or verb  # the word that shows agreement
        if agreeing and _has_clause_between(caption, max(agreeing), finite.index):
            return None  # "a man speaks as a machine runs and | makes a hiss": which of them makes it
        if plural and _is_of_another(caption, verb, noun):
            return None
        if _has_counted_predicate(caption, verb, noun, plural=plural):
            return None
        agreeing.add(finite.index)
        lower = finite.lower
        new = None
        is_auxiliary = finite is not verb and lower not in _PLURAL_VERBS and lower not in _SINGULAR_VERBS
        if is_auxiliary and finite.tag != "VBZ":
            continue  # "can" has one form; "gets" (VBZ) has not
        if plural:
            following = caption.tokens[finite.index + 1 : finite.index + 2]
            if finite.tag in ("NNS", "NN") and any(word.pos != "PUNCT" for word in following):
                return None  # "a man eats and dogs | bark"
            if finite.tag in ("NNS", "NN") and caption.has_dependent(finite.index, "det", "compound", "amod"):
                return None  # "a man speaks and an animal | chirps"
            # A verb in the singular that the parse takes for a base form or a noun: "a dog | runs".
            misread = finite.tag in ("VB", "VBP", "NNS", "NN") and is_third_person(lower)
            if lower in _PLURAL_VERBS or finite.tag == "VBZ" or misread:
                new = plural_verb(finite)
                # "'s" has no plural that is written so; and a verb that would stay as it is was not understood.
                if lower in ("'s", new):
                    return None
        elif lower in _SINGULAR_VERBS:
            new = _SINGULAR_VERBS[lower]
        elif finite.tag == "VBP" or (finite.tag == "VB" and not caption.has_dependent(finite.index, "aux")):
            new = None if finite.dep in ("aux", "auxpass") else third_person(lower)
        if new is not None:
            edits.append(Edit(finite.start, finite.end, cased_like(new, finite.text, caption.casing)))
    return None if plural and _has_stray_conjunct(caption, agreeing) else edits


def plural_verb(verb: Token) -> str:
    """The plural of a verb in the third person singular, in small letters: "is" -> "are", "carries" -> "carry"."""
    return _PLURAL_VERBS.get(verb.lower) or base_of_third_person(verb.lower) or verb.lemma


def _is_of_another(caption: Caption, verb: Token, noun: int) -> bool:
    """Whether a verb belongs to a noun nearer to it than the one at token `noun`, although the parse says otherwise.

    "A man speaking with croaks of frogs, then a **child speaks**", "a man is speaking as a cat **growls and hisses**",
    in which "growls" passes for a noun.
    """
    subjects = [subject.index for subject in caption.dependents(verb.index, "nsubj", "nsubjpass")]
    if any(noun < subject < verb.index for subject in subjects) and noun in subjects:
        return True
    if verb.dep != "conj" or verb.index < 2 or caption.word(verb.index - 1) not in ("and", "or"):
        return False
    joined = caption.tokens[verb.index - 2]  # "growls" in "growls and hisses"
    passes_for_noun = joined.tag == "NNS" and is_third_person(joined.lower)
    return passes_for_noun and any(word in _CLAUSE_WORDS for word in caption.lowered[noun + 1 : verb.index])


def _has_counted_predicate(caption: Caption, verb: Token, noun: int, *, plural: bool) -> bool:
    """Whether a verb says what a thing is in its old number: "a man **is a teacher**", "two men who **are brothers**".

    plural: the number that the noun gets.
    """
    for predicate in caption.dependents(verb.index, "attr"):
        if predicate.index <= noun:
            continue
        is_one = predicate.tag == "NN" and caption.has_dependent(predicate.index, "det")
        if is_one if plural else predicate.tag == "NNS":
            return True
    return False


def _has_clause_between(caption: Caption, first: int, last: int) -> bool:
    """Whether another clause stands between two tokens: a finite verb with a subject behind token `first`, or "while",
    as the parse may have one subject for both verbs of "a door **is** open, while another door, also red, **is** shut".
    """
    if "while" in caption.lowered[first + 1 : last]:
        return True
    for token in caption.tokens[first + 1 : last]:
        subjects = caption.dependents(token.index, "nsubj", "nsubjpass")
        if token.tag in ("VBZ", "VBP", "VBD") and any(subject.index > first for subject in subjects):
            return True
    return False


def _has_stray_conjunct(caption: Caption, agreeing: set[int]) -> bool:
    """Whether "and" or "then" joins a verb in the singular to those that agree with a noun, and it is none of these.

    "A man speaks and **moves** objects", "an engine idles, then **begins** to rev".

    agreeing: the tokens of the verbs that are known to agree.
    """
    if not agreeing:
        return False
    last = max(agreeing)
    for token in caption.tokens[last + 1 :]:
        if not in_one_sentence(caption, last, token.index):
            return False
        conjunction = caption.word(token.index - 1)
        if token.index in agreeing or conjunction not in ("and", "then", "or", "but"):
            continue
        # Parses take such verbs for nouns, or give them a wrong subject. Each case below is such a mistake.
        is_third = is_third_person(token.lower)
        if token.tag in ("NNS", "NN") and is_third:
            base = base_of_third_person(token.lower)
            if conjunction == "then" or not WordNet.load().senses(base or "", "n"):
                return True  # "squeals tires and | accelerates"
        above = caption.tokens[token.head]
        takes_verb = token.dep == "nsubj" and token.tag == "NNS" and above.tag == "VBZ"  # a plural before "objects"
        is_joined = token.dep == "conj" and token.tag in ("NNS", "VBP") and above.index in agreeing
        if token.tag == "VBZ" or ((takes_verb or is_joined) and is_third):
            subject = caption.first_dependent(token.index, "nsubj", "nsubjpass")
            has_subject = subject is not None and subject.pos not in ("VERB", "AUX")
            return not has_subject or takes_verb
    return False


@cache
def base_of_third_person(word: str) -> str | None:
    """The base form of a third person singular: "revs" -> "rev", "carries" -> "carry"; None if the word is none."""
    senses = WordNet.load().senses
    for base in (word[:-1], word[:-2], word[:-3] + "y"):
        if base and senses(base, "v") and third_person(base) == word:
            return base
    return None


def is_third_person(word: str) -> bool:
    """Whether a word may be a verb in the third person singular."""
    return base_of_third_person(word) is not None


def _has_no_subject(caption: Caption, verb: Token) -> bool:
    """Whether a finite verb has no subject that it may agree with, and is not joined to another verb."""
    subject = caption.first_dependent(verb.index, "nsubj", "nsubjpass", "expl", "csubj")
    if subject is None:
        # Taken for a noun, or for nothing in particular; a "conj" would share the subject of the verb before it.
        return verb.dep in ("pobj", "dobj", "compound", "npadvmod", "appos", "dep")
    return subject.pos in ("VERB", "AUX", "ADV", "ADP")  # by a mistake of the parse


def _may_agree(word: str, *, plural: bool) -> bool:
    """Whether a word may be the verb of a noun whose number is to change, in the form that agrees with its old number.

    plural: whether the noun becomes plural. Then it is still singular, and so is its verb: "runs", not "run".
    """
    if word in _PLURAL_VERBS or word in _SINGULAR_VERBS:
        return True
    return is_third_person(word) if plural else bool(WordNet.load().senses(word, "v"))


def _verb_is_unclear(caption: Caption, noun: Token, *, plural: bool) -> bool:
    """Whether the parse does not tell, or tells wrongly, which verb agrees with a noun whose number is to change.

    Parses take verbs for nouns ("a vehicle engine **revs**", "a hammer **hits** metal") or for part of a clause before
    them ("a dog that cannot reach the ball **jumps**"). plural: the number that the noun gets.
    """
    tokens = caption.tokens
    above = tokens[noun.head]
    following = tokens[noun.index + 1] if noun.index + 1 < len(tokens) else None
    is_followed_by_verb = _may_agree(caption.word(noun.index + 1), plural=plural)

    # "A hammer | hits metal": the verb passes for a noun.
    is_subject = noun.dep in ("nsubj", "nsubjpass")
    if is_subject and above.pos not in ("VERB", "AUX") and _may_agree(above.lower, plural=plural):
        return True
    # "A lamp shaped like a goose | stands", "a boy pretending to be a dog | crawls", where the lamp and the boy do.
    if is_subject and _is_likened(caption, noun):
        return True
    # "Followed by a woman | speaks".
    if plural and following is not None and following.tag == "VBZ" and noun.head != following.index:
        if _has_no_subject(caption, following):
            return True
        # "A vehicle accelerates and a person | speaks", parsed as another verb of the vehicle.
        if caption.word(caption.phrase_start(noun.index) - 1) in _NEXT_CLAUSE:
            return True
    # "As an engine | roars", parsed as a preposition and its object.
    if noun.dep == "pobj" and above.lower in _CLAUSE_WORDS and is_followed_by_verb:
        return True
    # "People speak and an engine | revs": a noun joined to a verb.
    first = caption.first_conjunct(noun)
    if noun.dep == "conj" and first.pos not in _NOUN_POS and is_followed_by_verb:
        return True
    # "A horn honks and a car passes", parsed as one subject of "passes".
    verb = tokens[first.head]
    is_one_of_several = noun.dep == "conj" or caption.has_dependent(noun.index, "conj")
    if first.dep in ("nsubj", "nsubjpass") and is_one_of_several and verb.index > noun.index:
        finite = caption.first_dependent(verb.index, "aux", "auxpass") or verb
        if finite.tag == "VBZ":
            return True
    has_no_verb = noun.dep == "ROOT" or (noun.dep == "conj" and first.dep == "ROOT")
    if not has_no_verb:
        return False
    # "A small motor whine, then | shuts off": its first verb passes for the noun.
    conjuncts = caption.dependents(noun.index, "conj")
    for conjunct in conjuncts if plural else ():
        if conjunct.tag == "VBZ" and not caption.has_dependent(conjunct.index, "nsubj", "nsubjpass"):
            return True
    if plural and _has_verb_of_inner_noun(caption, noun):
        return True
    # "A vehicle with a diesel engine | accelerates": a plural with the article of a singular is a verb.
    for token in tokens[noun.index + 1 :] if plural else ():
        is_verb = token.tag == "NNS" and is_third_person(token.lower)
        if is_verb and any(article.lower in ARTICLES for article in caption.dependents(token.index, "det")):
            return True
    return _has_stray_verb(caption, noun, plural=plural)


def _is_likened(caption: Caption, noun: Token) -> bool:
    """Whether a noun that the parse takes for a subject is only the object of "like": it stands behind such a word, and
    no finite verb but those of relative clauses precedes it: "a pillow that looks like **a slice** lies on a couch".
    """
    if caption.word(caption.phrase_start(noun.index) - 1) not in LIKENING:
        return False
    for token in caption.tokens[: noun.index]:
        if token.tag in ("VBZ", "VBP", "VBD") and in_one_sentence(caption, token.index, noun.index):
            subject = caption.first_dependent(token.index, "nsubj", "nsubjpass")
            if subject is None or subject.lower not in _RELATIVE:
                return False
    return True


def _has_verb_of_inner_noun(caption: Caption, noun: Token) -> bool:
    """Whether a noun without a verb is followed by a finite one that the parse gives to a noun of its own phrase.

    "A **sign** that says stop **is** covered", "a **child** that looks like a pirate **is** holding a sword".
    """
    for token in caption.tokens[noun.index + 1 :]:
        if token.lower in _NEXT_CLAUSE or not in_one_sentence(caption, noun.index, token.index):
            return False
        if token.tag != "VBZ":
            continue
        verb = caption.tokens[token.head] if token.dep in ("aux", "auxpass") else token
        subject = caption.first_dependent(verb.index, "nsubj", "nsubjpass")
        if subject is not None and subject.index > noun.index and subject.lower not in _RELATIVE:
            return True
    return False


def _has_stray_verb(caption: Caption, noun: Token, *, plural: bool) -> bool:
    """Whether a finite verb that may be that of a noun without one stands in a clause below it, or passes for a noun.

    "An animal that looks like a fox **sits** on a log", "a bus with the number 42 **stops**", "a flower, shown from
    above, **takes** center stage". plural: the number that the noun gets.
    """
    tokens = caption.tokens
    clauses = [clause.index for clause in caption.dependents(noun.index, "acl", "relcl")]
    for token in tokens[noun.index + 1 :]:
        if not in_one_sentence(caption, noun.index, token.index):
            break
        agrees = token.tag == ("VBZ" if plural else "VBP")
        if agrees and token.index not in clauses and any(_is_below(caption, token.index, clause) for clause in clauses):
            if _is_verb_of_clause(caption, token):
                continue
            return True
        # "The number 42 | stops", where the verb passes for the noun that the number counts.
        before = tokens[token.index - 1]
        if plural and token.tag in ("NNS", "NN") and token.dep != "compound" and is_third_person(token.lower):
            is_numbered = before.tag == "CD" and before.head == token.index and before.dep == "compound"
            # "With a ladder on its roof | backs", where the verb passes for what the roof belongs to.
            is_part = before.head == token.index and before.tag in ("NN", "JJ")
            is_owned = is_part and caption.has_dependent(token.index, "poss")
            if token.dep == "acomp" or is_numbered or is_owned:
                return True
    return False


def _is_verb_of_clause(caption: Caption, verb: Token) -> bool:
    """Whether a finite verb belongs to a clause below a noun: an auxiliary, with a subject or a word such as "while" of
    its own, or joined to another verb of the clause ("a man who sits **and reads**").
    """
    subject = caption.first_dependent(verb.index, "nsubj", "nsubjpass")
    if any(mark.lower in _CLAUSE_WORDS for mark in caption.dependents(verb.index, "mark", "advmod")):
        return True
    if subject is not None:
        return subject.tag in ("PRP", "WDT", "WP", "EX")
    is_joined = verb.dep == "conj" and caption.tokens[verb.head].tag == verb.tag
    return verb.dep in ("aux", "auxpass") or is_joined


def _is_below(caption: Caption, index: int, above: int) -> bool:
    """Whether a token depends on another, directly or not."""
    for _ in caption.tokens:  # no more steps than tokens, however the parse may go round in circles
        if index == above:
            return True
        if caption.tokens[index].head == index:
            return False
        index = caption.tokens[index].head
    return False


def _agreeing_verbs(caption: Caption, noun: Token, *, plural: bool) -> Iterator[Token]:
    """The verbs that agree with a noun: its own, their conjuncts, and those of its relative clauses.

    plural: also the verb before a list, which agrees with the list's first noun: "there is a dog and a cat".
    """
    head = caption.tokens[noun.head]
    listed = caption.has_dependent(noun.index, "conj")
    is_subject = noun.dep in ("nsubj", "nsubjpass")
    exists = is_said_to_be_there(caption, noun)
    agreeing: list[Token] = []
    if not listed and noun.dep != "conj":
        if (is_subject and head.index != noun.index) or (noun.dep == "attr" and exists):
            agreeing.append(caption.tokens[head.head] if head.dep == "xcomp" else head)  # "there seems to be a dog"
    for clause in caption.dependents(noun.index, "relcl"):
        subjects = caption.dependents(clause.index, "nsubj", "nsubjpass")
        if any(subject.lower in _RELATIVE for subject in subjects):
            agreeing.append(clause)
    for verb in agreeing:
        yield verb
        # Its conjuncts without a subject of their own: "a dog that runs and jumps".
        while following := caption.first_dependent(verb.index, "conj"):
            if caption.has_dependent(following.index, "nsubj", "nsubjpass"):
                break
            yield following
            verb = following
    is_first_of_list = listed and (is_subject or (noun.dep in ("attr", "dobj") and exists))
    if plural and is_first_of_list and head.index < noun.index:
        yield head


def is_said_to_be_there(caption: Caption, noun: Token) -> bool:
    """Whether a noun behind a verb names what is there, and not what something is: "there **is a dog**".

    Also without "there": "above the windows **is a balcony**", which the parse has as a predicate.
    """
    verb = caption.tokens[noun.head]
    if caption.has_dependent(verb.index, "expl"):
        return True
    if noun.dep != "attr" or verb.index > noun.index or caption.has_dependent(verb.index, "nsubj", "csubj"):
        return False
    # "A man stands and **is** a doctor": the verb shares the subject of the one that it is joined to.
    return verb.dep != "conj" or caption.word(verb.index - 1) not in ("and", "or", "but", "then", "also")


def pronoun_edits(
    caption: Caption, noun: int, *, old_gender: Gender | None, new_noun: str, plural: bool
) -> list[Edit] | None:
    """The edits that make pronouns agree with the word that replaces a noun.

    Args:
        caption: its pronouns are looked at.
        noun: the token index of the noun.
        old_gender: of the noun; None if it is plural.
        new_noun: the lemma that replaces it.
        plural: whether the replacement is plural.

    Returns:
        None if a pronoun would lose its antecedent: "A man holding his dog" -> "A tree holding his dog".
    """
    edits = []
    for token in caption.pronouns:
        form = _PRONOUNS.get(token.lower)
        if form is None or token.dep == "expl":  # expl: "it is raining", which refers to nothing
            continue
        kind, role = form  # such as ("male", "possessive") for "his", ("plural", "subject") for "they"
        if token.lower == "her" and token.tag == "PRP":
            role = "object"
        following = caption.tokens[token.index + 1 : token.index + 2]
        if role == "object" and any(word.tag in ("VBZ", "MD") for word in following):
            role = "subject"  # whatever the parse makes of it: "a bird as it stands"
        if not _pronoun_fits(kind, old_gender):
            continue
        is_elsewhere = not in_one_sentence(caption, noun, token.index)
        is_antecedent = _is_antecedent(caption, noun, token, kind)
        if is_antecedent and kind in ("male", "female") and old_gender == "thing":
            # "A girl sits there. A dog lies in front of **her**": what fits less well here may mean a noun before this
            # sentence.
            whole_token = caption.whole.tokens[caption.first_token + token.index]
            is_antecedent = _is_antecedent(caption.whole, caption.first_token + noun, whole_token, kind)
        if not is_antecedent and not (is_elsewhere and noun < token.index):
            continue
        new_gender = gender(new_noun)
        if kind == "plural" and not plural and old_gender is not None and new_gender != "any":
            return None  # "a child … their toy": nobody says "their" of one dog or tree
        # What the pronoun has to be: a gender, or "plural".
        wanted: str = new_gender
        if plural or (new_gender == "any" and kind == "thing"):
            wanted = "plural"
        elif new_gender == "any":
            wanted = kind
        if wanted != kind:
            if is_elsewhere and not _is_only_antecedent(caption, noun, token, kind):
                return None  # "a house … a stack of wood behind it": who knows behind which
            # The verb of a subject would have to change, too; and "it" does not fit wherever "him" or "them" does.
            if role == "subject" or (wanted == "thing" and role != "possessive"):
                return None
            if role == "possessive" and token.dep != "poss":  # "waits for his": "theirs" has another form
                return None
            edits.append(Edit(token.start, token.end, cased_like(_FORMS[wanted, role], token.text, caption.casing)))
    return edits


def gender_of_pronoun(word: str) -> str:
    """The gender of a pronoun: "male" for "his", "thing" for "its", "plural" for "they"; "" for other words."""
    gender_and_form = _PRONOUNS.get(word)
    return "" if gender_and_form is None else gender_and_form[0]


def is_pronoun_of(caption: Caption, noun: int, pronoun: Token) -> bool:
    """Whether a pronoun for things ("it", "its", "they", "them", "their") stands for the noun at a token."""
    kind, _ = _PRONOUNS.get(pronoun.lower, ("", ""))
    if kind not in ("thing", "plural") or pronoun.dep == "expl":
        return False
    return _pronoun_fits(kind, _gender_if_singular(caption.tokens[noun])) and _is_antecedent(
        caption, noun, pronoun, kind
    )


def _pronoun_fits(pronoun: str, noun: Gender | None) -> bool:
    """Whether a pronoun may refer to a noun: "his" to a man or a child, "their" to dogs or a child.

    pronoun: its gender, or "plural". noun: its gender; None: it is plural. "any" is a person of unknown gender.
    """
    if pronoun == "plural":
        return noun in (None, "any")
    if noun is None:
        return False
    # A "thing" may be an animal, of which captions say "he" and "she" as well as "it".
    if noun == "thing":
        return True
    # "It" is said of no person; "his" of men and of persons of unknown gender.
    return pronoun != "thing" and noun in (pronoun, "any")


def _is_only_antecedent(caption: Caption, noun: int, pronoun: Token, kind: str) -> bool:
    """Whether a pronoun may mean no other noun before it than the one at token `noun`.

    kind: the gender of the pronoun, or "plural".
    """
    for chunk in caption.chunks:
        root = caption.tokens[chunk.root]
        if root.index >= pronoun.index or root.index == noun or root.pos not in _NOUN_POS:
            continue
        if _pronoun_fits(kind, _gender_if_singular(root)):
            return False
    return True


def _gender_if_singular(noun: Token) -> Gender | None:
    """The gender of a noun, None of a plural one: any plural may be "they"."""
    return None if noun.tag in ("NNS", "NNPS") else gender(noun.lemma)


def _is_antecedent(caption: Caption, noun: int, pronoun: Token, kind: str) -> bool:
    """Whether `noun` is the likeliest antecedent: the subject that agrees with the pronoun, else the nearest noun
    before it, but not the one that the pronoun's prepositional phrase follows: "**a house** and a tree behind it".

    The antecedent of a possessive in a list is the item before: "**a horse** and its rider". kind: the gender of the
    pronoun, or "plural".
    """
    candidates: list[tuple[bool, bool, int]] = []  # whether it agrees exactly, whether it is a subject, its token
    subject = _subject_beside(caption, pronoun)
    # The noun that the pronoun's prepositional phrase follows stands before the prepositions: "a tree | behind it".
    before = pronoun.index - 1
    while before > 0 and (caption.tokens[before].pos in ("ADP", "ADV") or caption.lowered[before] in _PLACES):
        before -= 1
    owned = caption.tokens[pronoun.head] if pronoun.dep == "poss" else None
    for chunk in caption.chunks:
        root = caption.tokens[chunk.root]
        if root.index >= pronoun.index or root.pos not in _NOUN_POS or root.index == subject:
            continue
        is_followed_by_phrase = root.index == before < pronoun.index - 1
        gender_of_noun = _gender_if_singular(root)
        if is_followed_by_phrase or not _pronoun_fits(kind, gender_of_noun):
            continue
        if owned is not None and owned.dep == "conj" and owned.head == root.index:  # "a horse and its rider"
            return root.index == noun
        exists = root.dep == "attr" and caption.has_dependent(root.head, "expl")
        is_subject = exists or root.dep in ("nsubj", "nsubjpass", "ROOT")  # ROOT: in a caption without a verb
        candidates.append((gender_of_noun == kind, is_subject, root.index))
    if not candidates:
        # A pronoun without a noun before it means one behind it, or in a sentence before this one.
        return caption.first_token == 0 and noun > pronoun.index
    # Best is a noun of just the pronoun's gender, then a subject, then the one nearest before the pronoun.
    return max(candidates)[2] == noun


def _subject_beside(caption: Caption, pronoun: Token) -> int | None:
    """The subject that an "it" cannot mean, as "it" is part of where the subject is: "**a tree** is behind it".

    None if there is no such subject.
    """
    if pronoun.lower != "it" or pronoun.dep != "pobj":
        return None
    above = caption.tokens[pronoun.head]
    for _ in range(_DEPTH):  # up to the verb: "is (visible (right (behind (it))))"
        if above.pos in ("ADP", "ADV", "ADJ", "SCONJ"):
            above = caption.tokens[above.head]
    if above.pos not in ("VERB", "AUX") or caption.has_dependent(above.index, "dobj", "prt"):
        return None
    if caption.has_dependent(above.index, "expl"):
        return next((thing.index for thing in caption.dependents(above.index, "attr")), None)
    return next((subject.index for subject in caption.dependents(above.index, "nsubj", "nsubjpass")), None)


@cache
def indefinite_article(word: str) -> str:
    """The indefinite article before a word or phrase, by its sound.

    "an" hour, "a" uniform, "an" 8, "a" one-way sign, "an" L-shaped couch, "an" MRI, "a" UFO, "an" éclair.
    """
    # Without accents, and from the first letter or digit on.
    plain = "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
    plain = re.sub(r"^[^A-Za-z0-9]+", "", plain)
    lower = plain.lower()
    if lower[:1].isdigit():
        return "an" if _NUMBER.match(lower) else "a"
    # A word may be read letter by letter: "TV", "MRI", "suv", "L-shaped"; not "NASA".
    first = plain[: len(plain) - len(plain.lstrip(ascii_letters))]
    first_lower = first.lower()
    is_listed = first_lower in _LISTED["spelled"] or first in _LISTED["spelled_in_capitals"]
    is_no_word = bool(first) and (is_listed or _LETTERS.match(first_lower) is not None)
    if len(first) == 1 or (is_no_word and first_lower not in _LISTED["read_as_words"]):
        return "an" if lower[0] in _LISTED["vowels"] else "a"
    if lower[:1] in "aeiou":
        return "a" if _A.match(lower) else "an"
    return "an" if _AN.match(lower) else "a"


def with_article(caption: Caption, index: int, edit: Edit, following: str) -> tuple[Edit, ...]:
    """An edit, and before it one that turns "a" into "an" or "an" into "a", if the new text needs the other form.

    Args:
        caption: what is edited.
        index: the token at which `edit` begins; the article, if there is one, is the token before it.
        edit: what is inserted there.
        following: the text that then follows the article.
    """
    if index == 0 or caption.lowered[index - 1] not in ("a", "an"):
        return (edit,)
    token = caption.tokens[index - 1]
    if token.tag != "DT" or indefinite_article(following) == token.lower:
        return (edit,)
    # "AN ELEPHANT": the article is in capitals if what is inserted is.
    casing: Casing = "upper" if len(edit.new) > 1 and edit.new.isupper() else "sentence"
    return Edit(token.start, token.end, cased(indefinite_article(following), token.text, casing, first=True)), edit
