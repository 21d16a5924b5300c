"""What an embedding knows of how general a caption is: lengths and compositions.

Vendrov et al. (2016), section 4.6 and supplement. A longer caption says more, so it lies below a shorter one of the
same image; what says two things lies below both, so their composition is the coordinate-wise maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from ....schemas.captions import LANGUAGE
from ...engine.tables import has_table
from ..data import Phrase, read_caption_rows
from ..device import choose_device
from ..evaluation.components import average_precision
from ..evaluation.retrieval import TIE, embed_split, own_scores
from ..figures import markdown_table, write_results
from ..similarities import COSINE, Similarity
from ..trainer.evaluate import load_with_corpus
from ..trainer.objectives import OBJECTIVES
from .config import LengthConfig

PAPER = "cosine 9.7 and 47.6, order 6.4 and 34.0"  # mean ranks of section 4.6
TOP = 5
EXAMPLES = 10  # compositions whose best images are written


class Split(NamedTuple):
    """Embedded captions and images: images (I, d), captions (n, d), the image of each (n,), and its words (n,)."""

    images: Tensor
    captions: Tensor
    owner: Tensor
    words: Tensor


def measure_lengths(model_folder: Path, run: Path, config: LengthConfig, output: Path) -> str:
    """Measure lengths, and compositions if the run has components; returns tables as Markdown.

    Writes lengths.md, with the best images of the most frequent compositions, and lengths.json to `output`. Raises
    FileNotFoundError or ValueError for a folder without a trained model, one that needs components, a run without the
    split or features of the model's size, or images without two captions of different length.
    """
    torch.set_num_threads(config.threads)
    model, trained, corpus = load_with_corpus(model_folder, run, choose_device(config.device))
    if OBJECTIVES[trained.model].needs_components:
        raise ValueError(f"lengths are measured of models that read only sentences, {model_folder} is: {trained.model}")
    language = corpus.captions.languages[0]
    chosen = corpus.captions.to_evaluate(config.split, corpus.features.available, config.limit, None, language)
    embedded, words = embed_split(model, corpus, chosen), corpus.texts.offsets.diff()[chosen] - 2  # without the marks
    split, images = Split(embedded.images, embedded.vectors, embedded.owner, words), len(embedded.images)
    metrics: dict[str, Any] = {"model": trained.model, "similarity": trained.similarity, "images": images}
    metrics |= length_ranks(split, model.similarity, config.pairs)
    head = ["lengths", "images", "pairs", "mean rank of the image", "mean rank of the longer caption"]
    row = [trained.similarity, f"{images:,}", str(metrics["pairs"])]
    table = markdown_table(head, [[*row, f"{metrics['image']:.1f}", f"{metrics['longer']:.1f}"]])
    parts = [table, f"Paper, COCO: {PAPER}."]
    if language == LANGUAGE and has_table(run, "components"):
        rows = read_caption_rows(run, "components", embedded.caption_ids)["objects"].to_pylist()
        objects = [{item["object"] for item in row} for row in rows]
        pairs, true = object_pairs(objects, split.owner.tolist(), images, config.min_images)
        if pairs:
            names = sorted({name for pair in pairs for name in pair})
            vectors = model.queries(corpus.vocabulary, [Phrase((name,), name) for name in names])
            scores = composed_scores(pairs, dict(zip(names, vectors, strict=True)), split.images, model.similarity)
            metrics["compositions"] = len(pairs)
            metrics["mAP"] = 100 * average_precision(scores, true.to(scores.device)).mean().item()
            parts.append(f"{len(pairs)} pairs of objects as queries: mAP {metrics['mAP']:.1f} %.")
            parts.append(_examples(pairs, scores, true, embedded.image_ids))
    return write_results(output, "lengths", metrics, "\n\n".join(parts))


def length_ranks(split: Split, similarity: Similarity, pairs: int) -> dict[str, Any]:
    """Mean ranks, from 1, over the `pairs` pairs of captions of one image that differ most in their number of words.

    image: of the image of their captions among all images. longer: of the longer caption among all captions but the
    shorter one, which is the query; the candidate takes the place of the image: E(candidate, query).
    """
    device = split.images.device
    captions = pd.DataFrame({"owner": split.owner.numpy(), "words": split.words.numpy()}).reset_index(names="row")
    both = captions.merge(captions, on="owner", suffixes=("_short", "_long"))
    both["more"] = both["words_long"] - both["words_short"]
    both = both[both["more"] > 0].sort_values(["more", "row_short", "row_long"], ascending=[False, True, True])
    if not len(both):
        raise ValueError("split must have images with two captions of different length, has none")
    kept = torch.from_numpy(both[["row_short", "row_long"]].to_numpy()[:pairs].copy()).to(device)
    shorter, longer = kept.T
    rows = kept.flatten().unique()
    at = split.owner.to(device)[rows]
    own = own_scores(split.images, split.captions[rows], at, similarity)
    scores = similarity.by_text(split.captions[rows], split.images)
    scores[torch.arange(len(rows), device=device), at] = -torch.inf
    image = 1 + (scores > own[:, None] - TIE).sum(1)
    scores = similarity.by_text(split.captions[shorter], split.captions)
    every = torch.arange(len(kept), device=device)
    true = scores[every, longer]
    scores[every, longer] = -torch.inf
    scores[every, shorter] = -torch.inf
    rank = 1 + (scores > true[:, None] - TIE).sum(1)
    means = {"image": image.double().mean().item(), "longer": rank.double().mean().item()}
    return {"pairs": len(kept), **means}


def object_pairs(
    objects: Sequence[set[str]], owner: Sequence[int], images: int, least: int
) -> tuple[list[tuple[str, str]], Tensor]:
    """Pairs of objects that captions of at least `least` images name, sorted, and (Q, I) bool, which images these are.

    objects: of each caption. owner: the image of each. An image has all objects of its captions.
    """
    named = pd.DataFrame({"image": owner, "object": [sorted(words) for words in objects]}).explode("object")
    named = named.dropna().drop_duplicates()
    both = named.merge(named, on="image")
    groups = both[both["object_x"] < both["object_y"]].groupby(["object_x", "object_y"])["image"]
    where: dict[Any, list[int]] = {pair: rows.tolist() for pair, rows in groups if len(rows) >= least}
    true = torch.zeros(len(where), images, dtype=torch.bool)
    for row, rows in enumerate(where.values()):
        true[row, rows] = True
    return list(where), true


def composed_scores(
    pairs: Sequence[tuple[str, str]], vectors: dict[str, Tensor], images: Tensor, similarity: Similarity
) -> Tensor:
    """The scores (Q, I) of images (I, d) with compositions of two words.

    vectors: of the words. Under the order a composition is the coordinate-wise maximum, under the cosine the sum.
    """
    one, other = (torch.stack([vectors[pair[k]] for pair in pairs]) for k in (0, 1))
    composed = COSINE.finish(one + other) if similarity is COSINE else torch.maximum(one, other)
    return similarity.by_text(composed, images)


def _examples(pairs: Sequence[tuple[str, str]], scores: Tensor, true: Tensor, image_ids: Sequence[str]) -> str:
    """A table of the best images of the most frequent compositions; those that captions say have both are bold."""
    rows = []
    for row in true.sum(1).sort(descending=True, stable=True).indices[:EXAMPLES].tolist():
        best = scores[row].topk(min(TOP, scores.shape[1])).indices.tolist()
        shown = [f"**{image_ids[n]}**" if true[row, n] else image_ids[n] for n in best]
        rows.append([" + ".join(pairs[row]), ", ".join(shown)])
    return markdown_table(["composition", f"best {TOP} images"], rows)
