"""A word-level task: what it is trained and tested on, and the tables of word vectors that it compares."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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

NOUNS = ("NN", "NNS")  # tags of nouns
FILE = "vectors of the file"  # the name of a table in the results
RANDOM = "with random numbers"  # the first rows of the tables


class TaskResult(NamedTuple):
    """What a task writes: its metrics, as JSON, and the table as Markdown."""

    metrics: dict[str, object]
    text: str


class Task:
    """The data of a task: features (I, D) of a run's images; the captions, as indices, to train and to test on; and the
    device that computes, on which the features are if they fit. Raises FileNotFoundError or ValueError for a run
    without captions of images, and ValueError for a GPU that is not there.
    """

    def __init__(self, run: Path, config: ProbeConfig, say: Say) -> None:
        """Read the captions and features of a run; say: called with lines of progress."""
        self.device = choose_device(config.device)
        self.run = run
        self.config = config
        self.say = say
        self.captions = read_captions(run)
        features = read_features(run, self.captions.image_ids, config.features)
        self.train = self._of_splits(config.train_splits, features.available)
        self.test = self._of_splits([config.split], features.available)
        values = features.values.float()
        if values.dim() == 3:
            values = values.mean(1)  # of the regions of a grid
        self.features = to_device_if_it_fits(values, self.device)

    def _of_splits(self, splits: Sequence[str], available: Tensor) -> Tensor:
        """The captions (n,) of some splits whose images have features; available: (I,) bool, those that do."""
        captions = self.captions
        rows = captions.for_metrics(captions.of_splits(splits))
        rows = rows[available[captions.image[rows]]]
        if not len(rows):
            known = ", ".join(name or UNSPLIT for name in captions.splits.unique().to_pylist())
            rule = f"split must have captions of images with features ({known})"
            raise ValueError(f"{rule}, was: {', '.join(splits)}")
        return rows


def word_tables(vectors: Path, models: Sequence[Path], words: Sequence[str], seed: int) -> dict[str, Tensor]:
    """The vectors (W, e) of W words that are compared, by name; words that the file lacks are NaN.

    First the file's own vectors; then, for each model, these with the model's appended. The model's are scaled to the
    file's mean length, since a classifier learns little from a part that is much shorter. As a control, the file's with
    random numbers appended, as many as the first model adds: more numbers alone make words easier to tell apart. Of a
    model of several languages the first is taken. Raises ValueError for a file without any of the words.

    Args:
        vectors: the file.
        models: folders of trained models.
        words: W words.
        seed: of the random numbers.
    """
    vocabulary = WordVocabulary(tuple(dict.fromkeys((*SPECIALS, *words))))
    rows = torch.tensor([vocabulary.ids[word] for word in words])
    from_file = read_vectors(vectors, vocabulary, vector_size(vectors))[rows]
    tables = {FILE: from_file}
    # Lengths are compared on the words that the file has.
    is_in_file = ~from_file.isnan().any(1)

    def joined(others: Tensor) -> Tensor:
        """The file's vectors with others (W, d) of the same words appended, scaled to the same mean length."""
        length = from_file[is_in_file].norm(dim=1).mean()
        length_of_others = others[is_in_file].norm(dim=1).mean()
        return torch.cat([from_file, others * (length / length_of_others)], 1)

    for folder in models:
        model, vocabularies, _ = load_model(folder, torch.device("cpu"))
        model_vocabulary = next(iter(vocabularies.values()))
        embedding = next(part.get_submodule("embedding") for part in model.text.modules() if hasattr(part, "embedding"))
        learned = learned_vectors(embedding)
        # The control, once, with as many random numbers as the first model has
        if RANDOM not in tables:
            noise = torch.randn(len(words), learned.shape[1], generator=Generator().manual_seed(seed))
            tables[RANDOM] = joined(noise)
        ids = torch.tensor([model_vocabulary.ids.get(word, UNKNOWN_ID) for word in words])
        tables[folder.name] = joined(learned[ids])
    return tables


def learned_vectors(embedding: nn.Module) -> Tensor:
    """The vectors (V, e) that a model has learned for the words of its vocabulary: the grounded part of two-part
    vectors, the basic embeddings of UniVSE's φ, or the whole table. Raises ValueError for an embedding of another kind.
    """
    if isinstance(embedding, TwoPartEmbedding):
        table: nn.Module = embedding.learned
    elif isinstance(embedding, WordEncoder):
        table = embedding.basic
    else:
        table = embedding
    if not isinstance(table, nn.Embedding):
        raise ValueError(f"the model must have a table of word vectors, has: {type(embedding).__name__}")
    return table.weight.detach()
