"""A word-level task: what it is trained and tested on, and the tables of word vectors that it compares."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Generator, Tensor, nn

from ...tables.columns import UNSPLIT
from ..data import read_captions
from ..device import choose_device, to_device_if_it_fits
from ..encoders import TwoPartEmbedding
from ..features import read_features
from ..fit import Say
from ..settings import ProbeConfig
from ..trainer import load_model
from ..univse.model import WordEncoder
from ..vocabulary import SPECIALS, UNKNOWN_ID, WordVocabulary, read_vectors, vector_size

NOUNS = ("NN", "NNS")
FILE = "vectors of the file"
RANDOM = "with random numbers"  # the first rows of the tables


class Task:
    """The data of a task: features (I, D) of a run's images; the captions, as indices, to train and to test on; and the
    device that computes, on which the features are if they fit. Raises FileNotFoundError or ValueError for a run
    without captions of images, and ValueError for a GPU that is not there.
    """

    def __init__(self, run: Path, config: ProbeConfig, say: Say) -> None:
        self.device = choose_device(config.device)
        self.run = run
        self.config = config
        self.say = say
        self.captions = read_captions(run)
        captions = self.captions
        features = read_features(run, self.captions.image_ids, config.features)

        def chosen(splits: Sequence[str]) -> Tensor:
            rows = captions.for_metrics(captions.of_splits(splits))
            rows = rows[features.available[captions.image[rows]]]
            if not len(rows):
                known = ", ".join(name or UNSPLIT for name in captions.splits.unique().to_pylist())
                rule = f"split must have captions of images with features ({known})"
                raise ValueError(f"{rule}, was: {', '.join(splits)}")
            return rows

        self.train = chosen(config.train_splits)
        self.test = chosen([config.split])
        values = features.values.float()
        values = values.mean(1) if values.dim() == 3 else values  # those of regions are averaged
        self.features = to_device_if_it_fits(values, self.device)


def word_tables(vectors: Path, models: Sequence[Path], words: Sequence[str], seed: int) -> dict[str, Tensor]:
    """The vectors (W, e) of W words, by the name of the row of a table; words that the file lacks are left NaN.

    The first are the file's own. To them are joined those of each model, made as long as the file's, in the mean, since
    what reads both parts learns little from one that is much shorter; and, as a control, as many random numbers as the
    first model adds: they alone make words easier to tell apart. Of a model of several languages, those of the first.
    Raises ValueError for a file without any of the words.
    """
    vocabulary = WordVocabulary(tuple(dict.fromkeys((*SPECIALS, *words))))
    rows = torch.tensor([vocabulary.ids[word] for word in words])
    fixed = read_vectors(vectors, vocabulary, vector_size(vectors))[rows]
    tables = {FILE: fixed}
    given = ~fixed.isnan().any(1)

    def joined(others: Tensor) -> Tensor:
        lengths = (part[given].norm(dim=1).mean() for part in (fixed, others))
        return torch.cat([fixed, others * torch.div(*lengths)], 1)

    for folder in models:
        model, vocabularies, _ = load_model(folder, torch.device("cpu"))
        known = next(iter(vocabularies.values()))
        learned = learned_vectors(
            next(its.get_submodule("embedding") for its in model.text.modules() if hasattr(its, "embedding"))
        )
        ids = torch.tensor([known.ids.get(word, UNKNOWN_ID) for word in words])
        if RANDOM not in tables:
            noise = torch.randn(len(words), learned.shape[1], generator=Generator().manual_seed(seed))
            tables[RANDOM] = joined(noise)
        tables[folder.name] = joined(learned[ids])
    return tables


def learned_vectors(embedding: nn.Module) -> Tensor:
    """The vectors (V, e) that a model has learned for the words of its vocabulary. The grounded part of two-part
    vectors, the basic embeddings of UniVSE's φ, or the whole table. Raises ValueError for an embedding of another kind.
    """
    part = {TwoPartEmbedding: "learned", WordEncoder: "basic"}.get(type(embedding))
    table = getattr(embedding, part) if part else embedding
    if not isinstance(table, nn.Embedding):
        raise ValueError(f"the model must have a table of word vectors, has: {type(embedding).__name__}")
    return table.weight.detach()
