"""What an embedding knows of how general a caption is: lengths and compositions.

Vendrov et al. (2016), section 4.6 and supplement (Figure 4). A longer caption says more, so it lies below a shorter one
of the same image; what says two things lies below both, so their composition is the coordinate-wise maximum; what two
things have in common lies above both: the minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from ....schemas.captions import LANGUAGE
from ...engine.tables import has_table
from ..data import read_caption_rows
from ..device import choose_device
from ..evaluation.components import average_precision
from ..evaluation.retrieval import EmbeddedSplit, embed_split, embed_texts, ranks_in_rows
from ..figures import markdown_table, write_results
from ..settings import LengthConfig
from ..similarities import COSINE, VectorSimilarity
from ..trainer import OBJECTIVES
from ..trainer.evaluate import load_with_corpus

PAPER = "cosine 9.7 and 47.6, order 6.4 and 34.0"  # mean ranks of section 4.6
TOP = 5
BOTH = "both of two objects"
EXAMPLES = 10  # compositions whose best images are written


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
    embedded = embed_split(model, corpus, chosen)
    words = corpus.texts.offsets.diff()[chosen] - 2  # without the marks
    images = len(embedded.images)
    owner = embedded.owner
    name = getattr(trained, "similarity", "cosine")
    metrics: dict[str, Any] = {"model": trained.model, "similarity": name, "images": images}
    given = embedded.images, embedded.vectors, owner, words, model.similarity
    metrics |= length_ranks(*given, config.pairs)
    head = ["lengths", "images", "pairs", "mean rank of the image", "mean rank of the longer caption"]
    row = [name, f"{images:,}", str(metrics["pairs"])]
    table = markdown_table(head, [[*row, f"{metrics['image']:.1f}", f"{metrics['longer']:.1f}"]])
    parts = [table, f"Paper, COCO: {PAPER}."]
    if language == LANGUAGE and has_table(run, "components"):
        rows = read_caption_rows(run, "components", embedded.caption_ids)["objects"].to_pylist()
        objects = [{item["object"] for item in row} for row in rows]
        names, named, pairs = named_objects(objects, owner.tolist(), images, config.min_images)
        if len(pairs):
            vectors = embed_texts(model.sentences, corpus.vocabulary.encode(names), corpus.device)
            found = compositions(vectors, named.to(vectors.device), pairs, embedded.images, model.similarity)
            cells = []
            for name, (scores, true) in found.items():
                metrics[name] = {"queries": len(true), "mAP": 100 * average_precision(scores, true).mean().item()}
                share = 100 * true.double().mean().item()
                its = metrics[name]
                cells.append([name, str(its["queries"]), f"{share:.1f}", f"{its['mAP']:.1f}"])
            parts.append(markdown_table(["composition", "queries", "images to find, %", "mAP, %"], cells))
            parts.append(_examples([" + ".join(names[n] for n in pair) for pair in pairs], *found[BOTH], embedded))
    return write_results(output, "lengths", metrics, "\n\n".join(parts))


def length_ranks(
    images: Tensor, captions: Tensor, owner: Tensor, words: Tensor, similarity: VectorSimilarity, pairs: int
) -> dict[str, Any]:
    """Mean ranks, from 1, over the `pairs` pairs of captions of one image that differ most in their number of words.

    image: of the image of their captions among all images. longer: of the longer caption among all captions but the
    shorter one, which is the query; the candidate takes the place of the image: E(candidate, query). images: (I, d).
    captions: (n, d). owner, words: (n,) the image of each, and its number of words, on the CPU.
    """
    table = pd.DataFrame({"owner": owner.numpy(), "words": words.numpy()}).reset_index(names="row")
    both = table.merge(table, on="owner", suffixes=("_short", "_long"))
    both["more"] = both["words_long"] - both["words_short"]
    both = both[both["more"] > 0].sort_values(["more", "row_short", "row_long"], ascending=[False, True, True])
    if not len(both):
        raise ValueError("split must have images with two captions of different length, has none")
    kept = torch.from_numpy(both[["row_short", "row_long"]].to_numpy()[:pairs].copy()).to(images.device)
    (shorter, longer), rows = kept.T, kept.flatten().unique()
    image = ranks_in_rows(similarity.by_text(captions[rows], images), owner.to(images.device)[rows])
    scores = similarity.by_text(captions[shorter], captions)
    rank = ranks_in_rows(scores.scatter(1, shorter[:, None], -torch.inf), longer)
    return {"pairs": len(kept), "image": image.double().mean().item(), "longer": rank.double().mean().item()}


def named_objects(
    objects: Sequence[set[str]], owner: Sequence[int], images: int, least: int
) -> tuple[list[str], Tensor, Tensor]:
    """Objects that captions of at least `least` images name, sorted: N names, and (N, I) bool, which images these are.
    Also the pairs (Q, 2) of them that as many images have together. objects: of each caption. owner: its image.
    """
    rows = pd.DataFrame({"image": owner, "object": [sorted(words) for words in objects]}).explode("object").dropna()
    table = pd.crosstab(rows["object"], rows["image"]).reindex(columns=range(images), fill_value=0) > 0
    table = table[table.sum(axis=1) >= least]
    named = torch.tensor(table.to_numpy())
    together = named.float() @ named.float().T
    return table.index.tolist(), named, (together.triu(1) >= least).nonzero()


def compositions(
    vectors: Tensor, named: Tensor, pairs: Tensor, images: Tensor, similarity: VectorSimilarity
) -> dict[str, tuple[Tensor, Tensor]]:
    """Scores (Q, I) of images (I, d) with each kind of composition, and (Q, I) bool, which images it should find.

    vectors: (N, d) of words. named: (N, I) bool, the images whose captions name them. pairs: (Q, 2) of words. Under the
    order, what composes is the coordinate-wise maximum, and what two have in common is the minimum; the cosine has only
    the sum. Images take part as the one that scores best for the first word without having the second.
    """

    def join(one: Tensor, other: Tensor, of: Callable[[Tensor, Tensor], Tensor] = torch.maximum) -> Tensor:
        return COSINE.finish(one + other) if similarity is COSINE else of(one, other)

    (one, other), (first, second) = vectors[pairs].unbind(1), named[pairs].unbind(1)
    alone = first & ~second
    begun = alone.any(1)
    start = similarity.by_text(one, images).masked_fill(~alone, -torch.inf).argmax(1)[begun]
    added = similarity.by_text(join(images[start], other[begun]), images)
    added[torch.arange(len(start)), start] = -torch.inf
    return {
        BOTH: (similarity.by_text(join(one, other), images), first & second),
        "either of two objects": (similarity.by_text(join(one, other, torch.minimum), images), first | second),
        "an image and an object": (added, (first & second)[begun]),
    }


def _examples(titles: Sequence[str], scores: Tensor, true: Tensor, embedded: EmbeddedSplit) -> str:
    """A table of the best images of the most frequent compositions; those that captions say have both are bold."""
    image_ids = embedded.image_ids
    rows = []
    for row in true.sum(1).sort(descending=True, stable=True).indices[:EXAMPLES].tolist():
        best = scores[row].topk(min(TOP, scores.shape[1])).indices.tolist()
        shown = [f"**{image_ids[n]}**" if true[row, n] else image_ids[n] for n in best]
        rows.append([titles[row], ", ".join(shown)])
    return markdown_table(["composition", f"best {TOP} images"], rows)
