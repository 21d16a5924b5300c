"""Fit the model of raters (see `negcap.augment.raters`) to what people said of negatives."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from ...augment.cloze.file import JUDGEMENT, PARTS, arrays_to_store, read_arrays
from ...augment.cloze.model import ClozeModel
from ...augment.language.parse import parse
from ...augment.plausibility import compare, encode_captions
from ...augment.raters import CHANGES, FEATURES, Inputs, RaterModel, rater_inputs
from ...augment.recovery import recover
from .cloze.config import JudgementConfig
from .cloze.network import write_part
from .cloze.one_cycle import one_cycle

COLUMNS = ("caption", "text", "shown", "weight", "odd", "both")
# What raters were asked, and the columns of `Labels.answers`: does the negative read oddly; can one photo be rightly
# described by both the caption and the negative?
QUESTIONS = ("odd", "both")
ANSWERS = {"1": 1.0, "0": 0.0, "": np.nan}
# What a rater saw: a list of many changes of one caption; or a caption and one negative, in random order.
SHOWN = ("list", "pair")
FOLDS = 5


class Labels(NamedTuple):
    """Captions, their negatives, and what raters said of them; every field has one entry for each negative.

    captions, texts: the caption, and the negative.
    answers: whether the negative is odd, and whether one photo could be rightly described by both texts, 1 or 0;
        NaN where nothing was said, (negatives, 2).
    lists: whether the rater saw a list of changes, not a pair.
    weights: the inverse of how often negatives like this one were chosen for rating.
    """

    captions: Sequence[str]
    texts: Sequence[str]
    answers: np.ndarray
    lists: np.ndarray
    weights: np.ndarray

    def take(self, rows: np.ndarray) -> Labels:
        """The labels of the negatives with these numbers."""
        return Labels(
            captions=[self.captions[row] for row in rows.tolist()],
            texts=[self.texts[row] for row in rows.tolist()],
            answers=self.answers[rows],
            lists=self.lists[rows],
            weights=self.weights[rows],
        )


class NetworkInputs(NamedTuple):
    """The inputs of `RaterNetwork`; `negcap.augment.raters` calls the first four v, e, t and k.

    places: (negatives, 2 * width), the vector of the changed place, and the mean vector of what stood there. units:
    (negatives, width), the vector of the new unit. features: (negatives, features). changes: (negatives, changes), the
    kind of change, one-hot. lists: (negatives, 1), 1 where raters saw lists, else 0.
    """

    places: Tensor
    units: Tensor
    features: Tensor
    changes: Tensor
    lists: Tensor

    @classmethod
    def of(cls, given: Inputs, lists: np.ndarray) -> NetworkInputs:
        """The inputs of the shipped network as tensors, joined with `lists` (negatives,): whether raters saw lists."""
        one_hot = np.eye(len(CHANGES))[given.changes]
        columns = (given.places, given.units, given.features, one_hot, lists[:, None])
        return cls(*(torch.from_numpy(column).float() for column in columns))

    def take(self, rows: np.ndarray) -> NetworkInputs:
        """The inputs of the negatives with these numbers."""
        return NetworkInputs(*(column[rows] for column in self))


class RaterNetwork(nn.Module):
    """log-odds = A relu(P v + Q e + T t + K_k + b) + C (R v * S e) + c, see `negcap.augment.raters`.

    Raters of lists are milder than those of pairs, and how much depends on the kind of change. So for negatives shown
    in lists one learned vector is added to b, and another, of the kind of change, to c; the file of the model has
    neither. In training some inputs are dropped: single numbers of v and e, and for some negatives all of v and e.
    """

    def __init__(self, width: int, config: JudgementConfig) -> None:
        """Draw random weights. The vectors of units are `width` numbers long."""
        super().__init__()
        joint = config.hidden + config.products
        # The matrices of the equation above, with their numbers of inputs and outputs, in the order of PARTS.
        sizes = {
            "place": (2 * width, joint),  # P, and below it R
            "unit": (width, joint),  # Q, and below it S
            "terms": (len(FEATURES), config.hidden),  # T
            "kind": (len(CHANGES), config.hidden),  # K
        }
        self.parts = nn.ModuleDict()
        for name, (inputs, outputs) in sizes.items():
            self.parts[name] = nn.Linear(inputs, outputs, bias=False)
        for name in ("place", "unit"):
            nn.init.normal_(self.parts[name].get_parameter("weight"), std=0.05)
        self.bias = nn.Parameter(torch.zeros(config.hidden))  # b
        self.output = nn.Linear(joint, len(QUESTIONS))  # A and C side by side, and c
        self.bias_of_lists = nn.Parameter(torch.zeros(config.hidden))
        self.output_of_lists = nn.Parameter(torch.zeros(len(CHANGES), len(QUESTIONS)))
        self.config = config

    def forward(self, given: NetworkInputs) -> Tensor:
        """The log-odds of the QUESTIONS: (negatives, 2)."""
        vectors = [given.places, given.units]
        if self.training:
            # 0 for the negatives that lose all of both vectors, 1 for the others: (negatives, 1)
            keeps_vectors = (torch.rand(len(given.features), 1) >= self.config.without_vectors).float()
            vectors = [keeps_vectors * nn.functional.dropout(values, self.config.dropout) for values in vectors]
        place = self.parts["place"](vectors[0])
        unit = self.parts["unit"](vectors[1])
        size = self.config.hidden
        hidden = place[:, :size] + unit[:, :size]
        hidden = hidden + self.parts["terms"](given.features) + self.parts["kind"](given.changes) + self.bias
        hidden = torch.relu(hidden + given.lists * self.bias_of_lists)
        products = place[:, size:] * unit[:, size:]
        hidden = torch.cat([hidden, products], dim=1)
        log_odds = self.output(nn.functional.dropout(hidden, self.config.dropout / 2, self.training))
        return log_odds + given.lists * (given.changes @ self.output_of_lists)

    def start_from(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the parameters of a network that was written before, whose sizes are the same."""
        with torch.no_grad():
            for name, parameter in self._written_parameters().items():
                parameter.copy_(torch.from_numpy(arrays[f"{JUDGEMENT}{name}"]))

    def arrays(self) -> dict[str, np.ndarray]:
        """The parameters as they stand in the file of a cloze model, see `negcap.augment.cloze.file`."""
        arrays: dict[str, np.ndarray] = {}
        for name, parameter in self._written_parameters().items():
            arrays |= arrays_to_store(f"{JUDGEMENT}{name}", parameter.detach().numpy())
        return arrays

    def _written_parameters(self) -> dict[str, Tensor]:
        """The parameters that are written, by name; those for lists are not."""
        parts = [part.get_parameter("weight") for part in self.parts.values()]
        weights = [*parts, self.output.weight]
        named = {f"{name}.weight": weight for name, weight in zip(PARTS, weights, strict=True)}
        return named | {"hidden.bias": self.bias, "output.bias": self.output.bias}


