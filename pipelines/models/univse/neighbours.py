"""Words, attributed nouns and triples of the joint space in the plane, by t-SNE (UniVSE, supplement, Figure 6)."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from torch import Tensor

from negcap.pipelines.engine.shards import write_atomically
from negcap.pipelines.models.trainer.unified import Phrase
from negcap.pipelines.models.univse.model import UniVSE
from negcap.pipelines.models.vocabulary import Vocabulary

# kind of the vocabulary: title, how many of the most frequent, and which of its words decides the colour
PANELS = {
    "noun": ("nouns", 120, None),
    "attribute_noun": ("attributed nouns, by attribute", 120, 0),
    "triple": ("triples, by relation", 90, 1),
}
COLOURS = 10
PERPLEXITY = 12


def frequent_phrases(vocabulary: pa.Table, kind: str, most: int) -> list[Phrase]:
    """The most frequent entries of a kind in `component_vocabulary`."""
    rows = zip(vocabulary["kind"].to_pylist(), vocabulary["words"].to_pylist(), strict=True)
    return [Phrase(tuple(words), " ".join(words)) for its, words in rows if its == kind][:most]


def plane(vectors: Tensor, seed: int) -> np.ndarray:
    """Vectors (n, d) in the plane, (n, 2): t-SNE by their cosines, from their principal components."""
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    made = TSNE(perplexity=perplexity, metric="cosine", init="pca", learning_rate="auto", random_state=seed)
    return made.fit_transform(vectors.cpu().double().numpy())


def draw_plane(model: UniVSE, words: Vocabulary, vocabulary: pa.Table, path: Path, seed: int = 0) -> None:
    """Draw the most frequent nouns, attributed nouns and triples of `component_vocabulary` as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(30, 10), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, (kind, (title, most, decides)) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        axis.set_axis_off()
        axis.set_title(title, fontsize=16)
        phrases = frequent_phrases(vocabulary, kind, most)
        if len(phrases) < 5:
            continue
        places = plane(model.queries(words, phrases), seed)
        axis.scatter(*places.T, s=4, c="lightgray")
        for phrase, place, colour in zip(phrases, places, _colours(phrases, decides), strict=True):
            axis.annotate(phrase.text, place, fontsize=10, color=colour, ha="center")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=100, metadata={"Software": None})
    write_atomically(path, drawn.getvalue())


def _colours(phrases: Sequence[Phrase], decides: int | None) -> list[str]:
    """A colour for each of the most frequent words that decide; black for others."""
    if decides is None:
        return ["black"] * len(phrases)
    common = Counter(phrase.words[decides] for phrase in phrases).most_common(COLOURS)
    colour = {word: f"C{n}" for n, (word, _) in enumerate(common)}
    return [colour.get(phrase.words[decides], "black") for phrase in phrases]
