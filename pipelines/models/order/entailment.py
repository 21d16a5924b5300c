"""Textual entailment by the order of sentences: Table 3 of Vendrov et al. (2016).

A premise lies below its hypothesis, which is the more general. Contradiction and neutral count as "not entailed".
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Required, TypedDict

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
from .hypernyms import best_threshold, pair_loss, threshold_accuracy

# The names of the columns of the premise, the hypothesis and the gold label
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
    """Read a file of pairs: JSON lines if its name ends with `.jsonl`, else tab-separated with a header.

    Pairs whose gold label is "-" are dropped, as is customary with SNLI. Raises FileNotFoundError for a missing file;
    ValueError for other columns or labels, naming file and line, or if no pair has a label.
    """
    premises = []
    hypotheses = []
    entailed = []
    dropped = 0
    for line, row in _read_lines(path):
        # The names of the columns tell which data set the file is of.
        names = next((names for names in COLUMNS if all(name in row for name in names)), None)
        if names is None:
            wanted = " or ".join(", ".join(names) for names in COLUMNS)
            raise ValueError(f"{path}:{line}: a pair must have {wanted}, has: {', '.join(map(str, row))[:200]}")
        premise, hypothesis, gold_label = (row[name] for name in names)
        label = gold_label.lower() if isinstance(gold_label, str) else gold_label  # SICK's are in capitals
        if label == NO_LABEL:
            dropped += 1
            continue
        if label not in LABELS:
            valid = ", ".join((*LABELS, NO_LABEL))
            raise ValueError(f"{path}:{line}: {names[2]} must be one of {valid}, was: {gold_label!r}")
        if not (isinstance(premise, str) and isinstance(hypothesis, str)):
            given = f"{premise!r:.60}, {hypothesis!r:.60}"
            raise ValueError(f"{path}:{line}: {names[0]} and {names[1]} must be text, were: {given}")
        premises.append(premise)
        hypotheses.append(hypothesis)
        entailed.append(label == ENTAILED)
    if not entailed:
        raise ValueError(f"{path} must have pairs with a gold label, has none; without a label: {dropped}")
    return LabelledPairs(premises, hypotheses, entailed, dropped)


class LineOfTable(NamedTuple):
    """A row of a file, by the names of its columns, and the number of its line, from 1."""

    line: int
    row: Mapping[str, object]


def _read_lines(path: Path) -> Iterator[LineOfTable]:
    """The rows of a file, by its suffix JSON lines or tab-separated. Raises ValueError for text that is not UTF-8."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            yield from _json_rows(path, file) if path.suffix == ".jsonl" else _tab_separated_rows(file)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be text in UTF-8, is not: {error}") from None


def _tab_separated_rows(file: Iterable[str]) -> Iterator[LineOfTable]:
    """The rows of a tab-separated file whose first line has the names of the columns."""
    # SNLI and SICK do not quote: a quotation mark is one of the sentence.
    reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    for row in reader:
        yield LineOfTable(reader.line_num, row)


def _json_rows(path: Path, file: Iterable[str]) -> Iterator[LineOfTable]:
    """The objects of a file of JSON lines, without empty lines. Raises ValueError for a line that is no object."""
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        row = None
        with suppress(json.JSONDecodeError, RecursionError):
            row = json.loads(text)
        if not isinstance(row, dict):
            raise ValueError(f"{path}:{number}: must be a JSON object, was: {text.strip():.60}")
        yield LineOfTable(number, row)


PAPER = {"order": "88.6", "cosine": "79.3"}  # the paper's accuracies on SNLI (Table 3), %
AT_ONCE = 1024  # pairs whose penalties are computed together


class EncodedPairs(NamedTuple):
    """n pairs as word ids: the premise of pair i is sentence i, its hypothesis sentence n + i of a flat array. tokens:
    (total,), on the device. offsets: (2 n + 1,), entailed: (n,) bool, both on the CPU.
    """

    tokens: Tensor
    offsets: Tensor
    entailed: Tensor