@torch.random.fork_rng(devices=[])
def fit(
    given: Inputs, labels: Labels, config: JudgementConfig, start: Mapping[str, np.ndarray] | None = None
) -> RaterNetwork:
    """Fit a network to what raters said of negatives.

    Args:
        given: its inputs, those of each negative.
        labels: the answers, one for each.
        config: how it is fitted.
        start: the parameters to start from, as in a model's file; None: random ones.
    """
    torch.manual_seed(config.seed)
    tensors = NetworkInputs.of(given, labels.lists)
    target = torch.from_numpy(labels.answers).float()
    weight_of_negative = labels.weights * np.where(labels.lists, 1.0, config.pair_weight)
    # What was not answered has no weight.
    weights = torch.from_numpy(weight_of_negative).float()[:, None] * ~target.isnan()  # (negatives, 2)
    target = target.nan_to_num()
    net = RaterNetwork(given.units.shape[1], config)
    if start is not None:
        net.start_from(start)

    def error(numbers: np.ndarray) -> Tensor:
        """The weighted cross-entropy on the negatives of these numbers, per answer."""
        log_odds = net(tensors.take(numbers))
        total = nn.functional.binary_cross_entropy_with_logits(
            log_odds, target[numbers], weights[numbers], reduction="sum"
        )
        return total / (len(QUESTIONS) * len(numbers))

    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=config.weight_decay)
    one_cycle(net, optimizer, len(target), error, config)
    return net.eval()


