"""Textual entailment by the order of sentences: Table 3 of Vendrov et al. (2016).

A premise lies below its hypothesis, which is the more general. Contradiction and neutral count as "not entailed".
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from ...engine.storage import write_atomically, write_json
from ..attention import TextShape
from ..device import choose_device
from ..encoders import TextEncoder, word_embedding
from ..markdown import markdown_table
from ..similarities import SIMILARITIES
from ..training import epoch_seed, optimizer_step
from ..vectors import read_vectors
from ..vocabulary import WordVocabulary, build_vocabulary
from .config import EntailConfig
from .nli import LabelledPairs, read_pairs
from .pairs import accuracy, best_threshold, pair_loss

PAPER = {"order": "88.6", "cosine": "79.3"}  # Table 3, on SNLI, %
AT_ONCE = 1024  # pairs whose penalties are computed together
Say = Callable[[str], None]


class EncodedPairs(NamedTuple):
    """n pairs as word ids: the premise of pair i is sentence i, its hypothesis sentence n + i of a flat array.

    tokens: (total,), on the device. offsets: (2 n + 1,), entailed: (n,) bool, both on the CPU.
    """

    tokens: Tensor
    offsets: Tensor
    entailed: Tensor


class Trained(NamedTuple):
    """A model at its best epoch: its accuracies in % on the validation and the test pairs, and its threshold."""

    encoder: SentencePairs
    validation: float
    test: float
    threshold: float
    epoch: int


class SentencePairs(nn.Module):
    """A GRU over word vectors whose last states, finished as the similarity has it, are compared.

    words: the size of the vocabulary. vectors: see `word_embedding`.
    """

    def __init__(
        self, similarity: str, config: EntailConfig, words: int, vectors: Tensor | None, generator: Generator
    ) -> None:
        super().__init__()
        self.highest = 1.0 if similarity == "cosine" else 0.0  # score of equal vectors
        self.similarity = SIMILARITIES[similarity]
        shape = TextShape(config.word_dim, config.joint, bidirectional=False, pooling="last")
        with torch.random.fork_rng(devices=[]):
            embedding = word_embedding(words, config.word_dim, generator, vectors, tune=True)
            self.text = TextEncoder(embedding, shape, generator, self.similarity.finish)

    def forward(self, pairs: EncodedPairs, rows: Tensor) -> Tensor:
        """The penalties (B,) of pairs `rows` (B,): E(premise, hypothesis), or 1 - cosine."""
        both = torch.cat([rows, len(pairs.entailed) + rows])
        premises, hypotheses = self.text(pairs.tokens, pairs.offsets, both).chunk(2)
        return self.highest - self.similarity.pairs(premises, hypotheses)


def entail(
    train: Path, validation: Path, test: Path, config: EntailConfig, output: Path, say: Say = lambda line: None
) -> str:
    """Train and test entailment by each similarity of the config; returns a table as Markdown.

    train, validation, test: files of pairs, see `read_pairs`. Writes entailment.md, entailment.json, vocabulary.json
    and the weights of each similarity and seed to `output`. say: called with each line of progress. Raises
    FileNotFoundError and ValueError as `read_pairs` and `read_vectors` do.
    """
    from safetensors.torch import save

    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    files = [read_pairs(path) for path in (train, validation, test)]
    vocabulary = build_vocabulary((*files[0].premises, *files[0].hypotheses), config.min_count)
    vectors = read_vectors(config.vectors, vocabulary, config.word_dim) if config.vectors else None
    parts = [encode_pairs(file, vocabulary, device) for file in files]
    dropped = sum(file.dropped for file in files)
    say(f"{len(parts[0].entailed):,} pairs to train on, {len(vocabulary):,} words, {dropped} pairs without a label")
    results: dict[str, dict[str, Any]] = {}
    weights: dict[str, bytes] = {}
    for similarity in config.similarities:
        tried = {}
        for margin in config.margins(similarity):
            tried[margin] = train_pairs(similarity, margin, 0, parts, config, len(vocabulary), vectors)
            say(f"{similarity}, margin {margin}: {tried[margin].validation:.1f} % right on validation pairs")
        margin = max(tried, key=lambda name: tried[name].validation)
        each = [tried[margin]]
        for seed in range(1, config.seeds):
            each.append(train_pairs(similarity, margin, seed, parts, config, len(vocabulary), vectors))
        for seed, trained in enumerate(each):
            say(f"{similarity}, seed {seed}: {trained.test:.1f} % right on test pairs")
            weights[f"{similarity}-{seed}"] = save(
                {name: value.contiguous() for name, value in trained.encoder.state_dict().items()}
            )
        results[similarity] = {
            "margin": margin,
            "test": [trained.test for trained in each],
            "validation": [trained.validation for trained in each],
            "threshold": [trained.threshold for trained in each],
            "epoch": [trained.epoch for trained in each],
        }
    entailed = parts[2].entailed.double().mean().item()
    results["most frequent class"] = {"test": [100 * max(entailed, 1 - entailed)]}
    text = to_markdown(results, parts)
    output.mkdir(parents=True, exist_ok=True)
    for name, tensors in weights.items():
        write_atomically(output / f"{name}.safetensors", tensors)
    write_json(output / "vocabulary.json", list(vocabulary.words))
    write_json(output / "entailment.json", results)
    write_atomically(output / "entailment.md", (text + "\n").encode())
    return text


def encode_pairs(pairs: LabelledPairs, vocabulary: WordVocabulary, device: torch.device) -> EncodedPairs:
    """Pairs as word ids."""
    tokens, offsets = map(torch.from_numpy, vocabulary.encode([*pairs.premises, *pairs.hypotheses]))
    return EncodedPairs(tokens.to(device), offsets, torch.tensor(pairs.entailed))


def train_pairs(
    similarity: str,
    margin: float,
    seed: int,
    parts: list[EncodedPairs],
    config: EntailConfig,
    words: int,
    vectors: Tensor | None,
) -> Trained:
    """Train a model; the epoch and the threshold are those with the highest accuracy on the validation pairs.

    parts: pairs to train on, to validate and to test. words: the size of the vocabulary.
    """
    device = parts[0].tokens.device
    model = SentencePairs(similarity, config, words, vectors, Generator().manual_seed(seed)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    best = Trained(model, -1.0, 0.0, 0.0, 0)
    weights: dict[str, Tensor] = {}
    train, validation, test = parts
    for epoch in range(1, config.epochs + 1):
        generator = Generator().manual_seed(epoch_seed(seed, epoch))
        for rows in torch.randperm(len(train.entailed), generator=generator).split(config.batch_size):
            penalties, entailed = model(train, rows), train.entailed[rows].to(device)
            loss = pair_loss(penalties[entailed], penalties[~entailed], margin)
            optimizer_step(optimizer, loss, model.parameters(), config.clip)
        penalties = penalties_of(model, validation)
        threshold = best_threshold(penalties, validation.entailed)
        right = accuracy(penalties, validation.entailed, threshold)
        if right > best.validation:
            tested = accuracy(penalties_of(model, test), test.entailed, threshold)
            best = Trained(model, right, tested, threshold, epoch)
            weights = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(weights)
    return best


@torch.no_grad()
def penalties_of(model: SentencePairs, pairs: EncodedPairs) -> Tensor:
    """The penalties (n,) of all pairs, on the CPU."""
    return torch.cat([model(pairs, rows).cpu() for rows in torch.arange(len(pairs.entailed)).split(AT_ONCE)])


def to_markdown(results: dict[str, dict[str, Any]], parts: list[EncodedPairs]) -> str:
    """The accuracy on the test pairs by similarity, as means over seeds with the lowest and highest, as Markdown."""
    rows = []
    for name, result in results.items():
        each = result["test"]
        spread = f" ({min(each):.1f}–{max(each):.1f})" if len(each) > 1 else ""
        margin = f"{result['margin']:g}" if "margin" in result else ""
        rows.append([name, margin, f"{mean(each):.1f}{spread}", PAPER.get(name, "")])
    sizes = " / ".join(f"{len(part.entailed):,}" for part in parts)
    shares = " / ".join(f"{100 * part.entailed.double().mean():.0f}" for part in parts)
    head = ["entailment", "margin", "accuracy, %", "paper (SNLI), %"]
    about = f"{sizes} pairs to train on, validate and test; entailed: {shares} %."
    return f"{about}\n\n{markdown_table(head, rows)}"
