"""What an embedding knows of how general a caption is: lengths and compositions.

Vendrov et al. (2016), section 4.6 and supplement (Figure 4). A longer caption says more, so it lies below a shorter one
of the same image; what says two things lies below both, so their composition is the coordinate-wise maximum; what two
things have in common lies above both: the minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

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

PAPER = "cosine 9.7 and 47.6, order 6.4 and 34.0"  # its mean ranks, of the image and of the longer caption
TOP = 5  # images shown for a composition
BOTH = "both of two objects"  # a kind of composition
EXAMPLES = 10  # compositions whose best images are written


def measure_lengths(model_folder: Path, run: Path, config: LengthConfig, output: Path) -> str:
    """Measure lengths, and compositions if the run has components; returns tables as Markdown.

    Raises FileNotFoundError or ValueError for a folder without a trained model, one that needs components, a run
    without the split or features of the model's size, or images without two captions of different length.

    Args:
        model_folder: of the trained model.
        run: the folder of the run.
        config: the split, and how many captions and pairs.
        output: gets lengths.md, with the best images of the most frequent compositions, and lengths.json.
    """
    torch.set_num_threads(config.threads)
    model, trained, corpus = load_with_corpus(model_folder, run, choose_device(config.device))
    if OBJECTIVES[trained.model].needs_components:
        raise ValueError(f"lengths are measured of models that read only sentences, {model_folder} is: {trained.model}")
    language = corpus.captions.languages[0]
    chosen = corpus.captions.to_evaluate(config.split, corpus.features.available, config.limit, language=language)
    split = embed_split(model, corpus, chosen)
    words = corpus.texts.offsets.diff()[chosen] - 2  # without <start> and <end>
    images = len(split.image_vectors)
    name = getattr(trained, "similarity", "cosine")
    ranks = length_ranks(split, words, config.pairs)
    metrics: dict[str, object] = {"model": trained.model, "similarity": name, "images": images, **ranks}
    head = ["lengths", "images", "pairs", "mean rank of the image", "mean rank of the longer caption"]
    row = [name, f"{images:,}", str(ranks["pairs"]), f"{ranks['image']:.1f}", f"{ranks['longer']:.1f}"]
    parts = [markdown_table(head, [row]), f"Paper, COCO: {PAPER}."]
    if language == LANGUAGE and has_table(run, "components"):
        rows = read_caption_rows(run, "components", split.caption_ids)["objects"].to_pylist()
        objects_of_captions = [{item["object"] for item in row} for row in rows]
        objects = named_objects(objects_of_captions, split.image_of_caption.tolist(), images, config.min_images)
        if len(objects.pairs):
            vectors = embed_texts(model.sentences, corpus.vocabulary.encode(objects.names), corpus.device)
            shown_on = objects.shown_on.to(vectors.device)
            kinds = compositions(vectors, shown_on, objects.pairs, split.image_vectors, model.similarity)
            cells = []
            for kind, composition in kinds.items():
                queries = len(composition.expected)
                precision = 100 * average_precision(*composition).mean().item()
                share = 100 * composition.expected.double().mean().item()
                metrics[kind] = {"queries": queries, "mAP": precision}
                cells.append([kind, str(queries), f"{share:.1f}", f"{precision:.1f}"])
            parts.append(markdown_table(["composition", "queries", "images to find, %", "mAP, %"], cells))
            titles = [" + ".join(objects.names[number] for number in pair) for pair in objects.pairs.tolist()]
            parts.append(_table_of_examples(titles, kinds[BOTH], split.image_ids))
    return write_results(output, "lengths", metrics, "\n\n".join(parts))


class LengthRanks(TypedDict):
    """How many pairs of captions were compared, and mean ranks, from 1: of the image, and of the longer caption."""

    pairs: int
    image: float
    longer: float


def length_ranks(split: EmbeddedSplit, words: Tensor, pairs: int) -> LengthRanks:
    """Mean ranks over the pairs of captions of one image that differ most in their number of words.

    - "image": where a caption's own image ranks among all images. Over all captions of the pairs; each counts once.
    - "longer": where the longer caption ranks among all captions if the shorter one is the query. The candidates are
      scored as images are: a longer caption says more, so the order places it below the shorter one, as an image.

    Args:
        split: the vectors of n captions and their images.
        words: (n,) how many words each caption has, on the CPU.
        pairs: how many pairs are compared, at most.
    """
    images = split.image_vectors
    captions = split.caption_vectors
    similarity = split.model.similarity
    lengths = {"image": split.image_of_caption.numpy(), "words": words.numpy()}
    table = pd.DataFrame(lengths).reset_index(names="row")
    # All ordered pairs of captions of an image, of which those with a longer second one stay.
    two = table.merge(table, on="image", suffixes=("_short", "_long"))
    two["more"] = two["words_long"] - two["words_short"]
    two = two[two["more"] > 0].sort_values(["more", "row_short", "row_long"], ascending=[False, True, True])
    if not len(two):
        raise ValueError("split must have images with two captions of different length, has none")
    kept = torch.from_numpy(two[["row_short", "row_long"]].to_numpy()[:pairs].copy()).to(images.device)  # (pairs, 2)
    shorter, longer = kept.T
    rows = kept.flatten().unique()  # a caption may be in several pairs
    image_of_rows = split.image_of_caption.to(images.device)[rows]
    image_ranks = ranks_in_rows(similarity.by_text(captions[rows], images), image_of_rows)
    scores = similarity.by_text(captions[shorter], captions)
    # The query itself, the shorter caption, is no candidate.
    scores_of_others = scores.scatter(1, shorter[:, None], -torch.inf)
    longer_ranks = ranks_in_rows(scores_of_others, longer)
    return {
        "pairs": len(kept),
        "image": image_ranks.double().mean().item(),
        "longer": longer_ranks.double().mean().item(),
    }


class NamedObjects(NamedTuple):
    """N objects that captions name. names: sorted. shown_on: (N, I) bool, True where a caption of the image names the
    object. pairs: (Q, 2), indices of two objects that enough images have together.
    """

    names: list[str]
    shown_on: Tensor
    pairs: Tensor


def named_objects(objects: Sequence[set[str]], owner: Sequence[int], images: int, least: int) -> NamedObjects:
    """The objects, and the pairs of them, that at least `least` images have.

    Args:
        objects: the objects of each caption.
        owner: the image of each caption.
        images: I, how many there are.
        least: how many images an object or a pair must have.
    """
    rows = pd.DataFrame({"image": owner, "object": [sorted(words) for words in objects]}).explode("object").dropna()
    # True where a caption of the image names the object: a row per object, a column per image
    table = pd.crosstab(rows["object"], rows["image"]).reindex(columns=range(images), fill_value=0) > 0
    table = table[table.sum(axis=1) >= least]
    shown_on = torch.tensor(table.to_numpy())
    images_together = shown_on.float() @ shown_on.float().T  # (N, N)
    return NamedObjects(table.index.tolist(), shown_on, (images_together.triu(1) >= least).nonzero())


class ComposedQueries(NamedTuple):
    """Scores (Q, I) of images with Q queries, and (Q, I) bool, the images that each should find."""

    scores: Tensor
    expected: Tensor


def compositions(
    vectors: Tensor, shown_on: Tensor, pairs: Tensor, images: Tensor, similarity: VectorSimilarity
) -> dict[str, ComposedQueries]:
    """The scores of images for queries that are composed of two words, or of an image and a word.

    Under the order, two vectors compose to their coordinate-wise maximum, and what they have in common is the minimum;
    the cosine has only the sum for both. The image of a composition is the one that scores best for the first word
    among those that show the first object and not the second.

    Args:
        vectors: (N, d) of N words.
        shown_on: (N, I) bool, whether the captions of each of I images name the word.
        pairs: (Q, 2) the indices of the two words of Q queries.
        images: (I, d) the vectors of the images.
        similarity: of the model: the cosine, or that of the order.

    Returns:
        By the kind of composition, the scores of the images and which of them are right. The kind with an image has
        only those queries for which there is one.
    """

    def compose(first: Tensor, second: Tensor) -> Tensor:
        """The vector (…, d) of what says both things."""
        return COSINE.finish(first + second) if similarity is COSINE else torch.maximum(first, second)

    def in_common(first: Tensor, second: Tensor) -> Tensor:
        """The vector (…, d) of what both say."""
        return COSINE.finish(first + second) if similarity is COSINE else torch.minimum(first, second)

    first, second = vectors[pairs].unbind(1)
    has_first, has_second = shown_on[pairs].unbind(1)
    has_both = has_first & has_second
    both = ComposedQueries(similarity.by_text(compose(first, second), images), has_both)
    either = ComposedQueries(similarity.by_text(in_common(first, second), images), has_first | has_second)

    # The queries with an image of the first word alone, and the best such image
    has_first_alone = has_first & ~has_second
    usable = has_first_alone.any(1)
    scores_of_first = similarity.by_text(first, images).masked_fill(~has_first_alone, -torch.inf)
    start = scores_of_first.argmax(1)[usable]
    scores = similarity.by_text(compose(images[start], second[usable]), images)
    scores[torch.arange(len(start)), start] = -torch.inf  # an image is not to find itself
    added = ComposedQueries(scores, has_both[usable])
    return {BOTH: both, "either of two objects": either, "an image and an object": added}


def _table_of_examples(titles: Sequence[str], composition: ComposedQueries, image_ids: Sequence[str]) -> str:
    """A table of the best images of the most frequent compositions; those that captions say have both are bold."""
    scores, expected = composition
    rows = []
    for query in expected.sum(1).sort(descending=True, stable=True).indices[:EXAMPLES].tolist():
        best = scores[query].topk(min(TOP, scores.shape[1])).indices.tolist()
        shown = [f"**{image_ids[image]}**" if expected[query, image] else image_ids[image] for image in best]
        rows.append([titles[query], ", ".join(shown)])
    return markdown_table(["composition", f"best {TOP} images"], rows)