@torch.no_grad()
def predict(net: RaterNetwork, given: Inputs, lists: np.ndarray) -> np.ndarray:
    """The probabilities of a yes to the QUESTIONS, (negatives, 2), as raters of lists or pairs answer them.

    lists: (negatives,) bool, True for the answers of raters of lists.
    """
    return np.asarray(torch.sigmoid(net.eval()(NetworkInputs.of(given, lists))))


def read_labels(path: Path) -> Labels:
    """Read the labels of a file, see `fit_to`.

    Raises OSError; or ValueError if a column is missing, odd or both is something else than 1, 0 or nothing, shown is
    none of SHOWN, or weight is no number.
    """
    with path.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines, delimiter="\t")
        if missing := set(COLUMNS).difference(reader.fieldnames or ()):
            raise ValueError(f"{path} must have the columns {', '.join(COLUMNS)}, lacks {', '.join(sorted(missing))}")
        rows = list(reader)
    for row in rows:
        if row["shown"] not in SHOWN:
            raise ValueError(f"{path}: shown must be list or pair, was: {row['shown']}")
        for question in QUESTIONS:
            if row[question] not in ANSWERS:
                raise ValueError(f"{path}: {question} must be 1, 0 or empty, was: {row[question]}")
    try:
        weights = np.array([float(row["weight"]) for row in rows])
    except ValueError as error:
        raise ValueError(f"{path}: weight must be a number: {error}") from None
    answers = [[ANSWERS[row[question]] for question in QUESTIONS] for row in rows]
    return Labels(
        captions=[row["caption"] for row in rows],
        texts=[row["text"] for row in rows],
        answers=np.array(answers).reshape(-1, len(QUESTIONS)),
        lists=np.array([row["shown"] == "list" for row in rows], bool),
        weights=weights,
    )


class RaterAccuracy(TypedDict):
    """How well one question is predicted. auc: the area under the ROC curve, None if all raters said the same.
    by_tenth: for each tenth of the predicted probability that occurs, the number of negatives, and the share of them to
    which raters said yes.
    """

    auc: float | None
    by_tenth: list[list[int | float]]


class RaterRecord(TypedDict):
    """What a model records about its raters' network.

    labels, pairs, kept: how many negatives were rated, how many of them in pairs; how many keep the old network's
        rating, as nobody rated them.
    training: the settings.
    odd, both: how well the two QUESTIONS are predicted for captions that the network was not fitted to.
    """

    labels: int
    pairs: int
    kept: int
    training: dict[str, object]
    odd: RaterAccuracy
    both: RaterAccuracy


def fit_to(labels: Path, model: Path, output: Path, config: JudgementConfig) -> RaterRecord:
    """Give a cloze model a model of raters, fitted to what people said, and write the model to `output`.

    The network rates as raters of pairs do, and learns from those of lists as well. Where nobody rated a negative (odd
    and both are empty), the answers of the model's present network take the place of ratings. If there are such
    negatives, the fit starts from the present network, and so keeps what it learnt from ratings that are not in the
    file. The accuracies are those for raters of pairs, or for those of lists if there are no pairs.

    Args:
        labels: a tab-separated file, with a row for what a rater said of a negative. Its columns: caption; text, the
            negative; shown, `list` of changes or `pair` of texts; weight, the inverse of how often such negatives were
            chosen for rating; odd, whether the negative reads oddly; both, whether one photo can be rightly described
            by both texts. odd and both are 1, 0 or empty.
        model: the file of the model.
        output: the file to write; it may be the same.
        config: how the network is fitted.

    Returns:
        What the file records about it.

    Raises:
        OSError, ValueError: the input is missing or bad.
    """
    torch.set_num_threads(1)
    loaded = ClozeModel.load(model)
    rated = read_labels(labels)
    captions = parse(rated.captions)
    texts = parse(rated.texts)
    encodings = encode_captions(captions, loaded)
    rows = [recover(caption, text).row for caption, text in zip(captions, texts, strict=True)]
    given = rater_inputs(captions, encodings, rows, compare(captions, encodings, rows))
    is_rated = ~np.isnan(rated.answers).all(axis=1)
    start = None
    if not is_rated.all():
        start = read_arrays(model, JUDGEMENT)
        if not start:
            raise ValueError(f"{model} has no network that could say what no reader has said: fill in odd or both")
        # What nobody rated gets the answers of the present network, so that the new one keeps them.
        rated = rated._replace(answers=np.where(is_rated[:, None], rated.answers, _ratings_by_network(start, given)))

    predicted = _predict_left_out(given, rated, config, start)
    # The network is to rate as raters of pairs do: those of lists are measured only where there are no others.
    measured = is_rated & (~rated.lists | rated.lists.all())
    record = RaterRecord(
        labels=int(is_rated.sum()),
        pairs=int((is_rated & ~rated.lists).sum()),
        kept=int((~is_rated).sum()),
        training=config.model_dump(),
        odd=accuracy(predicted[measured, 0], rated.answers[measured, 0], rated.weights[measured]),
        both=accuracy(predicted[measured, 1], rated.answers[measured, 1], rated.weights[measured]),
    )
    write_part(model, output, JUDGEMENT, fit(given, rated, config, start).arrays(), {"judgement": record})
    return record


