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
from .semantic_classes import Gender, gender

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
_LISTED: dict[str, frozenset[str]] = _WORDS["letters"]
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
_NUMBER = re.compile(r"8|1[18](?:\d\d)?(?!\d)|1[18](?:,?\d{3})+(?!\d)")  # eight, eleven, eighteen and their thousands


def singular_form(dependents: Sequence[Token], possessed: bool) -> str:
    """The form of a singular noun: "a", "some", "the" or "bare" (no determiner).

    dependents: those before it. possessed: whether a possessive precedes it.
    """
    words = [token.lower for token in dependents]
    if not SINGULAR_DETERMINERS.isdisjoint(words):
        return "a"
    if not MASS_DETERMINERS.isdisjoint(words):
        return "some"
    return "the" if possessed or any(token.dep in ("det", "nummod", "poss") for token in dependents) else "bare"


@cache
def _inflect() -> Any:
    """The engine of the package inflect.

    inflect lets typeguard check the arguments of its functions, which takes a second or more to set up and slows down
    each call. During the import of inflect, typeguard's decorator leaves inflect's functions unchanged; all others are
    decorated.
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
def plural(noun: str) -> str:
    """The plural of a noun or compound: "box" -> "boxes", "man" -> "men"."""
    return _inflect().plural_noun(noun)


@cache
def third_person(verb: str) -> str:
    """The third person singular present of a base form: "carry" -> "carries", "be" -> "is"."""
    if verb in ("be", "have"):
        return {"be": "is", "have": "has"}[verb]
    if re.search(r"(?:s|x|z|ch|sh|o)$", verb):
        return verb + "es"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ies"
    return verb + "s"


def agreement_edits(caption: Caption, noun: int, *, plural: bool) -> list[Edit] | None:
    """The edits that make verbs agree with the noun at token index `noun` when its number changes.

    plural: the new number. None if no edit is known to be safe.
    """
    edits = []
    for verb in _verbs(caption, caption.tokens[noun], plural=plural):
        finite = next(caption.dependents(verb.index, "aux", "auxpass"), verb)  # the word that shows agreement
        lower, new = finite.lower, None
        if finite is not verb and lower not in _PLURAL_VERBS and lower not in _SINGULAR_VERBS:
            continue
        if plural:
            if lower in _PLURAL_VERBS or finite.tag == "VBZ":
                new = _PLURAL_VERBS.get(lower, finite.lemma)
                if lower in ("'s", new):
                    return None
        elif lower in _SINGULAR_VERBS:
            new = _SINGULAR_VERBS[lower]
        elif finite.tag == "VBP" or (finite.tag == "VB" and not caption.has(finite.index, "aux")):
            new = None if finite.dep in ("aux", "auxpass") else third_person(lower)
        if new is not None:
            edits.append(Edit(finite.start, finite.end, cased_like(new, finite.text, caption.casing)))
    return edits


def _verbs(caption: Caption, noun: Token, *, plural: bool) -> Iterator[Token]:
    """The verbs that agree with a noun: its own, their conjuncts, and those of its relative clauses.

    plural: also the verb before a list, which agrees with the list's first noun: "there is a dog and a cat".
    """
    head, listed = caption.tokens[noun.head], caption.has(noun.index, "conj")
    is_subject = noun.dep in ("nsubj", "nsubjpass")
    agreeing: list[Token] = []
    if not listed and noun.dep != "conj":
        if (is_subject and head.index != noun.index) or (noun.dep == "attr" and caption.has(head.index, "expl")):
            agreeing.append(head)
    for clause in caption.dependents(noun.index, "relcl"):
        if any(c.lower in ("that", "who", "which") for c in caption.dependents(clause.index, "nsubj", "nsubjpass")):
            agreeing.append(clause)
    for verb in agreeing:
        yield verb
        while following := next(caption.dependents(verb.index, "conj"), None):
            if caption.has(following.index, "nsubj", "nsubjpass"):
                break
            yield following
            verb = following
    exists = noun.dep in ("attr", "dobj") and caption.has(head.index, "expl")
    if plural and listed and (is_subject or exists) and head.index < noun.index:
        yield head


def pronoun_edits(caption: Caption, noun: int, *, old: Gender | None, new: str, plural: bool) -> list[Edit] | None:
    """The edits that make pronouns agree with the word that replaces the noun at token index `noun`.

    old: the gender of the noun, None if it is plural. new: the lemma that replaces it. plural: whether the replacement
    is plural. None if a pronoun would lose its antecedent: "A man holding his dog" -> "A tree holding his dog".
    """
    edits = []
    for token in caption.pronouns:
        kind = _PRONOUNS.get(token.lower)
        if kind is None or token.dep == "expl":
            continue
        number, role = kind
        if token.lower == "her" and token.tag == "PRP":
            role = "object"
        following = caption.tokens[token.index + 1 : token.index + 2]
        if role == "object" and any(word.tag in ("VBZ", "MD") for word in following):
            role = "subject"  # whatever the parse makes of it: "a bird as it stands"
        if not _may_mean(number, old) or not _is_antecedent(caption, noun, token, number):
            continue
        to = gender(new)
        wanted: str = to
        if plural:
            wanted = "plural"
        elif number == "plural" and old is not None and to != "any":
            return None
        elif to == "any":
            wanted = number
            if number == "thing":
                wanted = "plural"
        if wanted != number:
            if role == "subject" or (wanted == "thing" and role != "possessive"):
                return None
            edits.append(Edit(token.start, token.end, cased_like(_FORMS[wanted, role], token.text, caption.casing)))
    return edits


def _may_mean(number: str, old: Gender | None) -> bool:
    """Whether a pronoun of this number or gender may refer to a noun of the gender `old`; None: to a plural."""
    if old is None or number == "plural":
        return number == "plural" and old in (None, "any")
    return old == "thing" or (number != "thing" and old in (number, "any"))


def _is_antecedent(caption: Caption, noun: int, pronoun: Token, number: str) -> bool:
    """Whether `noun` is the likeliest antecedent: the subject that agrees with the pronoun, else the nearest noun
    before it, but not the one that the pronoun's prepositional phrase follows: "**a house** and a tree behind it".

    Of a possessive in a list, it is the item before: "**a horse** and its rider".
    """
    nouns = []
    before = pronoun.index - 1
    while before > 0 and (caption.tokens[before].pos in ("ADP", "ADV") or caption.lowered[before] in _PLACES):
        before -= 1
    owned = caption.tokens[pronoun.head] if pronoun.dep == "poss" else None
    for chunk in caption.chunks:
        root = caption.tokens[chunk.root]
        if root.index >= pronoun.index or root.pos not in ("NOUN", "PROPN") or root.index == before < pronoun.index - 1:
            continue
        old = None if root.tag in ("NNS", "NNPS") else gender(root.lemma)
        if _may_mean(number, old):
            if owned is not None and owned.dep == "conj" and owned.head == root.index:
                return root.index == noun
            exists = root.dep == "attr" and caption.has(root.head, "expl")
            is_subject = exists or root.dep in ("nsubj", "nsubjpass", "ROOT")  # ROOT: of a caption without a verb
            nouns.append((old == number, is_subject, root.index))
    if not nouns:
        # A pronoun without a noun before it means one behind it, or in a sentence before this one.
        return caption.first_token == 0 and caption.tokens[noun].index > pronoun.index
    return max(nouns)[2] == noun


@cache
def article(word: str) -> str:
    """The indefinite article before a word or phrase, by its sound.

    "an" hour, "a" uniform, "an" 8, "a" one-way sign, "an" L-shaped couch, "an" MRI, "a" UFO, "an" éclair.
    """
    plain = "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
    plain = re.sub(r"^[^A-Za-z0-9]+", "", plain)
    lower = plain.lower()
    if lower[:1].isdigit():
        return "an" if _NUMBER.match(lower) else "a"
    first = plain[: len(plain) - len(plain.lstrip(ascii_letters))]
    word = first.lower()  # a word of several letters may be read letter by letter: "TV", "MRI", "suv"; not "NASA"
    listed = word in _LISTED["spelled"] or first in _LISTED["spelled_in_capitals"]
    if len(first) == 1 or (first and word not in _LISTED["read_as_words"] and (listed or _LETTERS.match(word))):
        return "an" if lower[0] in _LISTED["vowels"] else "a"
    if lower[:1] in "aeiou":
        return "a" if _A.match(lower) else "an"
    return "an" if _AN.match(lower) else "a"


def with_article(caption: Caption, index: int, edit: Edit, following: str) -> tuple[Edit, ...]:
    """`edit` of the caption from token `index` on, preceded by an edit of the "a" or "an" before it, if there is one
    and the text that follows it now needs the other form.
    """
    if index == 0 or caption.lowered[index - 1] not in ("a", "an"):
        return (edit,)
    token = caption.tokens[index - 1]
    if token.tag != "DT" or article(following) == token.lower:
        return (edit,)
    casing: Casing = "upper" if len(edit.new) > 1 and edit.new.isupper() else "sentence"
    return Edit(token.start, token.end, cased(article(following), token.text, casing, first=True)), edit
