"""The vectors of nouns, attributed nouns and triples in the plane, by t-SNE (UniVSE, supplement, Figure 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from torch import Tensor

from ..figures import new_figure, write_png
from ..texts import Phrase
from ..vocabulary import WordVocabulary
from .model import UniVSE


class Panel(NamedTuple):
    """A scatter plot: title, number of most frequent phrases, index of the word in a phrase that sets its colour.

    coloured_by is None for black.
    """

    title: str
    phrases: int
    coloured_by: int | None


PANELS = {
    "noun": Panel("nouns", 120, None),
    "attribute_noun": Panel("attributed nouns, by attribute", 120, 0),
    "triple": Panel("triples, by relation", 90, 1),
}  # by kind of `component_vocabulary`
COLOURS = 10
PERPLEXITY = 12


def draw_neighbours(model: UniVSE, words: WordVocabulary, components: pa.Table, path: Path, seed: int = 0) -> None:
    """Draw the most frequent nouns, attributed nouns and triples of a table component_vocabulary as a PNG.

    words: the model's vocabulary. seed: of t-SNE.
    """
    figure = new_figure(30, 10)
    for axis, (kind, panel) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        axis.set_axis_off()
        axis.set_title(panel.title, fontsize=16)
        phrases = frequent_phrases(components, kind, panel.phrases)
        if len(phrases) < 5:
            continue
        points = to_plane(model.queries(words, phrases), seed)
        axis.scatter(*points.T, s=4, c="lightgray")
        for phrase, point, colour in zip(phrases, points, _colours(phrases, panel.coloured_by), strict=True):
            axis.annotate(phrase.text, point, fontsize=10, color=colour, ha="center")
    write_png(figure, path, 100)


def frequent_phrases(components: pa.Table, kind: str, limit: int) -> list[Phrase]:
    """The first `limit` entries of a kind in a table component_vocabulary, which is sorted by descending count."""
    rows = zip(components["kind"].to_pylist(), components["words"].to_pylist(), strict=True)
    return [Phrase(tuple(words), " ".join(words)) for its, words in rows if its == kind][:limit]


def to_plane(vectors: Tensor, seed: int) -> np.ndarray:
    """Vectors (n, d) as points (n, 2): t-SNE of their cosine distances, initialized by PCA."""
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, metric="cosine", init="pca", learning_rate="auto", random_state=seed)
    return tsne.fit_transform(vectors.cpu().double().numpy())


def _colours(phrases: Sequence[Phrase], word: int | None) -> list[str]:
    """Colours of the phrases: one for each of the most frequent words at that position, black for all others."""
    if word is None:
        return ["black"] * len(phrases)
    common = Counter(phrase.words[word] for phrase in phrases).most_common(COLOURS)
    colour = {name: f"C{n}" for n, (name, _) in enumerate(common)}
    return [colour.get(phrase.words[word], "black") for phrase in phrases]
