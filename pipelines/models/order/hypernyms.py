"""Hypernym prediction on WordNet: penalties of pairs, and Table 1 and Figure 2 of Vendrov et al. (2016).

A penalty E(below, above) is low where the first concept lies below the second one, as "dog" lies below "animal".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import product
from pathlib import Path
from statistics import mean
from typing import NamedTuple, TypedDict

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ...engine.lock import locked
from ...engine.manifest import hash_value
from ...engine.storage import write_atomically, write_json
from ..checkpoint import read_sealed_tensors, sealed_tensors
from ..device import choose_device, deterministic, to_device
from ..figures import (
    COLOURS,
    label_points,
    legend_below,
    markdown_table,
    mean_and_range,
    new_figure,
    write_png,
    write_results,
)
from ..fit import Line, Say, TrainingStep, fit, silent
from ..settings import HypernymConfig
from ..similarities import order_penalty
from .taxonomy import HeldOut, Split, Taxonomy, false_pairs, in_closure, read_taxonomy, split_pairs, transitive_closure

VARIANCES = (0.05, 5.0)  # bounds of a Gaussian's variances
EVALUATED_EVERY = 100  # batches
PAPER = {"transitive": 88.2, "word2gauss": 86.6, "symmetric": 84.2, "bilinear": 86.3, "order": 90.6}  # Table 1, %
# Settings that do not decide what is learned
NOT_LEARNED = {"rows", "false_pairs", "seeds", "wordnet", "concepts", "device", "threads"}
PLANE_STEPS = 500  # of each training of the points
RESTARTS = 5  # trainings of the points of a plane, as some initial points end in a bad order
PLANE_RATE = 0.2  # of Adagrad
STYLES = {
    "right": ("0.75", "-"),
    "missing": (COLOURS[0], "--"),
    "spurious": (COLOURS[1], ":"),
}  # of lines: colour, style
Shares = dict[str, float]  # in %: the accuracy, and the shares of the true pairs found and of the false pairs refused
Results = Mapping[str, dict[str, list[Shares]]]  # by kind of false pairs, then by row of Table 1: one for each seed


class Energy(nn.Module):
    """A penalty E, and a vector for each concept, (concepts, dim), of any sign, uniform in [-0.1, 0.1] at first."""

    def __init__(self, concepts: int, dim: int, generator: Generator) -> None:
        super().__init__()
        self.points = _table(self._initialised(torch.empty(concepts, dim), generator))

    def _initialised(self, vectors: Tensor, generator: Generator) -> Tensor:
        """Fill vectors (concepts, dim) with the values that training begins with."""
        return (vectors.uniform_(generator=generator) - 0.5) / 5

    def _penalties(self, lower: Tensor, upper: Tensor) -> Tensor:
        """E (n,) of vectors (n, dim) of lower and upper concepts."""
        raise NotImplementedError

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties E(below, above), (n,), of numbers of concepts (n,)."""
        # both are looked up at once, as the gradient of each look-up is as large as the whole table
        return self._penalties(*self.points(torch.stack([below, above])))

    def constrain(self) -> None:
        """Bring the vectors into their bounds, if there are any; called after each step."""


class Symmetric(Energy):
    """E = 1 - cosine, which does not tell which of the two lies below."""

    def _penalties(self, lower: Tensor, upper: Tensor) -> Tensor:
        return 1 - functional.cosine_similarity(lower, upper)


class Bilinear(Energy):
    """E = -uᵀ W v, with a matrix W (dim, dim), the identity at first."""

    def __init__(self, concepts: int, dim: int, generator: Generator) -> None:
        super().__init__(concepts, dim, generator)
        self.matrix = nn.Parameter(torch.eye(dim))

    def _penalties(self, lower: Tensor, upper: Tensor) -> Tensor:
        return -((lower @ self.matrix) * upper).sum(-1)


class Order(Energy):
    """E = ‖max(0, above - below)‖², of vectors with coordinates >= 0 (eq. 2), max(0, N(0, 1)) at first."""

    def _initialised(self, vectors: Tensor, generator: Generator) -> Tensor:
        return vectors.normal_(generator=generator).clamp(min=0)

    def _penalties(self, lower: Tensor, upper: Tensor) -> Tensor:
        return order_penalty(lower, upper)

    def constrain(self) -> None:
        """Clamp the coordinates to >= 0."""
        self.points.weight.data.clamp_(min=0)


