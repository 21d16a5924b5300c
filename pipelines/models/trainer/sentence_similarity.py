"""Semantic similarity of sentences: how a model's cosines agree with people's scores of pairs of sentences."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn import functional

from ...engine.storage import write_atomically, write_json
from ..checkpoint import read_vocabularies
from ..config import SimilarityConfig
from ..device import choose_device
from ..evaluation.retrieval import RESAMPLES, embed_sentences, interval
from ..figures import format_interval, markdown_table
from ..vectors import Texts
from .objectives import OBJECTIVES, load_model

SCORES = ("score", "relatedness_score", "similarity")  # columns with a header, by their usual names
SENTENCES = (("sentence1", "sentence_A"), ("sentence2", "sentence_B"))
PARTS = ("file", "year", "dataset")
WITHOUT_HEADER = (*("genre", "file", "year", "number", "score"), *("sentence1", "sentence2"))  # STS benchmark
EXPECTED = (
    "tab-separated pairs of sentences: the seven columns of the STS benchmark, or a header with "
    f"{', '.join(SCORES[:-1])} or {SCORES[-1]}, and sentence1 and sentence2, or sentence_A and sentence_B"
)


class Pair(NamedTuple):
    """Two sentences, people's score of their similarity, and the part of the data that they belong to."""

    part: str
    score: float
    first: str
    second: str


def read_pairs(path: Path) -> list[Pair]:
    """Read pairs of sentences from a tab-separated file: the STS benchmark's, SICK's, or one with a header.

    With a header, the columns `file`, `year` and `dataset`, those that are there, name the part of a pair. Raises
    ValueError, naming file and line, for a line with too few columns, a score that is not a number, or an empty
    sentence.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be {EXPECTED}, is not UTF-8: {error.reason}") from None
    except csv.Error as error:
        raise ValueError(f"{path} must be {EXPECTED}: {error}") from None
    head = rows[0] if rows else []
    score = next((name for name in SCORES if name in head), "")
    sentences = [next((name for name in names if name in head), "") for names in SENTENCES]
    if not (score and all(sentences)):
        head, score, sentences = list(WITHOUT_HEADER), "score", ["sentence1", "sentence2"]
    else:
        rows[0] = []
    pairs = []
    for line, row in enumerate(rows, 1):
        if row:
            pairs.append(_pair(path, line, dict(zip(head, row, strict=False)), len(head), score, sentences))
    if not pairs:
        raise ValueError(f"{path} must be {EXPECTED}, has no pairs")
    return pairs


def _pair(path: Path, line: int, row: dict[str, str], columns: int, score: str, sentences: Sequence[str]) -> Pair:
    if len(row) < columns:
        raise ValueError(
            f"{path}:{line}: a pair must have {columns} columns, has {len(row)} ({path} must be {EXPECTED})"
        )
    try:
        value = float(row[score])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{path}:{line}: {score} must be a number, was: {row[score]!r:.40}")
    first, second = (row[name].strip() for name in sentences)
    if not first or not second:
        raise ValueError(f"{path}:{line}: a pair must have two sentences, one is empty")
    return Pair(" ".join(row[name] for name in PARTS if name in row) or path.stem, value, first, second)


def correlation(values: Tensor, scores: Tensor) -> Tensor:
    """Pearson's r of values and scores (…, n), along the last dimension; NaN where either is constant."""
    one, other = (part - part.mean(-1, keepdim=True) for part in (values.double(), scores.double()))
    return (one * other).sum(-1) / (one.square().sum(-1) * other.square().sum(-1)).sqrt()


def correlation_interval(values: Tensor, scores: Tensor, seed: int) -> tuple[float, float]:
    """The 95 % bootstrap interval over pairs of Pearson's r; values, scores: (n,)."""
    generator = Generator().manual_seed(seed)
    drawn = [torch.randint(len(values), (100, len(values)), generator=generator) for _ in range(RESAMPLES // 100)]
    samples = torch.cat([correlation(values[rows], scores[rows]) for rows in drawn])
    return interval(samples[samples.isfinite()])


def sentence_cosines(model_folder: Path, pairs: Sequence[Pair], config: SimilarityConfig) -> tuple[Tensor, str]:
    """The cosine (n,) of the two sentences of each pair by a trained model, and the name of the model.

    A model that also encodes components (UniVSE) encodes the sentence without them. Raises FileNotFoundError for a
    folder without a model, ValueError for a language that is not the model's.
    """
    device = choose_device(config.device)
    model, vocabulary, trained = load_model(model_folder, device)
    if config.language not in trained.languages:
        known = ", ".join(trained.languages)
        raise ValueError(f"language must be one of those of {model_folder}, {known}, was: {config.language}")
    number = trained.languages.index(config.language)
    if number:
        vocabulary = read_vocabularies(model_folder, [config.language])[config.language]
    encoded = vocabulary.encode([sentence for pair in pairs for sentence in (pair.first, pair.second)])
    tokens, offsets = torch.from_numpy(encoded.tokens).to(device), torch.from_numpy(encoded.offsets)
    texts = Texts(tokens, offsets, 2 * len(pairs), None, torch.full((2 * len(pairs),), number))
    if OBJECTIVES[trained.model].needs_components:
        vectors = embed_sentences(
            lambda texts, rows: model.text(texts.tokens, texts.offsets, rows), texts, torch.arange(2 * len(pairs))
        )
    else:
        vectors = embed_sentences(model.sentences, texts, torch.arange(2 * len(pairs)))
    return functional.cosine_similarity(vectors[::2], vectors[1::2]).cpu(), trained.model


def similarity(model_folder: Path, file: Path, config: SimilarityConfig, output: Path | None = None) -> str:
    """Pearson's r of a model's cosines with people's scores, as a Markdown table by part of the data.

    file: see `read_pairs`. output: a folder to which similarity.md and similarity.json are written; None: none. Raises
    as `read_pairs` and `sentence_cosines`, and ValueError for fewer than 3 pairs, or scores that are all equal.
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
    found, rows = {}, []
    for part, inside in groups.items():
        r = correlation(cosines[inside], scores[inside]).item()
        if math.isfinite(r):
            bounds = correlation_interval(cosines[inside], scores[inside], config.seed)
            found[part] = {"pairs": int(inside.sum()), "r": r, "interval": list(bounds)}
            cell = format_interval(100 * r, tuple(100 * bound for bound in bounds))
        else:
            cell = "scores or cosines are all equal"
        rows.append([part, f"{int(inside.sum()):,}", cell])
    title = f"**{name}** ({config.language}) on {file.name}: Pearson's r × 100 of cosines and scores"
    text = f"{title}\n\n{markdown_table(['pairs of', 'number', 'r × 100'], rows)}"
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        write_json(output / "similarity.json", {"model": name, "language": config.language, "parts": found})
        write_atomically(output / "similarity.md", (text + "\n").encode())
    return text
