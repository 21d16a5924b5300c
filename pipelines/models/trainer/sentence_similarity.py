"""Semantic similarity of sentences: how a model's cosines agree with people's scores of pairs of sentences."""

from __future__ import annotations

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

SCORES = ("score", "relatedness_score", "similarity")  # usual names of the column of scores in a header
SENTENCES = (("sentence1", "sentence_A"), ("sentence2", "sentence_B"))  # usual names of the first and the second one
PARTS = ("file", "year", "dataset")  # columns that tell which part of the data a pair belongs to
WITHOUT_HEADER = ("genre", "file", "year", "number", "score", "sentence1", "sentence2")  # STS benchmark
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
    """Read pairs of sentences from a tab-separated file: the STS benchmark's, SICK's, or one with a header.

    In a file with a header, the columns `file`, `year` and `dataset`, as far as there are any, tell which part of the
    data a pair belongs to. Raises ValueError, naming file and line, for a line with too few columns, a score that is
    not a number, or an empty sentence.
    """
    try:
        # nothing is quoted in these files: a quotation mark belongs to the sentence
        rows = [line.removesuffix("\r").split("\t") for line in path.read_text("utf-8").split("\n")]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be {EXPECTED}: {error}") from None
    layout = _layout_by_first_row(rows[0])
    pairs = []
    for number, row in enumerate(rows, 1):
        if row != [""] and (number > 1 or not layout.has_header):
            pairs.append(_pair_of_row(row, layout, path, number))
    if not pairs:
        raise ValueError(f"{path} must be {EXPECTED}, has no pairs")
    return pairs


class _FileLayout(NamedTuple):
    """The columns of a file of pairs: their names, and which of them hold the score and the sentences."""

    names: Sequence[str]
    score: str
    first: str
    second: str
    has_header: bool


def _layout_by_first_row(first_row: Sequence[str]) -> _FileLayout:
    """The layout that a file has by its first row; that of the STS benchmark if it is no header."""
    columns = []  # of the score and of both sentences, as the header calls them
    for usual_names in (SCORES, *SENTENCES):
        columns += [name for name in usual_names if name in first_row][:1]
    if len(columns) == 3:
        score, first, second = columns
        return _FileLayout(first_row, score, first, second, has_header=True)
    return _FileLayout(WITHOUT_HEADER, "score", "sentence1", "sentence2", has_header=False)


def _pair_of_row(row: Sequence[str], layout: _FileLayout, path: Path, number: int) -> SentencePair:
    """The pair in a row of a file.

    Args:
        row: its cells.
        layout: which columns the pair and its score are in.
        path, number: of the file and the row (from 1), for messages.

    Raises:
        ValueError: the row is damaged.
    """
    if len(row) < len(layout.names):
        rule = f"a pair must have {len(layout.names)} columns, has {len(row)}"
        raise ValueError(f"{path}:{number}: {rule} ({path} must be {EXPECTED})")
    values = dict(zip(layout.names, row, strict=False))  # the STS benchmark has further columns in some rows
    try:
        score = float(values[layout.score])
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise ValueError(f"{path}:{number}: {layout.score} must be a number, was: {values[layout.score]!r:.40}")
    first = values[layout.first].strip()
    second = values[layout.second].strip()
    if not first or not second:
        raise ValueError(f"{path}:{number}: a pair must have two sentences, one is empty")
    part = " ".join(values[name] for name in PARTS if name in values) or path.stem
    return SentencePair(part, score, first, second)


def correlation(values: Tensor, scores: Tensor, seed: int) -> Figure:
    """Pearson's r of values and scores (n,) x 100, with its 95 % bootstrap interval; NaN if either is constant."""
    x = values.double().numpy() - values.double().mean().item()
    y = scores.double().numpy() - scores.double().mean().item()
    # centred first, as large means would eat the digits of the variances
    moments = np.stack([x, y, x * x, y * y, x * y], 1)  # (n, 5), whose weighted means give r for each resample

    def of_weights(weights: np.ndarray) -> np.ndarray:
        """r x 100 for each row of weights (m, n) of the pairs; NaN where a value is constant."""
        # r = covariance / √(variance of x · variance of y)
        mean_x, mean_y, xx, yy, xy = (weights @ moments / len(x)).T
        covariance = xy - mean_x * mean_y
        variances = (xx - mean_x**2) * (yy - mean_y**2)
        is_constant = variances <= 1e-20 * (x * x).mean() * (y * y).mean()  # rounding may leave a little above 0
        r = np.divide(covariance, np.sqrt(abs(variances)), out=np.full_like(xy, np.nan), where=~is_constant)
        return 100 * r

    value = of_weights(np.ones((1, len(x)))).item()
    if math.isnan(value):
        return Figure(value, (value, value))
    samples = np.concatenate([of_weights(weights) for weights in resample_counts(len(x), seed)])
    return Figure(value, percentile_interval(samples))


class SentenceCosines(NamedTuple):
    """The cosine (n,) of the two sentences of each pair by a trained model, and the name of the model."""

    cosines: Tensor
    model: str


def sentence_cosines(model_folder: Path, pairs: Sequence[SentencePair], config: SimilarityConfig) -> SentenceCosines:
    """Compare the sentences of each pair by a trained model. A model that also encodes components (UniVSE) encodes the
    sentence without them. Raises FileNotFoundError for a folder without a model, ValueError for a language that is not
    the model's.
    """
    device = choose_device(config.device)
    model, vocabularies, trained = load_model(model_folder, device)
    if config.language not in trained.languages:
        known = ", ".join(trained.languages)
        raise ValueError(f"language must be one of those of {model_folder}, {known}, was: {config.language}")
    texts = [text for pair in pairs for text in (pair.first, pair.second)]
    encoded = vocabularies[config.language].encode(texts)
    # both sentences of a pair side by side: rows 2 i and 2 i + 1
    vectors = embed_texts(model.plain_sentences, encoded, device, language=trained.languages.index(config.language))
    cosines = functional.cosine_similarity(vectors[::2], vectors[1::2]).cpu()
    return SentenceCosines(cosines, trained.model)


def similarity(model_folder: Path, file: Path, config: SimilarityConfig, output: Path | None = None) -> str:
    """Pearson's r of a model's cosines with people's scores, as a Markdown table by part of the data.

    Args:
        model_folder: of the model.
        file: of pairs of sentences, see `read_pairs`.
        config: how sentences are embedded.
        output: a folder to which similarity.md and similarity.json are written; None: none.

    Raises:
        ValueError: there are fewer than 3 pairs, all scores are equal, a line is damaged, or a language is unknown.
        FileNotFoundError: the file or the model is missing.
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
    results = {}
    rows = []
    for part, inside in groups.items():
        r = correlation(cosines[inside], scores[inside], config.seed)
        number = int(inside.sum())
        if math.isfinite(r.value):
            results[part] = {"pairs": number, "r": r.value / 100, "interval": [bound / 100 for bound in r.interval]}
            rows.append([part, f"{number:,}", str(r)])
        else:
            rows.append([part, f"{number:,}", "scores or cosines are all equal"])
    title = f"**{name}** ({config.language}) on {file.name}: Pearson's r × 100 of cosines and scores"
    text = f"{title}\n\n{markdown_table(['pairs of', 'number', 'r × 100'], rows)}"
    if output is not None:
        write_results(output, "similarity", {"model": name, "language": config.language, "parts": results}, text)
    return text