class Gaussians(Energy):
    """word2gauss (Vilnis and McCallum 2015): E = KL(below ‖ above) of Gaussians with diagonal covariances, which is
    ½ Σ (σ₁² / σ₂² + (μ₂ - μ₁)² / σ₂² - 1 + ln σ₂² - ln σ₁²); the variances are 1 at first, and kept in [0.05, 5].
    """

    def __init__(self, concepts: int, dim: int, generator: Generator) -> None:
        super().__init__(concepts, dim, generator)
        self.logs = _table(torch.zeros(concepts, dim))  # ln σ²

    def forward(self, below: Tensor, above: Tensor) -> Tensor:
        """The penalties E(below, above), (n,), of numbers of concepts (n,)."""
        pairs = torch.stack([below, above])
        log_below, log_above = self.logs(pairs)
        mean_below, mean_above = self.points(pairs)
        squared_distance = (mean_above - mean_below).square()
        ratio = (log_below - log_above).exp()  # of the variances
        return 0.5 * (ratio + squared_distance * (-log_above).exp() - 1 + log_above - log_below).sum(-1)

    def constrain(self) -> None:
        """Keep the variances in their bounds."""
        self.logs.weight.data.clamp_(*torch.tensor(VARIANCES).log().tolist())


def _table(vectors: Tensor) -> nn.Embedding:
    """A trainable look-up table that begins with these vectors (n, dim)."""
    return nn.Embedding.from_pretrained(vectors, freeze=False)


def pair_loss(true: Tensor, false: Tensor, margin: float) -> Tensor:
    """Σ_true E + Σ_false max(0, α - E): the loss of Vendrov et al. (2016), eq. 3, a scalar.

    Args:
        true: (n,) penalties E of related pairs.
        false: (m,) penalties of unrelated pairs.
        margin: α.
    """
    return true.sum() + (margin - false).clamp(min=0).sum()


def max_margin_loss(true: Tensor, false: Tensor, margin: float) -> Tensor:
    """Σ max(0, α + E_true - E_false), a scalar. true: (n,) penalties of related pairs; false: (n,), of the false pair
    made of each; margin: α.
    """
    return (margin + true - false).clamp(min=0).sum()


class EnergyKind(NamedTuple):
    """How the penalty of a row of Table 1 is trained: its model, its loss, and the loss's margin."""

    model: type[Energy]
    loss: Callable[[Tensor, Tensor, float], Tensor]
    margin: float


# Bilinear penalties have no lower bound, and word2gauss has a margin between a true and a false pair: both have a loss
# that compares true and false pairs.
ENERGIES: Mapping[str, EnergyKind] = {
    "word2gauss": EnergyKind(Gaussians, max_margin_loss, 7.0),
    "symmetric": EnergyKind(Symmetric, pair_loss, 1.0),
    "bilinear": EnergyKind(Bilinear, max_margin_loss, 1.0),
    "order": EnergyKind(Order, pair_loss, 1.0),
}


def best_threshold(penalties: Tensor, related: Tensor) -> float:
    """The threshold t with the highest accuracy of "related if E <= t"; halfway between two penalties. penalties: (n,).
    related: (n,) bool. Among equal accuracies the lowest threshold is taken; -inf relates no pair.
    """
    values, order = penalties.double().sort(stable=True)
    # right[k], (n + 1,): of the pairs with the k lowest penalties, how many are related, minus how many are not.
    gains = (2 * related[order].double() - 1).cumsum(0)
    right = torch.cat([values.new_zeros(1), gains])
    right[1:-1][values[:-1] == values[1:]] = -torch.inf  # no threshold lies between equal penalties
    k = int(right.argmax())
    if k == 0:
        return float("-inf")
    return float(values[k - 1 : k + 1].mean())


def threshold_accuracy(penalties: Tensor, related: Tensor, threshold: float) -> float:
    """The share, in %, of pairs that "related if E <= threshold" tells right; penalties: (n,), related: (n,) bool."""
    return 100 * ((penalties.double() <= threshold) == related).double().mean().item()


def predict_hypernyms(config: HypernymConfig, output: Path, say: Say = silent) -> str:
    """Make the rows of Table 1; returns them as Markdown.

    Writes to `output` hypernyms.md, hypernyms.json, concepts.json (the names of the concepts), the vectors of each row,
    kind of false pairs and seed as safetensors, and hypernyms.png, a picture of some concepts in two dimensions (Figure
    2). Vectors that `output` has already, trained with the same settings on the same pairs, are not trained again. say:
    called with each line of progress. Raises ValueError for a WordNet without nouns, too few pairs, an unknown concept,
    or a GPU that is not there, LockedError if another command writes into `output`.
    """
    with locked(output):
        return _predict_hypernyms(config, output, say)


