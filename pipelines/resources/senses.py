"""Find the senses that nouns mostly have in captions: a van is a vehicle there, not an avant-garde.

WordNet orders senses by a small corpus of essays and news. The predominant sense in other texts is found as McCarthy,
Koeling, Weeds and Carroll (ACL 2004) do: the words that are used most like a word vote for those of its senses to which
they are similar in WordNet. Here words are used alike if their vectors in the cloze model are near. Similarity is that
of Lin (ICML 1998), with the information content of Seco, Veale and Hayes (ECAI 2004), which needs no corpus:

    prevalence(s) = sum over neighbours n of cos(w, n) * sim(s, n) / (sum over senses t of w of sim(t, n))
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import log
from pathlib import Path

import numpy as np

from ...augment.cloze.model import ClozeModel
from ...augment.language.wordnet import WordNet

NEIGHBOURS = 20  # of a noun, at most
# The score of a sense is multiplied by this power of how often WordNet's corpora have it, plus one.
PRIOR = 0.3
LEAST_LETTERS = 3  # of a word that gets a sense
# The table of the TOML file that is written; what the file has before it is kept.
TABLE = "[by_neighbours]\n"


class LinSimilarity:
    """Lin's similarity of noun synsets, from 0 to 1: the information that they share in relation to what they have."""

    def __init__(self, wordnet: WordNet) -> None:
        """Compute the information content of each noun synset: 1 if it has no hyponyms, 0 for "entity"."""
        self.wordnet = wordnet
        nouns = [synset for synset in range(len(wordnet)) if wordnet.pos(synset) == "n"]
        # How many hyponyms each synset has, itself included.
        hyponyms = np.zeros(len(wordnet), int)
        for synset in nouns:
            hyponyms[list(wordnet.closure(synset))] += 1
        self.information = (1 - np.log(np.maximum(hyponyms, 1)) / log(len(nouns))).tolist()

    @cache  # noqa: B019  # there is one instance, for as long as the command runs
    def between(self, first: int, second: int) -> float:
        """The similarity of two synsets: twice the information of their best common hypernym, over that of both."""
        shared = self.wordnet.closure(first) & self.wordnet.closure(second)
        total = self.information[first] + self.information[second]
        if not shared or not total:
            return 0.0
        return 2 * max(self.information[synset] for synset in shared) / total


def predominant_senses(wordnet: WordNet, model: ClozeModel) -> dict[str, str]:
    """The name of the predominant sense of each noun in the model's vocabulary for which it is not the first sense."""
    similarity = LinSimilarity(wordnet)
    words = [unit for unit in model.units.names if len(unit) >= LEAST_LETTERS and wordnet.senses(unit, "n")]
    vectors = model.embedding[model.numbers(words)].astype(float)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    # Words that are mostly verbs, such as "walk", do not vote.
    may_vote = np.array([sum(wordnet.tag_counts(w, "n")) >= 0.5 * sum(wordnet.tag_counts(w, "v")) for w in words])
    predominant: dict[str, str] = {}
    for word, vector in zip(words, vectors, strict=True):
        first = wordnet.senses(word, "n")[0]
        senses = [synset for synset in wordnet.senses(word, "n") if not wordnet.relation("instance_of", synset)]
        if len(senses) < 2:
            continue
        cosine = np.where(may_vote, vectors @ vector, -1.0)  # (words,); -1: never among the nearest
        neighbours = _nearest_words(word, words, cosine)
        scores = _prevalence_of_senses(senses, [(words[i], cosine[i]) for i in neighbours], similarity)
        # WordNet's own counts have a say, but a small one: they are of essays and news.
        tags = dict(zip(wordnet.senses(word, "n"), wordnet.tag_counts(word, "n"), strict=True))
        scores *= np.array([tags[sense] + 1.0 for sense in senses]) ** PRIOR
        # Rounded, so that the order of additions decides nothing.
        best = senses[int(np.argmax(scores.round(6)))]
        if best != first:
            predominant[word] = wordnet.name(best)
    return predominant


def _nearest_words(word: str, words: Sequence[str], cosine: np.ndarray) -> list[int]:
    """The indices in `words` of those nearest to a word, the nearest first, without its own forms and phrases with it.

    `cosine` is that of the word's vector to each of `words`.
    """
    forms = (word, f"{word}s", f"{word}es")
    in_order = np.argsort(-cosine).tolist()
    others = [i for i in in_order if words[i] not in forms and word not in words[i].split()]
    return others[:NEIGHBOURS]


def _prevalence_of_senses(
    senses: Sequence[int], neighbours: Sequence[tuple[str, float]], similarity: LinSimilarity
) -> np.ndarray:
    """How prevalent each sense of a noun is, (senses,).

    Each neighbour n of the noun w has a vote cos(w, n), shared among the senses s in proportion to sim(s, n).

    Args:
        senses: the noun's synsets.
        neighbours: nouns that are used alike, with the cosines of their vectors to the noun's. WordNet must have each.
        similarity: of two synsets.
    """
    scores = np.zeros(len(senses))
    for neighbour, cosine in neighbours:
        neighbour_senses = similarity.wordnet.senses(neighbour, "n")
        # (senses,): the similarity of each sense to the neighbour's sense that is nearest to it.
        nearest = np.array([max(similarity.between(sense, other) for other in neighbour_senses) for sense in senses])
        scores += cosine * nearest / max(nearest.sum(), 1e-9)
    return scores


def build(model: Path, output: Path) -> None:
    """Write the predominant senses of nouns to the table `by_neighbours` of the TOML file `output`.

    model: the file of a cloze model, whose vectors say which words are used alike. What the file has before that table
    is kept. Raises FileNotFoundError or ValueError if the model cannot be read.
    """
    senses = predominant_senses(WordNet.load(), ClozeModel.load(model))
    before = output.read_text("utf-8").partition(TABLE)[0] if output.exists() else ""
    lines = [f'"{word}" = "{name}"\n' for word, name in sorted(senses.items())]
    output.write_text(before + TABLE + "".join(lines), "utf-8")
    print(f"{output}: {len(senses)} nouns")
