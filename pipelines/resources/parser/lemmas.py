"""Lemma tables for spaCy's rule lemmatizer, corrected, completed and pruned.

spaCy's English lemmatizer looks up a lower-cased form in `lemma_exc[pos]`, then tries the suffix rules
`lemma_rules[pos]`; it takes the last result that is in `lemma_index[pos]`, or if none is, the first result. With the
published tables, "riding" becomes "rid", "vases" becomes "vas", "cookies" becomes "cooky", "is" (AUX) stays as it is,
and lemmas of closed-class words are never cached. Here the rules are ordered such that the last one is right ("ing" ->
"e" after "ing" -> ""), all other parts of speech get the identity rule, and index entries without effect (90 %) are
dropped.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from string import ascii_lowercase
from typing import Any

IDENTITY = ["", ""]
VERB_RULES = [
    *([letter, letter] for letter in ascii_lowercase if letter not in "sdg"),
    *([vowel + end, vowel + end] for end in "dg" for vowel in "aou"), ["id", "id"], ["nd", "nd"], ["ld",
    "ld"],
    ["rd", "rd"], ["ong", "ong"], ["ang", "ang"], ["ung", "ung"], ["ss", "ss"],
    ["s", ""], ["ies", "y"], ["es", ""], ["es", "e"], ["ed", ""], ["ed", "e"], ["ing", ""], ["ing", "e"],
]  # fmt: skip
NOUN_RULES = [
    *([letter, letter] for letter in ascii_lowercase if letter != "s"), ["ss", "ss"], ["us", "us"], ["is",
    "is"],
    ["ses", "s"], ["xes", "x"], ["zes", "z"], ["ches", "ch"], ["shes", "sh"], ["men", "man"], ["ies", "y"],
    ["ves", "f"], ["s", ""],
]  # fmt: skip
ADJECTIVE_RULES = [IDENTITY, ["er", ""], ["est", ""], ["er", "e"], ["est", "e"], ["ier", "y"], ["iest", "y"]]
CLOSED = ("adp", "adv", "aux", "cconj", "det", "intj", "num", "part", "pron", "punct", "sconj", "sym", "x")
AUXILIARIES = {
    "be": ("am", "is", "are", "was", "were", "been", "being", "'m", "'re", "'s", "’m", "’re", "’s", "ai"),
    "have": ("has", "had", "having", "'ve", "’ve"),
    "do": ("does", "did", "done", "doing"),
    "will": ("'ll", "’ll", "wo"),
    "can": ("ca",),
    "get": ("gets", "got", "getting", "gotten"),
}  # fmt: skip
PRONOUNS = {"I": ("i", "me"), "he": ("him",), "they": ("them", "'em"), "we": ("us",)}
PARTICLES = {"not": ("n't", "n’t")}
# Things that are worn or held as one: in captions and WordNet the plural form is the lemma.
PLURAL_WORDS = ("binoculars", "clothes", "goggles", "headphones", "jeans", "overalls", "pajamas", "pants",
    "scissors",
                "shorts", "sunglasses", "tights", "trousers")  # fmt: skip
NOUN_FORMS = {"leaves": "leaf", "loaves": "loaf", "hooves": "hoof", "scarves": "scarf", "men": "man",
    "axes": "axe",
              "masses": "mass", "lenses": "lens", "women": "woman", "gas": "gas", "bus": "bus",
              "lens": "lens", "news": "news",
              "selfies": "selfie"}  # fmt: skip
VERB_FORMS = {"singing": "sing", "swinging": "swing", "tinged": "tinge", "lit": "light", "lay": "lie",
    "lying": "lie",
              "left": "leave", "leaves": "leave", "laid": "lay", "felt": "feel", "saw": "see",
              "found": "find",
              "wound": "wind", "bound": "bind"}  # fmt: skip
ADJECTIVE_FORMS = {word: word for word in ("outer", "upper", "inner", "lower", "other")}


@cache
def lemma_tables() -> dict[str, dict[str, Any]]:
    """Build `lemma_rules`, `lemma_exc` and `lemma_index` from spacy-lookups-data, which is needed only for training."""
    from spacy.lookups import load_lookups

    lookups = load_lookups("en", ["lemma_exc", "lemma_index"])
    index = {
        pos: {word for word in lookups.get_table("lemma_index").get(pos) if word.isalpha()}
        for pos in ("noun", "verb", "adj")
    }
    published = lookups.get_table("lemma_exc")
    exceptions: dict[str, dict[str, list[str]]] = {
        pos: {
            form: lemmas[:1] for form, lemmas in published.get(pos).items() if form.isalpha() and "_" not in lemmas[0]
        }
        for pos in ("noun", "verb", "adj", "adv")
    }
    rules: dict[str, list[list[str]]] = {"noun": NOUN_RULES, "verb": VERB_RULES, "adj": ADJECTIVE_RULES}
    rules.update({pos: [IDENTITY] for pos in CLOSED})
    for pos, endings in (("noun", ("s",)), ("verb", ("s", "ed", "ing"))):
        for word in sorted(index[pos]):
            if word.endswith(endings) and not _is_plural(word, index[pos]):
                exceptions[pos][word] = [word]
    for pos, forms in (("noun", NOUN_FORMS), ("verb", VERB_FORMS), ("adj", ADJECTIVE_FORMS)):
        exceptions[pos].update({form: [lemma] for form, lemma in forms.items()})
    exceptions["noun"].update({word: [word] for word in PLURAL_WORDS})
    for pos, table in (("aux", AUXILIARIES), ("pron", PRONOUNS), ("part", PARTICLES)):
        exceptions[pos] = {form: [lemma] for lemma, inflected in table.items() for form in inflected}
    for pos in index:
        _remove_shadowing(rules[pos], exceptions[pos], index[pos])
        index[pos] = _prune(rules[pos], exceptions[pos], index[pos])
    return {
        "lemma_rules": rules,
        "lemma_exc": exceptions,
        "lemma_index": {pos: dict.fromkeys(sorted(words), True) for pos, words in index.items()},
    }


def lemma(form: str, rules: list[list[str]], exceptions: Mapping[str, list[str]], index: set[str]) -> str:
    """Return the lemma that spaCy's rule lemmatizer finds for a form with these tables of one part of speech."""
    found: list[str] = []
    unknown: list[str] = []
    for old, new in rules:
        if form.endswith(old):
            result = form[: len(form) - len(old)] + new
            if result in index:
                found = [result, *(other for other in found if other != result)]
            elif result:
                (unknown if result.isalpha() else found).append(result)
    for result in exceptions.get(form, []):
        if result not in found:
            found.insert(0, result)
    return (found or unknown or [form])[0]