class SavedResult(TypedDict, total=False):
    """What is stored with the vectors of a row: the hash of the settings of their training, and the test's result."""

    settings: str
    found: Shares


def _predict_hypernyms(config: HypernymConfig, output: Path, say: Say) -> str:
    """Make the rows of Table 1 in a folder that no other command writes."""
    torch.set_num_threads(config.threads)
    device = choose_device(config.device)
    taxonomy = read_taxonomy(config.wordnet)
    if unknown := [name for name in config.concepts if name not in taxonomy.names]:
        raise ValueError(f"concepts must be names of nouns of WordNet (dog.n.01), was: {unknown[0]}")
    results: Results = {kind: {row: [] for row in config.rows} for kind in config.false_pairs}
    # Vectors of an earlier command count if they were trained with these settings on these pairs of concepts.
    closure = sha256(taxonomy.closure.tobytes()).hexdigest()
    settings = hash_value([config.model_dump(exclude=NOT_LEARNED), taxonomy.names, closure])
    for seed, kind in product(range(config.seeds), config.false_pairs):
        clean = kind == "clean"
        split = split_pairs(taxonomy, config.held_out, np.random.default_rng(seed), clean=clean)
        # Only now, as a run whose pairs cannot be split must write nothing.
        output.mkdir(parents=True, exist_ok=True)
        for row in config.rows:
            file = output / f"{row}-{kind}-{seed}.safetensors"
            saved = _read_result(file, say)
            if row == "transitive":
                shares = reachable_pairs_accuracy(split, len(taxonomy.names))
            elif saved.get("settings") == settings:
                shares = saved["found"]
            else:
                with deterministic(device):
                    trained = train_energy(row, split, taxonomy, config, seed, say, clean=clean)
                shares = trained.shares
                result: SavedResult = {"settings": settings, "found": shares}
                write_atomically(file, sealed_tensors(dict(trained.energy.state_dict()), dict(result)))
            results[kind][row].append(shares)
            right = f"{shares['accuracy']:.1f} % right on {len(split.test.pairs):,} test pairs"
            say(f"{row}, seed {seed}, false pairs {kind}: {right}")
    draw_plane(taxonomy, config.concepts, output / "hypernyms.png")
    write_json(output / "concepts.json", taxonomy.names)
    return write_results(output, "hypernyms", results, to_markdown(results, config))


def _read_result(file: Path, say: Say) -> SavedResult:
    """The settings and results of an earlier training, from its file; empty if there is none, or it is damaged.

    say: told why a damaged file is trained again.
    """
    if not file.exists():
        return {}
    try:
        about = read_sealed_tensors(file)[1]
    except ValueError as error:
        say(f"trained again: {error}")
        return {}
    return SavedResult(settings=about.get("settings", ""), found=about.get("found", {}))


def reachable_pairs_accuracy(split: Split, concepts: int) -> Shares:
    """The row "transitive", without learning: a test pair counts as true if a chain of the other pairs connects it."""
    true_pairs = [part.pairs[part.related].numpy() for part in (split.validation, split.threshold)]
    reachable = transitive_closure(np.concatenate([split.train, *true_pairs]), concepts)
    penalties = torch.from_numpy(~in_closure(split.test.pairs.numpy(), reachable)).double()
    return _accuracies(penalties, split.test.related, threshold=0.5)


class TrainedEnergy(NamedTuple):
    """A penalty with the vectors that were best on the validation pairs, on the CPU, and its accuracy on test pairs."""

    energy: Energy
    shares: Shares