def _ratings_by_network(arrays: Mapping[str, np.ndarray], inputs: Inputs) -> np.ndarray:
    """The probabilities of a yes to the QUESTIONS, (negatives, 2), by the network in a model's file.

    arrays: its parameters. inputs: of each negative, the features, one changed place and one new unit (word or phrase).
    """
    raters = RaterModel(arrays, own=True)
    # `place` and `unit` are indices, as many negatives may share a place or unit; here each has its own.
    each = np.arange(len(inputs.changes))
    ratings = raters.predict(
        changes=inputs.changes,
        features=inputs.features,
        places=raters.project_places(inputs.places),
        units=raters.project_units(inputs.units),
        place=each,
        unit=each,
    )
    return np.stack(ratings, axis=1)


def _predict_left_out(
    given: Inputs, rated: Labels, config: JudgementConfig, start: Mapping[str, np.ndarray] | None
) -> np.ndarray:
    """Cross-validated probabilities for each negative, (negatives, 2): of a network fitted without its caption.

    given, rated: what the network sees of each negative, and what raters said of it. config: of the fits; its seed
    divides the captions into FOLDS parts. start: the weights to start each fit from; None: random ones.
    """
    # Negatives of one caption are in one fold: a network that has seen one of them would know the others.
    number_of_caption = {text: number for number, text in enumerate(dict.fromkeys(rated.captions))}
    fold_of_caption = np.random.default_rng(config.seed).integers(0, FOLDS, len(number_of_caption))
    fold = fold_of_caption[[number_of_caption[text] for text in rated.captions]]
    predicted = np.zeros(rated.answers.shape)
    for left_out in range(FOLDS):
        held_out = np.flatnonzero(fold == left_out)
        others = np.flatnonzero(fold != left_out)
        net = fit(given.take(others), rated.take(others), config, start)
        predicted[held_out] = predict(net, given.take(held_out), rated.lists[held_out])
    return predicted


def accuracy(predicted: np.ndarray, answers: np.ndarray, weights: np.ndarray) -> RaterAccuracy:
    """How well the answers to one question are predicted.

    Args:
        predicted: (negatives,) the probabilities of a yes.
        answers: (negatives,) 1 for yes, 0 for no, NaN where nothing was said.
        weights: (negatives,) how much each answer counts.

    Returns:
        The area under the ROC curve (None without both answers); for each tenth of the probabilities that occurs, the
        number of answers and the share of yes.
    """
    is_answered = ~np.isnan(answers)
    predicted = predicted[is_answered]
    answers = answers[is_answered]
    weights = weights[is_answered]
    tenth = np.minimum((predicted * 10).astype(int), 9)
    by_tenth: list[list[int | float]] = []
    for number in np.unique(tenth):
        inside = tenth == number
        share = float(np.average(answers[inside], weights=weights[inside]))
        by_tenth.append([int(inside.sum()), round(share, 3)])
    both_said = len(set(answers)) == 2
    auc = round(float(roc_auc_score(answers, predicted, sample_weight=weights)), 3) if both_said else None
    return {"auc": auc, "by_tenth": by_tenth}