def inflections(word: str, pos: str) -> Iterator[str]:
    """Yield the word and its regular inflected forms, including wrong ones ("walkes"), to compare tables on."""
    yield word
    stems = {word, word[:-1]} if word.endswith("e") else {word}
    endings = {"noun": ("s", "es"), "verb": ("s", "es", "ed", "ing"), "adj": ("er", "est")}[pos]
    for stem in sorted(stems):
        yield from (stem + ending for ending in endings)
    if word.endswith("y"):
        yield from (word[:-1] + ending for ending in ("ies", "ied", "ier", "iest"))


def _is_plural(word: str, index: set[str]) -> bool:
    if word.endswith(("ss", "us", "is")) or word[-1] != "s" or len(word) < 4:
        return False
    return word[:-1] in index or word.endswith("es") and word[:-2] in index


def _remove_shadowing(rules: list[list[str]], exceptions: dict[str, list[str]], index: set[str]) -> None:
    """Remove index entries that would take precedence over exceptions: "leave" for "leaves", "bu" for "bus"."""
    for form, (wanted, *_) in exceptions.items():
        while (result := lemma(form, rules, exceptions, index)) != wanted and result in index:
            index.discard(result)


def _prune(rules: list[list[str]], exceptions: Mapping[str, list[str]], index: set[str]) -> set[str]:
    """Return a small subset of the index that gives every regular inflection the same lemma as the whole index."""
    pos = "noun" if rules is NOUN_RULES else "verb" if rules is VERB_RULES else "adj"
    wanted = {form: lemma(form, rules, exceptions, index) for word in sorted(index) for form in inflections(word, pos)}
    kept: set[str] = set()
    changed = True
    while changed:
        wrong = {result for form, result in wanted.items() if lemma(form, rules, exceptions, kept) != result}
        changed = bool((wrong & index) - kept)
        kept |= wrong & index
    return kept