def train_energy(
    row: str,
    split: Split,
    taxonomy: Taxonomy,
    config: HypernymConfig,
    seed: int,
    say: Say = silent,
    *,
    clean: bool = True,
) -> TrainedEnergy:
    """Train a penalty; false pairs to train on are drawn anew in every epoch.

    Args:
        row: of Table 1, a key of ENERGIES.
        split: the pairs.
        taxonomy: the concepts and all true pairs.
        config: how it is trained.
        seed: of the initial vectors, and of the random order and false pairs.
        say: called with a line after each epoch.
        clean: whether all false pairs to train on are false; else some are true by chance, as in the paper.
    """
    kind = ENERGIES[row]
    device = choose_device(config.device)
    energy = kind.model(len(taxonomy.names), config.dim, Generator().manual_seed(seed)).to(device)
    margin = kind.margin if config.margin is None else config.margin
    rng = np.random.default_rng([seed, 1])
    # The accuracy is measured every EVALUATED_EVERY batches and at an epoch's end: `fit` calls this span an epoch.
    spans_per_epoch = math.ceil(len(split.train) / (config.batch_size * EVALUATED_EVERY))

    def epoch_spans() -> Iterator[list[tuple[Tensor, Tensor]]]:
        """Lists of EVALUATED_EVERY batches of an epoch's true pairs (b, 2), each with as many new false pairs."""
        true = split.train[rng.permutation(len(split.train))]
        false = false_pairs(true, taxonomy, rng, clean=clean)
        true_batches = torch.from_numpy(true).split(config.batch_size)
        false_batches = torch.from_numpy(false).split(config.batch_size)
        batches = list(zip(true_batches, false_batches, strict=True))
        for start in range(0, len(batches), EVALUATED_EVERY):
            yield batches[start : start + EVALUATED_EVERY]

    all_spans = (span for _ in range(config.epochs) for span in epoch_spans())

    def penalties_of(pairs: Tensor) -> Tensor:
        """The penalties (n,) of pairs (n, 2): how much each violates "the first concept is below the second"."""
        below, above = to_device(pairs, device).T
        penalties: Tensor = energy(below, above)
        return penalties

    def step(pairs: tuple[Tensor, Tensor], span: int) -> TrainingStep:
        """The loss of true pairs and of false ones, both (b, 2)."""
        true, false = penalties_of(torch.cat(pairs)).chunk(2)
        return TrainingStep(kind.loss(true, false, margin))

    @torch.no_grad()
    def held_out_penalties(part: HeldOut) -> Tensor:
        """The penalties (n,) of held-out pairs, on the CPU."""
        return penalties_of(part.pairs).cpu()

    def evaluate(line: Line) -> Line:
        """The accuracy on the validation pairs, by the threshold that suits other held-out pairs best."""
        threshold = best_threshold(held_out_penalties(split.threshold), split.threshold.related)
        right = threshold_accuracy(held_out_penalties(split.validation), split.validation.related, threshold)
        return {"threshold": threshold, "accuracy": right}

    def report(history: Sequence[Line]) -> None:
        """Say how good the penalty is, after the last span of each epoch."""
        epoch, spans_of_next_epoch = divmod(len(history), spans_per_epoch)
        if not spans_of_next_epoch:
            best = max(line["accuracy"] for line in history)
            say(f"{row}, seed {seed}, epoch {epoch}: {best:.1f} % right on validation pairs at best")

    # Adam moves the vectors of all concepts in every step, as in the paper. With sparse gradients, which move those of
    # the batch alone, the row "order" learns far less of rare concepts.
    history = fit(
        {"energy": energy},
        {"optimizer": torch.optim.Adam(energy.parameters(), lr=config.learning_rate, fused=True)},
        lambda span: next(all_spans),
        step,
        config.epochs * spans_per_epoch,
        after_step=lambda pairs: energy.constrain(),
        evaluate=evaluate,
        select=lambda line: line["accuracy"],
        report=report,
    )
    threshold = max(history, key=lambda line: line["accuracy"])["threshold"]
    shares = _accuracies(held_out_penalties(split.test), split.test.related, threshold)
    return TrainedEnergy(energy.cpu(), shares)


def _accuracies(penalties: Tensor, related: Tensor, threshold: float) -> Shares:
    """The accuracy of "related if E <= threshold", and the shares of true and of false pairs that it tells right, in %.

    Args:
        penalties: (n,) E of each pair.
        related: (n,) bool, True for a true pair.
        threshold: at or below which a pair counts as related.
    """
    return {
        "accuracy": threshold_accuracy(penalties, related, threshold),
        "true": threshold_accuracy(penalties[related], related[related], threshold),
        "false": threshold_accuracy(penalties[~related], related[~related], threshold),
    }


def to_markdown(results: Results, config: HypernymConfig) -> str:
    """Table 1: per row and kind of false pairs the means over seeds, with the lowest and highest accuracy."""
    rows: dict[str, list[str]] = {row: [row, f"{PAPER[row]:.1f}"] for row in config.rows}
    head = ["hypernyms, accuracy in %", "paper"]
    for kind, results_of_kind in results.items():
        head += [kind, f"{kind}: true pairs found · false ones refused"]
        for row, seeds in results_of_kind.items():
            true = mean(shares["true"] for shares in seeds)
            false = mean(shares["false"] for shares in seeds)
            rows[row] += [mean_and_range([shares["accuracy"] for shares in seeds]), f"{true:.1f} · {false:.1f}"]
    seeds_used = (
        "one seed" if config.seeds == 1 else f"means of {config.seeds} seeds, in brackets the lowest and highest"
    )
    about = f"{config.held_out:,} true and {config.held_out:,} false test pairs; {seeds_used}."
    return f"{about}\n\n{markdown_table(head, list(rows.values()))}"


