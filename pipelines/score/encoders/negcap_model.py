"""`negcap:FOLDER`: a model of `negcap train`, on a run with the image features that it was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from ...models.device import choose_device
from ...models.evaluation.protocols import parse_graphs, parser_settings
from ...models.evaluation.retrieval import embed_images, embed_sentences
from ...models.features import read_features
from ...models.trainer.objectives import OBJECTIVES, load_model
from ...models.vectors import Texts
from ..config import ScoreConfig
from ..items import is_run
from ..test_set import TestSet
from .interface import Embedder


class Trained(Embedder):
    """A visual-semantic embedding of negcap; it reads features, not image files, and is quick to compute."""

    needs_files = False
    stored = False

    def __init__(self, folder: Path, run: Path, config: ScoreConfig) -> None:
        if config.threads:
            torch.set_num_threads(config.threads)
        self.device = choose_device(config.device)
        self.model, self.vocabulary, self.config = load_model(folder, self.device)
        self.name, self.identity, self.run = folder.name, {}, run

    def images(self, ids: Sequence[str], files: Sequence[Path]) -> np.ndarray:
        """Vectors of images by their features. Raises ValueError for features of another size, or an image without."""
        features = read_features(self.run, ids, self.config.table)
        size = self.model.image.linear.in_features
        if features.values.shape[-1] != size:
            found = features.values.shape[-1]
            raise ValueError(f"features of {self.run} must have {size} numbers for this model, have {found}")
        if not features.available.all():
            lacking = ids[int((~features.available).nonzero()[0])]
            raise ValueError(f"{self.config.table} of {self.run} must have every image, has none of {lacking}")
        rows = torch.arange(len(ids))
        vectors: np.ndarray = embed_images(self.model.image, features.values, rows, self.device).cpu().numpy()
        return vectors

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts; for UniVSE they are parsed as the run's captions were."""
        column = pa.array(list(texts), pa.string())
        graphs = None
        if OBJECTIVES[self.config.model].needs_components:
            graphs = parse_graphs(column, self.vocabulary, parser_settings(self.run))
            graphs = type(graphs)(*(kind._replace(words=kind.words.to(self.device)) for kind in graphs))
        encoded = self.vocabulary.encode(column)
        tokens, offsets = torch.from_numpy(encoded.tokens).to(self.device), torch.from_numpy(encoded.offsets)
        rows = torch.arange(len(texts))
        found = embed_sentences(self.model.sentences, Texts(tokens, offsets, len(texts), graphs), rows)
        vectors: np.ndarray = found.cpu().numpy()
        return vectors


def load(rest: str, tests: TestSet, run: Path, config: ScoreConfig) -> Trained:
    """Load a model folder. Raises FileNotFoundError or ValueError if it, or the run's features, cannot be used."""
    if not is_run(run):
        raise ValueError(f"a model of negcap train reads the image features of a run, {run} is a published set")
    return Trained(Path(rest), run, config)
