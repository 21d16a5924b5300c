"""Tables of the parser's two components without weights: attribute ruler and lemmatizer (words in lexical.toml).

Attributes: UPOS from Penn tag, dependency label and, for a few words, form. They follow the conventions of
`en_core_web_*`: "be" is AUX also as a copula, auxiliaries are AUX, "that" without a noun is PRON, a subordinating "if"
is SCONJ, "to" before a verb is PART. All patterns compare plain attributes (no sets, no regular expressions), which the
matcher does without calling Python.

Lemmas: spaCy's English lemmatizer looks up a lower-cased form in `lemma_exc[pos]`, then tries the suffix rules
`lemma_rules[pos]`; it takes the last result that is in `lemma_index[pos]`, or if none is, the first result. With the
published tables, "riding" becomes "rid", "vases" becomes "vas", "cookies" becomes "cooky", "is" (AUX) stays as it is,
and lemmas of closed-class words are never cached. Here the rules are ordered such that the last one is right ("ing" ->
"e" after "ing" -> ""), all other parts of speech get the identity rule, and index entries without effect (90 %) are
dropped.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from spacy.lookups import Table, load_lookups

WORDS = tomllib.loads(Path(__file__).with_name("lexical.toml").read_text("utf-8"))
TAG_TO_POS = {pair.rpartition(":")[0]: pair.rpartition(":")[2] for pair in WORDS["tags"].split()}
VERB_TAGS = ("VB", "VBD", "VBG", "VBN", "VBP", "VBZ")
BE = ("be", "am", "is", "are", "was", "were", "been", "being", "'s", "'m", "'re", "’s", "’m", "’re")
NOMINAL_DEPS = ("nsubj", "nsubjpass", "dobj", "pobj", "dative", "attr", "conj", "ROOT", "appos", "pcomp")
IDENTITY = ["", ""]  # the rule that keeps a word as it is
# Pairs of an ending and what replaces it. A pair of equal endings keeps words that end so, such as all that do not end
# in "s": so an uninflected noun has a lemma. Of several lemmas that are found, the last known one counts.
RULES: dict[str, list[list[str]]] = {
    "noun": [
        *([letter, letter] for letter in ascii_lowercase if letter != "s"),
        *([end, end] for end in ("ss", "us", "is")),
        *([end + "es", end] for end in ("s", "x", "z", "ch", "sh")),
        ["men", "man"], ["ies", "y"], ["ves", "f"], ["s", ""],
    ],
    "verb": [
        *([letter, letter] for letter in ascii_lowercase if letter not in "sdg"),
        *([vowel + end, vowel + end] for end in "dg" for vowel in "aou"),
        *([end, end] for end in ("id", "nd", "ld", "rd", "ong", "ang", "ung", "ss")),
        ["s", ""], ["ies", "y"], ["es", ""], ["es", "e"], ["ed", ""], ["ed", "e"], ["ing", ""], ["ing", "e"],
    ],
    "adj": [IDENTITY, ["er", ""], ["est", ""], ["er", "e"], ["est", "e"], ["ier", "y"], ["iest", "y"]],
    **{pos: [IDENTITY] for pos in "adp adv aux cconj det intj num part pron punct sconj sym x".split()},
}  # fmt: skip
OPEN = ("noun", "verb", "adj")
# Lemmas with these endings look inflected, and must be exceptions.
LOOKS_INFLECTED = {"noun": ("s",), "verb": ("s", "ed", "ing")}

# As spaCy has it: {"patterns": [[attributes of a token]], "attrs": what it gets}.
Pattern = dict[str, Any]
# A table has an entry for each part of speech.
LemmaTable = dict[str, object]


def attribute_patterns() -> list[Pattern]:
    """Return the patterns for `AttributeRuler.add_patterns`; if several match a word, the last one applies."""
    tokens: list[tuple[dict[str, str], str]] = [({"TAG": tag}, pos) for tag, pos in TAG_TO_POS.items()]
    tokens += [({"TAG": tag, "DEP": dep}, "AUX") for tag in VERB_TAGS for dep in ("aux", "auxpass")]
    tokens += [({"TAG": tag, "LOWER": form}, "AUX") for tag in VERB_TAGS for form in BE]
    tokens += [({"TAG": "DT", "DEP": dep}, "PRON") for dep in NOMINAL_DEPS]
    tokens += [({"TAG": "IN", "DEP": "mark"}, "SCONJ"), ({"TAG": "WDT", "DEP": "det"}, "DET")]
    tokens += [({"TAG": "RB", "LOWER": form}, "PART") for form in ("not", "n't", "n’t")]
    others = ("other", "others")
    tokens += [({"LOWER": form, "TAG": "JJ", "DEP": dep}, "NOUN") for form in others for dep in NOMINAL_DEPS]
    return [{"patterns": [[token]], "attrs": {"POS": pos}} for token, pos in tokens]


@cache
def lemma_tables() -> dict[str, LemmaTable]:
    """The tables of spaCy's rule lemmatizer, made from spacy-lookups-data, which is needed only for training.

    `lemma_rules` replace endings ("ies" by "y"), `lemma_exc` has irregular forms, and `lemma_index` the lemmas that the
    rules may find.
    """
    lookups = load_lookups("en", ["lemma_exc", "lemma_index"])
    published = lookups.get_table("lemma_index")
    index = {pos: {word for word in published.get(pos) if word.isalpha()} for pos in OPEN}
    exceptions = _irregular_lemmas(lookups.get_table("lemma_exc"), index)
    for pos in OPEN:
        # With "leave" in the index, the exception leaves -> leaf would not be found, so such lemmas are removed. Then
        # the index is cut down to the lemmas that change a result.
        _remove_shadowing(RULES[pos], exceptions[pos], index[pos])
        index[pos] = _smallest_equivalent_index(pos, exceptions[pos], index[pos])
    indexed: LemmaTable = {pos: dict.fromkeys(sorted(words), True) for pos, words in index.items()}
    return {"lemma_rules": {**RULES}, "lemma_exc": {**exceptions}, "lemma_index": indexed}


def _irregular_lemmas(published: Table, index: Mapping[str, set[str]]) -> dict[str, dict[str, list[str]]]:
    """The lemmas of irregular forms, by part of speech.

    published: the exceptions of spacy-lookups-data, with several lemmas for some forms, the usual one first. index: the
    known lemmas, by part of speech.
    """
    exceptions: dict[str, dict[str, list[str]]] = {}
    # The published exceptions of single words. Adverbs have some ("best"), but no rules or index.
    for pos in (*OPEN, "adv"):
        exceptions[pos] = {
            form: lemmas[:1] for form, lemmas in published.get(pos).items() if form.isalpha() and "_" not in lemmas[0]
        }
    # Words that the rules would shorten: "bus" looks like a plural and is none.
    for pos, endings in LOOKS_INFLECTED.items():
        for word in sorted(index[pos]):
            if word.endswith(endings) and not _is_plural(word, index[pos]):
                exceptions[pos][word] = [word]
    # Last the word lists of lexical.toml, which overrule the others.
    for pos, pairs in WORDS["forms"].items():
        for pair in pairs.split():
            form, lemma_of_form = pair.split(":")
            exceptions[pos][form] = [lemma_of_form]
    exceptions["noun"].update({word: [word] for word in WORDS["plural_words"].split()})  # "scissors"
    for pos in ("aux", "pron", "part"):
        exceptions[pos] = {form: [lemma] for lemma, forms in WORDS[pos].items() for form in forms.split()}
    return exceptions


def lemma(form: str, rules: list[list[str]], exceptions: Mapping[str, list[str]], index: set[str]) -> str:
    """Return the lemma that spaCy's rule lemmatizer finds for a form.

    Args:
        form: in lower case.
        rules: pairs of an ending and what replaces it, such as ["ies", "y"].
        exceptions: the lemmas of irregular forms.
        index: all lemmas of this part of speech.
    """
    in_index: list[str] = []
    unknown: list[str] = []
    for old, new in rules:
        if not form.endswith(old):
            continue
        candidate = form[: len(form) - len(old)] + new
        # spaCy puts a lemma that is in the index before those found earlier.
        if candidate in index:
            in_index = [candidate, *(other for other in in_index if other != candidate)]
        elif candidate and not candidate.isalpha():
            in_index.append(candidate)
        elif candidate:
            unknown.append(candidate)
    for candidate in exceptions.get(form, []):
        if candidate not in in_index:
            in_index.insert(0, candidate)
    return (in_index or unknown or [form])[0]


def _is_plural(word: str, index: set[str]) -> bool:
    """Whether a word is the regular plural (-s, -es) of a known lemma."""
    if word.endswith(("ss", "us", "is")) or word[-1] != "s" or len(word) < 4:
        return False
    return word[:-1] in index or (word.endswith("es") and word[:-2] in index)


def _remove_shadowing(rules: list[list[str]], exceptions: dict[str, list[str]], index: set[str]) -> None:
    """Remove lemmas from the index that spaCy's lemmatizer would find before an exception of the same form.

    For the noun "leaves" (exception: leaf) that is "leave", for "bus" it is "bu".
    """
    for form, (wanted, *_) in exceptions.items():
        while (result := lemma(form, rules, exceptions, index)) != wanted and result in index:
            index.discard(result)


def _smallest_equivalent_index(pos: str, exceptions: Mapping[str, list[str]], index: set[str]) -> set[str]:
    """Return a small subset of the index that gives every regular inflection the same lemma as the whole index."""
    rules = RULES[pos]
    forms = (form for word in sorted(index) for form in _inflections(word, pos))
    wanted = {form: lemma(form, rules, exceptions, index) for form in forms}
    subset: set[str] = set()
    # Repeated, as a lemma that is added to the subset may change the results of other forms.
    while True:
        wrong = {result for form, result in wanted.items() if lemma(form, rules, exceptions, subset) != result}
        missing = wrong & index
        if missing <= subset:
            return subset
        subset |= missing


def _inflections(word: str, pos: str) -> Iterator[str]:
    """Yield the word and its regular inflected forms, including wrong ones ("walkes"), to compare tables on."""
    yield word
    stems = {word, word[:-1]} if word.endswith("e") else {word}
    endings = {"noun": ("s", "es"), "verb": ("s", "es", "ed", "ing"), "adj": ("er", "est")}[pos]
    for stem in sorted(stems):
        yield from (stem + ending for ending in endings)
    if word.endswith("y"):
        yield from (word[:-1] + ending for ending in ("ies", "ied", "ier", "iest"))
