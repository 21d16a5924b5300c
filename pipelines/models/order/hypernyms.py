"""Hypernym prediction on WordNet: Table 1 and Figure 2 of Vendrov et al. (2016)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from ...engine.manifest import hash_value
from ...engine.storage import write_atomically, write_json
from ..figures import markdown_table, mean_and_range, write_results
from ..fit import Line, Step, fit
from .config import HypernymConfig
from .energies import (
    ENERGIES,
    Energy,
    accuracy,
    best_threshold,
    chosen_concepts,
    draw_plane,
    max_margin_loss,
    pair_loss,
)
from .taxonomy import SplitPairs, Taxonomy, false_pairs, keys, read_taxonomy, split_pairs, transitive_closure

EVALUATED_EVERY = 100  # batches
MARGIN, GAUSSIAN_MARGIN = 1.0, 7.0
PAPER = {"transitive": 88.2, "word2gauss": 86.6, "symmetric": 84.2, "bilinear": 86.3, "order": 90.6}  # Table 1, %
# Losses without a lower bound, or with a margin between a true and a false pair, are taken pair by pair
MAX_MARGIN = ("word2gauss", "bilinear")
Say = Callable[[str], None]


class HeldOut(NamedTuple):
    """Pairs of concepts (n, 2) and whether the first lies below the second, (n,) bool: as many true as false ones."""

    pairs: Tensor
    related: Tensor


class Found(NamedTuple):
    """On the test pairs, in %: the accuracy, the share of true pairs that are found, and of false pairs refused."""

    accuracy: float
    true: float
    false: float


def predict_hypernyms(config: HypernymConfig, output: Path, say: Say = lambda line: None) -> str:
    """Make the rows of Table 1; returns them as Markdown.

    Writes to `output` hypernyms.md, hypernyms.json, concepts.json (the names of the concepts), the vectors of each
    row and seed as safetensors, and hypernyms.png, a picture of some concepts in two dimensions (Figure 2). A row and
    seed whose vectors `output` has, trained with the same settings on the same pairs, is not trained again. say: called
    with each line of progress. Raises ValueError for a WordNet without nouns, too few pairs, or an unknown concept.
    """
    from safetensors.torch import save

    torch.set_num_threads(config.threads)
    taxonomy = read_taxonomy(config.wordnet)
    concepts = chosen_concepts(taxonomy, config.concepts)
    results: dict[str, list[Found]] = {row: [] for row in config.rows}
    left_out = ("rows", "seeds", "wordnet", "concepts", "threads")  # all else decides what a row and seed learn
    learned = {name: value for name, value in vars(config).items() if name not in left_out}
    settings = hash_value([learned, taxonomy.names, sha256(taxonomy.closure.tobytes()).hexdigest()])
    for seed in range(config.seeds):
        rng = np.random.default_rng(seed)
        split = split_pairs(taxonomy.closure, config.held_out, rng)
        held = {name: _held_out(getattr(split, name), taxonomy, rng) for name in ("validation", "threshold", "test")}
        output.mkdir(parents=True, exist_ok=True)
        for row in config.rows:
            if row == "transitive":
                found = transitive(split, held["test"], len(taxonomy.names))
            else:
                file = output / f"{row}-{seed}.safetensors"
                known = _trained_before(file, settings)
                if known is None:
                    energy, known = train_energy(row, split, held, taxonomy, config, seed, say)
                    result = json.dumps({"settings": settings, "found": known._asdict()})
                    write_atomically(file, save(dict(energy.state_dict()), {"result": result}))
                found = known
            results[row].append(found)
            say(f"{row}, seed {seed}: {found.accuracy:.1f} % right on {len(held['test'].pairs):,} test pairs")
    text = to_markdown(results, config)
    draw_plane(taxonomy, concepts, output / "hypernyms.png")
    write_json(output / "concepts.json", taxonomy.names)
    values = {row: [found._asdict() for found in each] for row, each in results.items()}
    return write_results(output, "hypernyms", values, text)


def _trained_before(file: Path, settings: str) -> Found | None:
    """What a file of vectors says of their test; None if there is none, or it is of other settings."""
    from safetensors import safe_open

    if not file.exists():
        return None
    with safe_open(file, "pt") as tensors:
        known = json.loads((tensors.metadata() or {}).get("result", "{}"))
    return Found(**known["found"]) if known.get("settings") == settings else None


def _held_out(true: np.ndarray, taxonomy: Taxonomy, rng: np.random.Generator) -> HeldOut:
    false = false_pairs(true, taxonomy.closure, len(taxonomy.names), rng)
    related = torch.arange(2 * len(true)) < len(true)
    return HeldOut(torch.from_numpy(np.concatenate([true, false])), related)


def transitive(split: SplitPairs, test: HeldOut, concepts: int) -> Found:
    """The row without learning: a pair is true if a chain of the pairs that are not for the test connects it."""
    given = np.concatenate([split.train, split.validation, split.threshold])
    reachable = keys(transitive_closure(given, concepts), concepts)
    penalties = torch.from_numpy(~np.isin(keys(test.pairs.numpy(), concepts), reachable)).double()
    return _found(penalties, test.related, 0.5)


@torch.sparse.check_sparse_tensor_invariants(False)  # else torch warns that it does not check
def train_energy(
    row: str,
    split: SplitPairs,
    held: Mapping[str, HeldOut],
    taxonomy: Taxonomy,
    config: HypernymConfig,
    seed: int,
    say: Say = lambda line: None,
) -> tuple[Energy, Found]:
    """Train a penalty of ENERGIES; returns it as it was at its best on the validation pairs, and its test.

    held: the parts validation, threshold and test with as many false pairs. False pairs to train on are drawn anew in
    every epoch. Evaluated every 100 batches, and at the end of an epoch.
    """
    generator, rng = Generator().manual_seed(seed), np.random.default_rng([seed, 1])
    options = {"root": config.root, "absolute": config.absolute} if row == "order" else {}
    energy = ENERGIES[row](len(taxonomy.names), config.dim, generator, **options)
    margin = config.margin if config.margin is not None else GAUSSIAN_MARGIN if row == "word2gauss" else MARGIN
    loss = max_margin_loss if row in MAX_MARGIN else pair_loss
    spans = -(-len(split.train) // (config.batch_size * EVALUATED_EVERY))  # of an epoch
    every = (span for _ in range(config.epochs) for span in _spans(split.train, taxonomy, config.batch_size, rng))

    def evaluate(line: Line) -> Line:
        penalties = {name: penalties_of(energy, held[name].pairs) for name in ("threshold", "validation")}
        threshold = best_threshold(penalties["threshold"], held["threshold"].related)
        return {
            "threshold": threshold,
            "accuracy": accuracy(penalties["validation"], held["validation"].related, threshold),
        }

    def report(history: Sequence[Line]) -> None:
        epoch, rest = divmod(len(history), spans)
        if not rest:
            best = max(line["accuracy"] for line in history)
            say(f"{row}, seed {seed}, epoch {epoch}: {best:.1f} % right on validation pairs at best")

    history = fit(
        {"energy": energy},
        {"optimizer": torch.optim.Adagrad(energy.parameters(), lr=config.learning_rate)},
        lambda span: next(every),
        lambda pairs, span: Step(loss(energy(*pairs[0].T), energy(*pairs[1].T), margin)),
        config.epochs * spans,
        after_step=lambda pairs: energy.constrain(torch.cat(pairs).flatten()),
        evaluate=evaluate,
        select=lambda line: line["accuracy"],
        report=report,
    )
    threshold = max(history, key=lambda line: line["accuracy"])["threshold"]
    return energy, _found(penalties_of(energy, held["test"].pairs), held["test"].related, threshold)


def _spans(
    train: np.ndarray, taxonomy: Taxonomy, size: int, rng: np.random.Generator
) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """The true pairs of an epoch in batches (b, 2), each with as many new false pairs (b, 2), 100 batches at a time."""
    true = train[rng.permutation(len(train))]
    false = false_pairs(true, taxonomy.closure, len(taxonomy.names), rng)
    batches = list(zip(torch.from_numpy(true).split(size), torch.from_numpy(false).split(size), strict=True))
    for start in range(0, len(batches), EVALUATED_EVERY):
        yield batches[start : start + EVALUATED_EVERY]


@torch.no_grad()
def penalties_of(energy: Energy, pairs: Tensor) -> Tensor:
    """The penalties (n,) of pairs of concepts (n, 2)."""
    return energy(*pairs.T)


def _found(penalties: Tensor, related: Tensor, threshold: float) -> Found:
    return Found(
        accuracy(penalties, related, threshold),
        accuracy(penalties[related], related[related], threshold),
        accuracy(penalties[~related], related[~related], threshold),
    )


def to_markdown(results: Mapping[str, list[Found]], config: HypernymConfig) -> str:
    """Table 1: per row the means over its seeds, with the lowest and highest accuracy, and the paper's accuracy."""
    rows = []
    for row, each in results.items():
        accuracies, true, false = zip(*each, strict=True)
        rows.append([row, mean_and_range(accuracies), f"{mean(true):.1f}", f"{mean(false):.1f}", f"{PAPER[row]:.1f}"])
    head = ["hypernyms", "accuracy, %", "true pairs found, %", "false pairs refused, %", "paper, %"]
    seeds = "one seed" if config.seeds == 1 else f"means of {config.seeds} seeds, in brackets the lowest and highest"
    return (
        f"{config.held_out:,} true and {config.held_out:,} false test pairs; {seeds}.\n\n{markdown_table(head, rows)}"
    )
