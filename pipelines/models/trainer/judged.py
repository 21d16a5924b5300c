"""Generated captions chosen by models that were trained without their images."""

from __future__ import annotations

import pyarrow as pa
import torch
from torch import Tensor

from ....augment.rng import record_rng
from ..captions import Captions
from ..config import TrainConfig
from ..device import choose_device
from ..evaluation.embed import embed_images, embed_sentences
from ..evaluation.retrieval import TIE, own_scores
from ..features import Features
from ..texts import Texts
from .objectives import load_model

AT_ONCE = 1024  # captions ranked at a time


def left_out(captions: Captions, rows: Tensor, part: int, parts: int) -> Tensor:
    """Which of the captions `rows` (n,) are of images in a part, from 0, of so many; (n,) bool.

    An image's part depends only on its id.
    """
    inside = [int(record_rng(0, "part", image).random() * parts) == part for image in captions.image_ids]
    return torch.tensor(inside, dtype=torch.bool)[captions.image[rows]]


def believed(config: TrainConfig, captions: Captions, features: Features, rows: Tensor) -> Tensor:
    """Which of the captions `rows` (n,) are trained on: all but those of the table `extra` that no judge ranks well.

    A judge ranks the images of the part that it was trained without, as many of them as have captions in `rows`, for
    each generated caption of these images; the caption is kept if its own image is among the first `judge_rank`.
    Returns (n,) bool. Raises ValueError for a judge that was not trained with leave_out, and as `load_model`.
    """
    device = choose_device(config.device)
    kept = ~captions.are_extra(rows)
    for folder in config.judges:
        model, vocabulary, trained = load_model(folder, device)
        if not trained.left_out:
            raise ValueError(f"judges must be trained with leave_out, {folder} was not")
        inside = left_out(captions, rows, *trained.left_out)
        judged = (inside & captions.are_extra(rows)).nonzero()[:, 0]
        if not len(judged):
            continue
        image = captions.image[rows[inside]].unique()
        encoded = vocabulary.encode(captions.texts.take(pa.array(rows[judged].numpy())))
        texts = Texts(torch.from_numpy(encoded.tokens).to(device), torch.from_numpy(encoded.offsets), len(judged))
        images = embed_images(model.image, features.values, image, device)
        sentences = embed_sentences(model.sentences, texts, torch.arange(len(judged)))
        owner = torch.searchsorted(image, captions.image[rows[judged]]).to(device)
        own = own_scores(images, sentences, owner, model.similarity)
        ranks = [
            (model.similarity.by_text(some, images) > true[:, None] - TIE).sum(1)
            for some, true in zip(sentences.split(AT_ONCE), own.split(AT_ONCE), strict=True)
        ]
        kept[judged] = torch.cat(ranks).cpu() <= config.judge_rank
    return kept
