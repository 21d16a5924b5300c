"""An embedding model as the judge of captions: does a caption retrieve the image it was written of?"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import torch
from torch import Tensor

from ..evaluation.embed import embed_images, embed_sentences
from ..evaluation.retrieval import rank, retrieval_metrics
from ..features import read_features
from ..texts import Texts
from ..trainer.objectives import OBJECTIVES, load_model
from ..vocabulary import WordVocabulary


class Judge(NamedTuple):
    """An embedding model trained by `negcap train`, and its vectors (I, d) of the images that have captions."""

    model: Any
    vocabulary: WordVocabulary
    images: Tensor


def load_judge(folder: Path, run: Path, image_ids: list[str], rows: Tensor, device: torch.device) -> Judge:
    """Load a judge from a model's folder; image_ids: of all images of the run; rows: (I,) those it embeds.

    Raises FileNotFoundError or ValueError for a folder without a model, a model that needs components, or a run without
    features of the model's size.
    """
    model, vocabulary, config = load_model(folder, device)
    if OBJECTIVES[config.model].needs_components:
        raise ValueError(f"judge must be a model that reads only sentences, this one needs components: {folder}")
    features = read_features(run, image_ids, config.table)
    if features.values.shape[-1] != model.image.linear.in_features:
        raise ValueError(f"judge must take features of {features.values.shape[-1]} numbers, {folder} does not")
    return Judge(model, vocabulary, embed_images(model.image, features.values, rows, device))


def retrieval_by_captions(texts: pa.Array, judge: Judge) -> dict[str, float]:
    """Text-to-image metrics of one caption per image (I,), and the mean similarity of a caption and its image."""
    device = judge.images.device
    encoded = judge.vocabulary.encode(texts)
    captions = Texts(torch.from_numpy(encoded.tokens).to(device), torch.from_numpy(encoded.offsets), len(texts))
    rows = torch.arange(len(texts))
    vectors = embed_sentences(judge.model.sentences, captions, rows)
    metrics = retrieval_metrics(rank(judge.images, vectors, rows.to(device), judge.model.similarity))
    similarity = judge.model.similarity.pairs(judge.images, vectors).mean().item()
    return {**{name: value for name, value in metrics.items() if name.startswith("t2i")}, "similarity": similarity}