class SentencePairs(nn.Module):
    """A GRU over word vectors, whose last states are compared by a similarity, the cosine or the order."""

    def __init__(
        self, similarity: str, config: EntailConfig, words: int, vectors: Tensor | None, generator: Generator
    ) -> None:
        """words: the size of the vocabulary; vectors: of its words, (words, word_dim), if they are given."""
        super().__init__()
        self.highest = 1.0 if similarity == "cosine" else 0.0  # the similarity of equal vectors
        self.similarity = SIMILARITIES[similarity]
        with torch.random.fork_rng(devices=[]):  # nn.GRU draws by the global generator, which is to stay as it is
            embedding = word_embedding(words, config.word_dim, generator, vectors, tune=True)
            self.text = TextEncoder(
                embedding,
                config.word_dim,
                config.joint,
                generator,
                self.similarity.finish,
                bidirectional=False,
                pooling="last",
            )

    def forward(self, pairs: EncodedPairs, rows: Tensor) -> Tensor:
        """The penalties (B,) of pairs `rows` (B,): 1 - cosine, or how far the premise is from lying below its
        hypothesis, the paper's E.
        """
        sentences = torch.cat([rows, len(pairs.entailed) + rows])  # the premises, then the hypotheses
        premises, hypotheses = self.text(pairs.tokens, pairs.offsets, sentences).chunk(2)
        return self.highest - self.similarity.pairs(premises, hypotheses)


def entail(train: Path, validation: Path, test: Path, config: EntailConfig, output: Path, say: Say = silent) -> str:
    """Train and test entailment by each similarity of the config; returns a table as Markdown.

    Raises FileNotFoundError for a missing file, ValueError for one of another format or without labelled pairs,
    LockedError if another command writes into `output`.

    Args:
        train, validation, test: files of pairs: JSON lines, or tab-separated with a header.
        config: what is trained, and how.
        output: gets entailment.md, entailment.json, vocabulary.json and the weights of each similarity and seed.
        say: called with each line of progress.
    """
    with locked(output):
        return _entail(train, validation, test, config, output, say)


class EntailmentData(NamedTuple):
    """Pairs to train on, to validate and to test; words: V, of the vocabulary; vectors: (V, word_dim) or None."""

    train: EncodedPairs
    validation: EncodedPairs
    test: EncodedPairs
    words: int
    vectors: Tensor | None


class PairsMetrics(NamedTuple):
    """The best epoch of a training: its accuracies in % on the test and the validation pairs, the highest penalty of
    pairs that count as entailed, and the number of the epoch, from 1.
    """

    test: float
    validation: float
    threshold: float
    epoch: int


class TrainedPairs(NamedTuple):
    """A trained model, as it was in its best epoch, and the metrics of this epoch."""

    model: SentencePairs
    metrics: PairsMetrics


class SimilarityResult(TypedDict, total=False):
    """A row of entailment.json: the margin that was chosen, and lists with a value for each seed."""

    margin: float
    test: Required[list[float]]
    validation: list[float]
    threshold: list[float]
    epoch: list[float]


def _entail(train: Path, validation: Path, test: Path, config: EntailConfig, output: Path, say: Say) -> str:
    """Train and test all models of a config, and write them and their results to `output`, a folder that is locked.

    Returns the results as Markdown. train, validation, test: files of pairs. say: called with each line of progress.
    """
    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    files = [read_pairs(path) for path in (train, validation, test)]
    # Words of the train pairs only: the vector of a word that occurs elsewhere would never be trained.
    vocabulary = build_vocabulary((*files[0].premises, *files[0].hypotheses), config.min_count)
    vectors = read_vectors(config.vectors, vocabulary, config.word_dim) if config.vectors else None
    parts = []
    for file in files:
        encoded = vocabulary.encode([*file.premises, *file.hypotheses])
        tokens = torch.from_numpy(encoded.tokens).to(device)
        parts.append(EncodedPairs(tokens, torch.from_numpy(encoded.offsets), torch.tensor(file.entailed)))
    data = EntailmentData(parts[0], parts[1], parts[2], words=len(vocabulary), vectors=vectors)
    dropped = sum(file.dropped for file in files)
    say(f"{len(data.train.entailed):,} pairs to train on, {data.words:,} words, {dropped} pairs without a label")
    results: dict[str, SimilarityResult] = {}
    weights: dict[str, bytes] = {}
    for similarity in config.similarities:
        # The margin is chosen by the first seed alone (highest accuracy on validation), and used for the others.
        by_margin: dict[float, TrainedPairs] = {}
        for margin in config.margins(similarity):
            by_margin[margin] = train_pairs(similarity, margin, 0, data, config)
            right = by_margin[margin].metrics.validation
            say(f"{similarity}, margin {margin}: {right:.1f} % right on validation pairs")
        best = max(by_margin, key=lambda margin: by_margin[margin].metrics.validation)
        trainings = [by_margin[best]]
        trainings += [train_pairs(similarity, best, seed, data, config) for seed in range(1, config.seeds)]
        for seed, (model, metrics) in enumerate(trainings):
            say(f"{similarity}, seed {seed}: {metrics.test:.1f} % right on test pairs")
            about = {"vocabulary": vocabulary.sha256}
            weights[f"{similarity}-{seed}"] = sealed_tensors(dict(model.state_dict()), about)
        results[similarity] = {
            "margin": best,
            "test": [training.metrics.test for training in trainings],
            "validation": [training.metrics.validation for training in trainings],
            "threshold": [training.metrics.threshold for training in trainings],
            "epoch": [training.metrics.epoch for training in trainings],
        }
    # What a model must beat: the same answer for all pairs.
    entailed = data.test.entailed.double().mean().item()
    results["most frequent class"] = {"test": [100 * max(entailed, 1 - entailed)]}
    text = write_results(output, "entailment", results, to_markdown(results, data))
    for name, content in weights.items():
        write_atomically(output / f"{name}.safetensors", content)
    write_json(output / "vocabulary.json", list(vocabulary.words))
    return text