class Plane(NamedTuple):
    """Points (n, 2) of n concepts; related: (n, n) bool, whether by its coordinates concept i lies below concept j."""

    points: Tensor
    related: Tensor


def fit_plane(related: Tensor, steps: int = PLANE_STEPS) -> Plane:
    """Find points of a plane for n concepts, so that a general one is nearer to the origin than those below it.

    The points minimize the loss of order-embeddings (eq. 3) on all pairs of different concepts. A pair counts as
    related in the plane if its penalty is at most the threshold that is right for most pairs. There are RESTARTS
    trainings with different initial points, and the one with most pairs right is taken.

    Args:
        related: (n, n) bool, whether concept i lies below concept j.
        steps: of the gradient descent.
    """
    n = len(related)
    # All restarts are trained at once: (RESTARTS, n, 2).
    first_points = [torch.rand(n, 2, generator=Generator().manual_seed(seed)) for seed in range(RESTARTS)]
    plane = nn.ParameterList([torch.stack(first_points)])
    is_pair = ~torch.eye(n, dtype=torch.bool)  # of different concepts
    is_unrelated = is_pair & ~related

    def all_penalties(points: Tensor) -> Tensor:
        """E of each concept, as the lower one, with each: (RESTARTS, n, n), of points (RESTARTS, n, 2)."""
        return order_penalty(points[:, :, None], points[:, None])

    def step(number: int, epoch: int) -> TrainingStep:
        """The loss of all pairs, summed over the restarts, which have no points in common."""
        penalties = all_penalties(plane[0])
        return TrainingStep(pair_loss(penalties[:, related], penalties[:, is_unrelated], 1.0))

    fit(
        {"plane": plane},
        {"optimizer": torch.optim.Adagrad(plane.parameters(), lr=PLANE_RATE)},
        lambda epoch: range(steps),
        step,
        1,
        after_step=lambda number: plane[0].data.clamp_(min=0),  # order-embeddings have no negative coordinates
    )
    points = plane[0].detach()
    planes = []
    for points_of_restart, penalties in zip(points, all_penalties(points), strict=True):
        threshold = best_threshold(penalties[is_pair], related[is_pair])
        planes.append(Plane(points_of_restart, (penalties.double() <= threshold) & is_pair))
    return max(planes, key=lambda plane: int((plane.related == related).sum()))


def draw_plane(taxonomy: Taxonomy, concepts: Sequence[str], path: Path) -> None:
    """Draw concepts as points of a plane, and as lines the pairs that their order gets right, misses or adds, as a PNG.
    The more general a concept, the nearer it lies to the origin.
    """
    chosen = [taxonomy.names.index(name) for name in concepts]
    pairs = np.stack(np.meshgrid(chosen, chosen, indexing="ij"), -1).reshape(-1, 2)
    related = torch.from_numpy(in_closure(pairs, taxonomy.closure)).view(len(chosen), -1)
    plane = fit_plane(related)
    points = plane.points
    figure = new_figure(9, 9)
    axes = figure.subplots()
    lines = {  # (n, n) bool: the pairs to draw
        "right": related & plane.related,
        "missing": related & ~plane.related,
        "spurious": plane.related & ~related,
    }
    for label, drawn in lines.items():
        colour, style = STYLES[label]
        for number, (below, above) in enumerate(drawn.nonzero().tolist()):
            ends = points[[below, above]]
            legend = f"{label}: {int(drawn.sum())}" if number == 0 else ""
            axes.plot(ends[:, 0], ends[:, 1], label=legend, color=colour, linestyle=style, linewidth=1.2, zorder=1)
    axes.scatter(points[:, 0], points[:, 1], s=14, c="black", zorder=2)
    axes.set_title("Hypernyms in two dimensions: general concepts near the origin", loc="left", fontweight="bold")
    axes.set(xlim=(-0.1, None), ylim=(-0.1, None))
    axes.margins(0.1)
    legend_below(axes, columns=len(lines), distance=0.06)
    names = [name.rsplit(".", 2)[0].replace("_", " ") for name in concepts]
    label_points(axes, points.numpy(), names, ["black"] * len(names), size=9)
    write_png(figure, path, 110)
