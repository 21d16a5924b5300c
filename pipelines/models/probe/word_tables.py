"""The word vectors under test: those of a file alone, or joined with what a model has learned of the words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Generator, Tensor, nn

from ..encoders import TwoPartEmbedding, WordEmbedding
from ..trainer.objectives import load_model
from ..univse.word_encoder import WordEncoder
from ..vectors import read_vectors, vector_size
from ..vocabulary import UNKNOWN_ID, WordVocabulary

FILE, RANDOM = "vectors of the file", "with random numbers"  # the first rows of the tables


def word_tables(vectors: Path, models: Sequence[Path], words: Sequence[str], seed: int) -> dict[str, Tensor]:
    """The vectors (W, e) of W words, by the name of the row of a table; words that the file lacks are left NaN.

    The first are the file's own. Those of each model are joined to them: its grounded vectors (`--grounded-dim`), or
    else its whole table, multiplied by a number so that they are as long as the file's, in the mean: what reads both
    parts learns little from one that is much shorter. As a control the file's are also joined with as many random
    numbers as the first model adds, since more numbers alone make words easier to tell apart. Raises ValueError for a
    file without any of the words.
    """
    vocabulary = WordVocabulary(tuple(dict.fromkeys(("<pad>", "<start>", "<end>", "<unk>", *words))))
    rows = torch.tensor([vocabulary.ids[word] for word in words])
    fixed = read_vectors(vectors, vocabulary, vector_size(vectors))[rows]
    tables = {FILE: fixed}
    given = ~fixed.isnan().any(1)

    def joined(others: Tensor) -> Tensor:
        lengths = (part[given].norm(dim=1).mean() for part in (fixed, others))
        return torch.cat([fixed, others * torch.div(*lengths)], 1)

    for folder in models:
        model, known, _ = load_model(folder, torch.device("cpu"))
        learned = learned_vectors(model.text.embedding)
        ids = torch.tensor([known.ids.get(word, UNKNOWN_ID) for word in words])
        if RANDOM not in tables:
            noise = torch.randn(len(words), learned.shape[1], generator=Generator().manual_seed(seed))
            tables[RANDOM] = joined(noise)
        tables[folder.name] = joined(learned[ids])
    return tables


def learned_vectors(embedding: nn.Module) -> Tensor:
    """The vectors (V, e) that a model has learned for the words of its vocabulary.

    The grounded part of two-part vectors, the basic embeddings of UniVSE's φ, or the whole table. Raises ValueError for
    an embedding of another kind.
    """
    if isinstance(embedding, TwoPartEmbedding):
        return embedding.learned.weight.detach()
    if isinstance(embedding, WordEncoder):
        return embedding.basic.weight.detach()
    if isinstance(embedding, WordEmbedding):
        return embedding.weight.detach()
    raise ValueError(f"the model must have a table of word vectors, has: {type(embedding).__name__}")