def train_pairs(similarity: str, margin: float, seed: int, data: EntailmentData, config: EntailConfig) -> TrainedPairs:
    """Train a model; the epoch and the threshold are those with the highest accuracy on the validation pairs.

    Args:
        similarity: how two sentences are compared, a key of MARGINS.
        margin: the least penalty that a pair which is not entailed is to have.
        seed: of the first weights and of the order of the pairs.
        data: the pairs to train, validate and test on.
        config: of the training.
    """
    train = data.train
    device = train.tokens.device
    model = SentencePairs(similarity, config, data.words, data.vectors, Generator().manual_seed(seed)).to(device)

    def batches(epoch: int) -> Iterable[Tensor]:
        """The train pairs in random order, some at a time: their row numbers, each (B,)."""
        generator = Generator().manual_seed(epoch_seed(seed, epoch))
        return torch.randperm(len(train.entailed), generator=generator).split(config.batch_size)

    def step(rows: Tensor, epoch: int) -> TrainingStep:
        """The loss of pairs `rows` (B,): entailed ones are to have no penalty, others one of at least the margin."""
        penalties = model(train, rows)
        entailed = train.entailed[rows].to(device)
        return TrainingStep(pair_loss(penalties[entailed], penalties[~entailed], margin))

    def evaluate(_: Line) -> Line:
        """The threshold that is right for most validation pairs, and the share of them in %, to add to the epoch's
        line of the log (which is given, and not needed).
        """
        penalties = penalties_of(model, data.validation)
        threshold = best_threshold(penalties, data.validation.entailed)
        return {
            "threshold": threshold,
            "validation": threshold_accuracy(penalties, data.validation.entailed, threshold),
        }

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
    right = threshold_accuracy(penalties_of(model, data.test), data.test.entailed, best["threshold"])
    return TrainedPairs(model, PairsMetrics(right, best["validation"], best["threshold"], best["epoch"]))


@torch.no_grad()
def penalties_of(model: SentencePairs, pairs: EncodedPairs) -> Tensor:
    """The penalties (n,) of all pairs, on the CPU."""
    return torch.cat([model(pairs, rows).cpu() for rows in torch.arange(len(pairs.entailed)).split(AT_ONCE)])


def to_markdown(results: Mapping[str, SimilarityResult], data: EntailmentData) -> str:
    """The accuracy on the test pairs by similarity, as means over seeds with the lowest and highest, as Markdown."""
    rows = []
    for name, result in results.items():
        margin = f"{result['margin']:g}" if "margin" in result else ""
        rows.append([name, margin, mean_and_range(result["test"]), PAPER.get(name, "")])
    entailed = [part.entailed for part in (data.train, data.validation, data.test)]
    sizes = " / ".join(f"{len(flags):,}" for flags in entailed)
    shares = " / ".join(f"{100 * flags.double().mean():.0f}" for flags in entailed)
    head = ["entailment", "margin", "accuracy, %", "paper (SNLI), %"]
    about = f"{sizes} pairs to train on, validate and test; entailed: {shares} %."
    return f"{about}\n\n{markdown_table(head, rows)}"
