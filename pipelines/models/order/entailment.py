"""Textual entailment by the order of sentences: Table 3 of Vendrov et al. (2016).

A premise lies below its hypothesis, which is the more general. Contradiction and neutral count as "not entailed".
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from ...engine.lock import locked
from ...engine.storage import write_atomically, write_json
from ..checkpoint import epoch_seed, sealed_tensors
from ..device import choose_device
from ..encoders import TextEncoder, word_embedding
from ..figures import markdown_table, mean_and_range, write_results
from ..fit import Line, Say, TrainingStep, fit, silent
from ..settings import EntailConfig
from ..similarities import SIMILARITIES
from ..vocabulary import build_vocabulary, read_vectors
from .hypernyms import accuracy, best_threshold, pair_loss

# The names of the premise, the hypothesis and the gold label
SNLI = ("sentence1", "sentence2", "gold_label")
SICK = ("sentence_A", "sentence_B", "entailment_judgment")
COLUMNS = (SNLI, SICK, ("premise", "hypothesis", "label"))
ENTAILED = "entailment"
LABELS = (ENTAILED, "neutral", "contradiction")
NO_LABEL = "-"  # SNLI: the annotators did not agree


class LabelledPairs(NamedTuple):
    """n pairs of sentences; entailed: whether the hypothesis follows from the premise. dropped: pairs without label."""

    premises: list[str]
    hypotheses: list[str]
    entailed: list[bool]
    dropped: int


def read_pairs(path: Path) -> LabelledPairs:
    """Read a file of pairs, JSON lines if its name ends with `.jsonl`, else tab-separated with a header. Pairs whose
    gold label is "-" are dropped, as is customary with SNLI. Raises FileNotFoundError for a missing file, ValueError,
    naming file and line, for other columns or labels, or if no pair has a label.
    """
    pairs = LabelledPairs([], [], [], 0)
    for line, row in _rows(path):
        names = next((names for names in COLUMNS if all(name in row for name in names)), None)
        if names is None:
            wanted = " or ".join(", ".join(names) for names in COLUMNS)
            raise ValueError(f"{path}:{line}: a pair must have {wanted}, has: {', '.join(map(str, row))[:200]}")
        premise, hypothesis, label = (row[name] for name in names)
        known = label.lower() if isinstance(label, str) else label
        if known == NO_LABEL:
            pairs = pairs._replace(dropped=pairs.dropped + 1)
            continue
        if known not in LABELS:
            valid = ", ".join((*LABELS, NO_LABEL))
            raise ValueError(f"{path}:{line}: {names[2]} must be one of {valid}, was: {label!r}")
        if not (isinstance(premise, str) and isinstance(hypothesis, str)):
            given = f"{premise!r:.60}, {hypothesis!r:.60}"
            raise ValueError(f"{path}:{line}: {names[0]} and {names[1]} must be text, were: {given}")
        pairs.premises.append(premise)
        pairs.hypotheses.append(hypothesis)
        pairs.entailed.append(known == ENTAILED)
    if not pairs.entailed:
        raise ValueError(f"{path} must have pairs with a gold label, has none; without a label: {pairs.dropped}")
    return pairs


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            if path.suffix != ".jsonl":
                reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
                yield from ((reader.line_num, row) for row in reader)
                return
            for number, text in enumerate(file, 1):
                if text.strip():
                    row = None
                    with suppress(json.JSONDecodeError, RecursionError):
                        row = json.loads(text)
                    if not isinstance(row, dict):
                        raise ValueError(f"{path}:{number}: must be a JSON object, was: {text.strip():.60}")
                    yield number, row
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8, is not: {error}") from None


PAPER = {"order": "88.6", "cosine": "79.3"}  # Table 3, on SNLI, %
AT_ONCE = 1024  # pairs whose penalties are computed together


class EncodedPairs(NamedTuple):
    """n pairs as word ids: the premise of pair i is sentence i, its hypothesis sentence n + i of a flat array. tokens:
    (total,), on the device. offsets: (2 n + 1,), entailed: (n,) bool, both on the CPU.
    """

    tokens: Tensor
    offsets: Tensor
    entailed: Tensor


class SentencePairs(nn.Module):
    """A GRU over word vectors, whose last states are compared by the similarity; vectors: see `word_embedding`."""

    def __init__(
        self, similarity: str, config: EntailConfig, words: int, vectors: Tensor | None, generator: Generator
    ) -> None:
        super().__init__()
        self.highest = 1.0 if similarity == "cosine" else 0.0  # score of equal vectors
        self.similarity = SIMILARITIES[similarity]
        with torch.random.fork_rng(devices=[]):
            embedding = word_embedding(words, config.word_dim, generator, vectors, tune=True)
            sizes = (config.word_dim, config.joint)
            finish = self.similarity.finish
            self.text = TextEncoder(embedding, *sizes, generator, finish, bidirectional=False, pooling="last")

    def forward(self, pairs: EncodedPairs, rows: Tensor) -> Tensor:
        """The penalties (B,) of pairs `rows` (B,): E(premise, hypothesis), or 1 - cosine."""
        both = torch.cat([rows, len(pairs.entailed) + rows])
        premises, hypotheses = self.text(pairs.tokens, pairs.offsets, both).chunk(2)
        return self.highest - self.similarity.pairs(premises, hypotheses)


def entail(train: Path, validation: Path, test: Path, config: EntailConfig, output: Path, say: Say = silent) -> str:
    """Train and test entailment by each similarity of the config; returns a table as Markdown.

    train, validation, test: files of pairs, see `read_pairs`. Writes entailment.md, entailment.json, vocabulary.json
    and the weights of each similarity and seed to `output`. say: called with each line of progress. Raises
    FileNotFoundError and ValueError as `read_pairs` and `read_vectors` do, LockedError if another command writes into
    `output`.
    """
    with locked(output):
        return _entail(train, validation, test, config, output, say)


def _entail(train: Path, validation: Path, test: Path, config: EntailConfig, output: Path, say: Say) -> str:
    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    files = [read_pairs(path) for path in (train, validation, test)]
    vocabulary = build_vocabulary((*files[0].premises, *files[0].hypotheses), config.min_count)
    vectors = read_vectors(config.vectors, vocabulary, config.word_dim) if config.vectors else None
    parts = []
    for file in files:
        tokens, offsets = map(torch.from_numpy, vocabulary.encode([*file.premises, *file.hypotheses]))
        parts.append(EncodedPairs(tokens.to(device), offsets, torch.tensor(file.entailed)))
    dropped = sum(file.dropped for file in files)
    say(f"{len(parts[0].entailed):,} pairs to train on, {len(vocabulary):,} words, {dropped} pairs without a label")
    results: dict[str, dict[str, Any]] = {}
    weights: dict[str, bytes] = {}
    for similarity in config.similarities:
        fit_pairs = partial(train_pairs, similarity, parts=parts, config=config, words=len(vocabulary), vectors=vectors)
        tried = {}
        for margin in config.margins(similarity):
            tried[margin] = fit_pairs(margin, 0)
            say(f"{similarity}, margin {margin}: {tried[margin][1]['validation']:.1f} % right on validation pairs")
        margin = max(tried, key=lambda name: tried[name][1]["validation"])
        each = [tried[margin], *(fit_pairs(margin, seed) for seed in range(1, config.seeds))]
        for seed, (model, found) in enumerate(each):
            say(f"{similarity}, seed {seed}: {found['test']:.1f} % right on test pairs")
            weights[f"{similarity}-{seed}"] = sealed_tensors(
                dict(model.state_dict()), {"vocabulary": vocabulary.sha256}
            )
        columns = {name: [found[name] for _, found in each] for name in ("test", "validation", "threshold", "epoch")}
        results[similarity] = {"margin": margin, **columns}
    entailed = parts[2].entailed.double().mean().item()
    results["most frequent class"] = {"test": [100 * max(entailed, 1 - entailed)]}
    text = write_results(output, "entailment", results, to_markdown(results, parts))
    for name, content in weights.items():
        write_atomically(output / f"{name}.safetensors", content)
    write_json(output / "vocabulary.json", list(vocabulary.words))
    return text


def train_pairs(
    similarity: str,
    margin: float,
    seed: int,
    parts: Sequence[EncodedPairs],
    config: EntailConfig,
    words: int,
    vectors: Tensor | None,
) -> tuple[SentencePairs, dict[str, Any]]:
    """Train a model; the epoch and the threshold are those with the highest accuracy on the validation pairs. parts:
    pairs to train on, to validate and to test. words: the size of the vocabulary. Returns the model, and what is known
    of its epoch: `threshold`, and the accuracies in % on the pairs `validation` and `test`.
    """
    train, validation, test = parts
    device = train.tokens.device
    model = SentencePairs(similarity, config, words, vectors, Generator().manual_seed(seed)).to(device)

    def batches(epoch: int) -> Iterable[Tensor]:
        generator = Generator().manual_seed(epoch_seed(seed, epoch))
        return torch.randperm(len(train.entailed), generator=generator).split(config.batch_size)

    def step(rows: Tensor, epoch: int) -> TrainingStep:
        penalties = model(train, rows)
        entailed = train.entailed[rows].to(device)
        return TrainingStep(pair_loss(penalties[entailed], penalties[~entailed], margin))

    def evaluate(line: Line) -> Line:
        penalties = penalties_of(model, validation)
        threshold = best_threshold(penalties, validation.entailed)
        return {"threshold": threshold, "validation": accuracy(penalties, validation.entailed, threshold)}

    history = fit(
        {"model": model},
        {"optimizer": torch.optim.Adam(model.parameters(), lr=config.learning_rate)},
        batches,
        step,
        config.epochs,
        clip=config.clip,
        evaluate=evaluate,
        select=lambda line: line["validation"],
    )
    best = max(history, key=lambda line: line["validation"])
    return model, {**best, "test": accuracy(penalties_of(model, test), test.entailed, best["threshold"])}


@torch.no_grad()
def penalties_of(model: SentencePairs, pairs: EncodedPairs) -> Tensor:
    """The penalties (n,) of all pairs, on the CPU."""
    return torch.cat([model(pairs, rows).cpu() for rows in torch.arange(len(pairs.entailed)).split(AT_ONCE)])


def to_markdown(results: dict[str, dict[str, Any]], parts: list[EncodedPairs]) -> str:
    """The accuracy on the test pairs by similarity, as means over seeds with the lowest and highest, as Markdown."""
    rows = []
    for name, result in results.items():
        margin = f"{result['margin']:g}" if "margin" in result else ""
        rows.append([name, margin, mean_and_range(result["test"]), PAPER.get(name, "")])
    sizes = " / ".join(f"{len(part.entailed):,}" for part in parts)
    shares = " / ".join(f"{100 * part.entailed.double().mean():.0f}" for part in parts)
    head = ["entailment", "margin", "accuracy, %", "paper (SNLI), %"]
    about = f"{sizes} pairs to train on, validate and test; entailed: {shares} %."
    return f"{about}\n\n{markdown_table(head, rows)}"
