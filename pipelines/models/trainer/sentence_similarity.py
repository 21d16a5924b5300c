"""Semantic similarity of sentences: how a model's cosines agree with people's scores of pairs of sentences."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..config import SimilarityConfig
from ..device import choose_device
from ..evaluation.retrieval import embed_texts
from ..figures import Figure, markdown_table, percentile_interval, resample_counts, write_results
from . import load_model

SCORES = ("score", "relatedness_score", "similarity")  # columns with a header, by their usual names
SENTENCES = (("sentence1", "sentence_A"), ("sentence2", "sentence_B"))
PARTS = ("file", "year", "dataset")
WITHOUT_HEADER = (*("genre", "file", "year", "number", "score"), *("sentence1", "sentence2"))  # STS benchmark
EXPECTED = (
    "tab-separated pairs of sentences: the seven columns of the STS benchmark, or a header with "
    f"{', '.join(SCORES[:-1])} or {SCORES[-1]}, and sentence1 and sentence2, or sentence_A and sentence_B"
)


class SentencePair(NamedTuple):
    """Two sentences, people's score of their similarity, and the part of the data that they belong to."""

    part: str
    score: float
    first: str
    second: str


def read_pairs(path: Path) -> list[SentencePair]:
    """Read pairs of sentences from a tab-separated file: the STS benchmark's, SICK's, or one with a header. With a
    header, the columns `file`, `year` and `dataset`, those that are there, name the part of a pair. Raises ValueError,
    naming file and line, for a line with too few columns, a score that is not a number, or an empty sentence.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} must be {EXPECTED}: {error}") from None
    head = rows[0] if rows else []
    columns = [next((name for name in names if name in head), "") for names in (SCORES, *SENTENCES)]
    first = 1 if all(columns) else 0
    if not first:
        head = list(WITHOUT_HEADER)
        columns = ["score", "sentence1", "sentence2"]
    pairs = []
    for line, row in enumerate(rows[first:], first + 1):
        if not row:
            continue
        if len(row) < len(head):
            rule = f"a pair must have {len(head)} columns, has {len(row)}"
            raise ValueError(f"{path}:{line}: {rule} ({path} must be {EXPECTED})")
        values = dict(zip(head, row, strict=False))
        written, *sentences = (values[name].strip() for name in columns)
        try:
            score = float(written)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise ValueError(f"{path}:{line}: {columns[0]} must be a number, was: {values[columns[0]]!r:.40}")
        if not all(sentences):
            raise ValueError(f"{path}:{line}: a pair must have two sentences, one is empty")
        part = " ".join(values[name] for name in PARTS if name in values) or path.stem
        pairs.append(SentencePair(part, score, *sentences))
    if not pairs:
        raise ValueError(f"{path} must be {EXPECTED}, has no pairs")
    return pairs


def correlation(values: Tensor, scores: Tensor, seed: int) -> Figure:
    """Pearson's r of values and scores (n,) x 100, with its 95 % bootstrap interval; NaN if either is constant."""
    x, y = (part.double().numpy() - part.double().mean().item() for part in (values, scores))
    moments = np.stack([x, y, x * x, y * y, x * y], 1)

    def of_weights(weights: np.ndarray) -> np.ndarray:
        mean_x, mean_y, xx, yy, xy = (weights @ moments / len(x)).T
        spread = (xx - mean_x**2) * (yy - mean_y**2)
        constant = spread <= 1e-20 * (x * x).mean() * (y * y).mean()
        r = np.divide(xy - mean_x * mean_y, np.sqrt(abs(spread)), out=np.full_like(xy, np.nan), where=~constant)
        return 100 * r

    value = of_weights(np.ones((1, len(x)))).item()
    if math.isnan(value):
        return Figure(value, (value, value))
    return Figure(
        value, percentile_interval(np.concatenate([of_weights(weights) for weights in resample_counts(len(x), seed)]))
    )


def sentence_cosines(model_folder: Path, pairs: Sequence[SentencePair], config: SimilarityConfig) -> tuple[Tensor, str]:
    """The cosine (n,) of the two sentences of each pair by a trained model, and the name of the model. A model that
    also encodes components (UniVSE) encodes the sentence without them. Raises FileNotFoundError for a folder without a
    model, ValueError for a language that is not the model's.
    """
    device = choose_device(config.device)
    model, vocabularies, trained = load_model(model_folder, device)
    if config.language not in trained.languages:
        known = ", ".join(trained.languages)
        raise ValueError(f"language must be one of those of {model_folder}, {known}, was: {config.language}")
    encoded = vocabularies[config.language].encode([text for pair in pairs for text in (pair.first, pair.second)])
    embed = getattr(model, "plain_sentences", model.sentences)
    vectors = embed_texts(embed, encoded, device, language=trained.languages.index(config.language))
    return functional.cosine_similarity(vectors[::2], vectors[1::2]).cpu(), trained.model


def similarity(model_folder: Path, file: Path, config: SimilarityConfig, output: Path | None = None) -> str:
    """Pearson's r of a model's cosines with people's scores, as a Markdown table by part of the data. file: see
    `read_pairs`. output: a folder to which similarity.md and similarity.json are written; None: none. Raises as
    `read_pairs` and `sentence_cosines`, and ValueError for fewer than 3 pairs, or scores that are all equal.
    """
    torch.set_num_threads(config.threads)
    pairs = read_pairs(file)
    scores = torch.tensor([pair.score for pair in pairs], dtype=torch.double)
    if len(pairs) < 3 or scores.unique().numel() == 1:
        raise ValueError(f"{file} must have 3 pairs with different scores, has {len(pairs)}")
    cosines, name = sentence_cosines(model_folder, pairs, config)
    parts = sorted({pair.part for pair in pairs})
    groups = {part: torch.tensor([pair.part == part for pair in pairs]) for part in parts}
    if len(parts) > 1:
        groups["all"] = torch.ones(len(pairs), dtype=torch.bool)
    found = {}
    rows = []
    for part, inside in groups.items():
        r = correlation(cosines[inside], scores[inside], config.seed)
        number = int(inside.sum())
        known = math.isfinite(r.value)
        if known:
            found[part] = {"pairs": number, "r": r.value / 100, "interval": [bound / 100 for bound in r.interval]}
        rows.append([part, f"{number:,}", str(r) if known else "scores or cosines are all equal"])
    title = f"**{name}** ({config.language}) on {file.name}: Pearson's r × 100 of cosines and scores"
    text = f"{title}\n\n{markdown_table(['pairs of', 'number', 'r × 100'], rows)}"
    if output is not None:
        write_results(output, "similarity", {"model": name, "language": config.language, "parts": found}, text)
    return text
