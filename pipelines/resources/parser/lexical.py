"""Patterns for spaCy's attribute ruler: UPOS from Penn tag, dependency label and, for a few words, form.

They follow the conventions of `en_core_web_*`: "be" is AUX also as a copula, auxiliaries are AUX, "that" without a noun
is PRON, a subordinating "if" is SCONJ, "to" before a verb is PART. All patterns compare plain attributes (no sets, no
regular expressions), which the matcher does without calling Python.
"""

from typing import Any

TAG_TO_POS = {
    "NN": "NOUN", "NNS": "NOUN", "NNP": "PROPN", "NNPS": "PROPN", "JJ": "ADJ", "JJR": "ADJ", "JJS": "ADJ",
    "AFX": "ADJ", "RB": "ADV", "RBR": "ADV", "RBS": "ADV", "WRB": "SCONJ", "VB": "VERB", "VBD": "VERB",
    "VBG": "VERB", "VBN": "VERB", "VBP": "VERB", "VBZ": "VERB", "MD": "AUX", "IN": "ADP", "RP": "ADP",
    "TO": "PART", "POS": "PART", "DT": "DET", "PDT": "DET", "PRP": "PRON", "PRP$": "PRON", "WP": "PRON",
    "WP$": "PRON", "WDT": "PRON", "EX": "PRON", "CC": "CCONJ", "CD": "NUM", "UH": "INTJ", "$": "SYM",
    "SYM": "SYM", "ADD": "X", "FW": "X", "GW": "X", "LS": "X", ".": "PUNCT", ",": "PUNCT", ":": "PUNCT",
    "``": "PUNCT", "''": "PUNCT", "-LRB-": "PUNCT", "-RRB-": "PUNCT", "HYPH": "PUNCT", "NFP": "PUNCT",
    "_SP": "SPACE",
}  # fmt: skip
VERB_TAGS = ("VB", "VBD", "VBG", "VBN", "VBP", "VBZ")
BE = ("be", "am", "is", "are", "was", "were", "been", "being", "'s", "'m", "'re", "’s", "’m", "’re")
NOMINAL_DEPS = ("nsubj", "nsubjpass", "dobj", "pobj", "dative", "attr", "conj", "ROOT", "appos", "pcomp")


def attribute_patterns() -> list[dict[str, Any]]:
    """Return the patterns for `AttributeRuler.add_patterns`; if several match a word, the last one applies."""
    patterns = [_pattern({"TAG": tag}, pos) for tag, pos in TAG_TO_POS.items()]
    patterns += [_pattern({"TAG": tag, "DEP": dep}, "AUX") for tag in VERB_TAGS for dep in ("aux", "auxpass")]
    patterns += [_pattern({"TAG": tag, "LOWER": form}, "AUX") for tag in VERB_TAGS for form in BE]
    patterns += [_pattern({"TAG": "DT", "DEP": dep}, "PRON") for dep in NOMINAL_DEPS]
    patterns += [_pattern({"TAG": "IN", "DEP": "mark"}, "SCONJ"), _pattern({"TAG": "WDT", "DEP": "det"}, "DET")]
    patterns += [_pattern({"TAG": "RB", "LOWER": form}, "PART") for form in ("not", "n't", "n’t")]
    patterns += [
        _pattern({"LOWER": form, "TAG": "JJ", "DEP": dep}, "NOUN")
        for form in ("other", "others")
        for dep in NOMINAL_DEPS
    ]
    return patterns


def _pattern(token: dict[str, str], pos: str) -> dict[str, Any]:
    return {"patterns": [[token]], "attrs": {"POS": pos}}
