"""How concrete a noun is: a score predicted from WordNet, or a list of norms given by the user."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import isfinite, nan
from pathlib import Path

from ..data import data_path
from .semantic_classes import head_word, is_person
from .wordnet import WordNet

# Nouns below this score are abstract: of those that captions have in the plural, "element", "detail", "effect",
# "texture", "expression", "action" are below, "line", "shadow", "case" are above.
ABSTRACT = 0.45
# What photos show although the score is below: in WordNet most senses of these are abstract.
SHOWN = frozenset(
    "sign light step swing signal firetruck stoplight spotlight portrait drawing advertisement pattern design "
    "background wave smile".split()
)


def concreteness_features(noun: str) -> dict[str, float] | None:
    """The features of a noun for predicting concreteness; None for a word that is not a noun in WordNet.

    Each sense has weight tag count + 1. Features: for each WordNet hypernym, the share of senses below it; the share of
    each lexicographer file (also of verb and adjective senses) and part of speech; the shares of senses with parts and
    of proper names; the mean number of ancestors / 10; the number of letters / 10. Nearly all lie in [0, 1].
    """
    wordnet = WordNet.load()
    if not wordnet.senses(noun, "n"):
        return None
    values: defaultdict[str, float] = defaultdict(float, length=len(noun) / 10)
    uses_of_pos = {}
    # A sense that is never tagged still counts a little, and a word without tags half a use of each part of speech.
    for pos in "nvar":
        senses = wordnet.senses(noun, pos)
        weights = [count + 1 for count in wordnet.tag_counts(noun, pos)]
        if senses:
            uses_of_pos[pos] = sum(weights) - len(weights) + 0.5  # without the 1 that each weight has more
        for synset, weight in zip(senses, weights, strict=True):
            share = weight / sum(weights)
            values[f"lexname:{wordnet.lexname(synset)}"] += share
            if pos == "n":
                above = wordnet.closure(synset)
                values["depth"] += share * len(above) / 10
                values["parts"] += share * wordnet.has_parts(synset)
                values["instance"] += share * bool(wordnet.relation("instance_of", synset))
                for ancestor in above:
                    values[wordnet.name(ancestor)] += share
    for pos, uses in uses_of_pos.items():
        values[f"pos:{pos}"] = uses / sum(uses_of_pos.values())
    return dict(values)


@dataclass(frozen=True)
class Concreteness:
    """Concreteness scores of nouns: looked up in `norms` if given, else linear in `concreteness_features`."""

    norms: Mapping[str, float] | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    intercept: float = 0.0

    @classmethod
    def load(cls, path: Path | None = None) -> Concreteness:
        """The shipped score, or the norms in the file `path`: one `word<TAB>score` per line, plain or gzipped.

        Raises ValueError naming file and line if a file has another form, FileNotFoundError.
        """
        return _shipped_score() if path is None else cls(norms=read_norms(path))

    def score(self, noun: str) -> float | None:
        """The noun's score on the scale of the norms, where VSE-C's threshold is 0.6; None for an unknown noun.

        An unknown compound has the score of its head: "tennis racket" that of "racket".
        """
        for word in (noun, noun.rpartition(" ")[2]):
            if self.norms is not None:
                if word in self.norms:
                    return self.norms[word]
            elif (features := concreteness_features(word)) is not None:
                return self.intercept + sum(self.weights.get(name, 0.0) * value for name, value in features.items())
        return None


@cache
def is_abstract(noun: str) -> bool:
    """Whether a noun names nothing that can be counted or coloured in a photo, by the shipped score: "an element"."""
    if head_word(noun) in SHOWN or is_person(noun):
        return False
    score = Concreteness.load().score(noun)
    return score is not None and score < ABSTRACT


@cache
def _shipped_score() -> Concreteness:
    """The score of data/concreteness.json: a weight for each feature of a noun, and the intercept."""
    model = json.loads(data_path("concreteness.json").read_text("utf-8"))
    return Concreteness(weights=model["weights"], intercept=model["intercept"])


def read_norms(path: Path) -> dict[str, float]:
    """Read a list of norms as a dict from lower-case words to scores.

    Raises ValueError naming file and line, FileNotFoundError.
    """
    norms = {}
    number = 0
    try:
        opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")
        with opened as lines:
            for number, line in enumerate(lines, start=1):
                word, _, score = line.rstrip("\n").partition("\t")
                try:
                    value = float(score)
                except ValueError:
                    value = nan
                if not word.strip() or not isfinite(value):
                    raise ValueError(f"{path}:{number}: a line must be word<TAB>score, was: {line.strip()[:60]}")
                norms[word.strip().lower()] = value
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"{path}:{number + 1}: must be UTF-8 text, plain or gzipped: {error}") from error
    if not norms:
        raise ValueError(f"{path}: must hold at least one line word<TAB>score, was empty")
    return norms
