"""Semantic parsing with visual cues by UniVSE, which scores components: UniVSE (Wu et al. 2019), Table 4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ..corpus import component_ids
from ..evaluation.parsing import Score, Words, accuracy, read_questions, score_candidates
from ..figures import new_figure, write_png
from ..vectors import Phrase
from ..vocabulary import UNKNOWN_ID, WordVocabulary
from .model import UniVSE


class EmbeddedImages(NamedTuple):
    """Unit vectors of images (I, d) and of their regions (I, R, d)."""

    images: Tensor
    regions: Tensor


def parsing_accuracy(
    model: UniVSE,
    vocabulary: WordVocabulary,
    graphs: Sequence[dict[str, Any]],
    image: Sequence[int],
    embedded: EmbeddedImages,
) -> dict[str, Any]:
    """How often, in %, the image decides correctly which nouns an attribute or a relation belongs to.

    graphs, image: see `read_questions`. An attributed noun scores its highest similarity to a region, a triple its
    similarity to the whole image; for "attribute alone", the noun's own highest similarity to a region is subtracted.
    """
    images, regions = embedded

    def in_best_region(vectors: Tensor, at: Tensor) -> Tensor:
        return torch.bmm(regions[at], vectors[:, :, None])[:, :, 0].amax(1)

    def of_pairs(words: Tensor, at: Tensor) -> Tensor:
        return in_best_region(model.word_encoder(words[:, 1], words[:, 0]), at)

    def of_attributes(words: Tensor, at: Tensor) -> Tensor:
        return of_pairs(words, at) - in_best_region(model.word_encoder(words[:, 1]), at)

    def of_triples(words: Tensor, at: Tensor) -> Tensor:
        return (images[at] * model.triples(words)).sum(1)

    def of_names(score: Callable[[Tensor, Tensor], Tensor]) -> Score:
        def scored(names: Sequence[Words], at: Tensor) -> Tensor:
            ids = torch.tensor([component_ids(vocabulary, words) for words in names], device=images.device)
            return score(ids, at.to(images.device))

        return scored

    known = {name: component_ids(vocabulary, [name])[0] != UNKNOWN_ID for name in _names(graphs)}
    questions = read_questions(graphs, image, known.__getitem__)
    scores = {"attribute": of_pairs, "attribute alone": of_attributes, "relation": of_triples}
    return {
        name: accuracy(own, score_candidates(own, of_names(score)))
        for name, score in scores.items()
        if (own := questions.get(name.split()[0], []))
    }


def _names(graphs: Sequence[dict[str, Any]]) -> set[str]:
    """The names of all objects, attributes and relations."""
    parts = (("objects", "object"), ("attributes", "attribute"), ("relations", "relation"))
    return {item[name] for graph in graphs for column, name in parts for item in graph[column]}


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
