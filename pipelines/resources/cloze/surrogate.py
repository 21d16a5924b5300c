"""Fit the surrogate of a cloze model (see `negcap.augment.cloze.surrogate`) to texts that the model itself has read.

In captions, words of the reference lexicon are replaced by others of the same kind and form that the model finds likely
there; the model reads the texts that this gives, and the surrogate learns how much every other word has lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, mse_loss

from ....augment.cloze.file import FARTHEST, PREFIX, stored
from ....augment.cloze.fixed_point import STATE
from ....augment.cloze.model import CaptionEncoding, ClozeModel
from ....augment.cloze.network import single_threaded
from ....augment.cloze.surrogate import state_changes
from ....augment.data import data_path
from ....augment.lexicon.lexicon import Lexicon
from ....augment.plausibility import entry_units
from ....schemas.captions import LEXICON
from ...tables.corpus import given_table
from . import corpus, network
from .config import SurrogateConfig
from .train import one_cycle, report

FORMS = {"noun": ("nn", "nns"), "preposition": ("",), "attribute": ("",), "verb": ("VBZ", "VBG", "VBD", "VBP", "VB")}
FLOOR = -6.5  # of log p(new unit | rest)
PLACES = {"noun": 2, "other": 1}  # of a caption that are tried, at most
REPLACEMENTS = 4  # of a place, at most
READ_TOGETHER = 250  # captions
LEAST = -6.0
MOST = 8.0  # nats; what a unit loses is cut to these
HELD_OUT = 0.05  # of the places


class Slot(NamedTuple):
    """A place of a caption in which units were replaced, and what this did. vectors: of all places of the caption,
    (places, width). units: of these places. place: the number of this one. lost: of each replacement, the decrease of
    log p in each place, NaN in its own, (replacements, places). moved: see `state_changes`, (2, replacements, states).
    """

    vectors: np.ndarray
    units: np.ndarray
    place: int
    lost: np.ndarray
    moved: np.ndarray


class Surrogate(nn.Module):
    """The estimate in PyTorch; words, states: widths of word vectors, with standard deviation `scale`, and states."""

    def __init__(self, words: int, states: int, scale: float, config: SurrogateConfig) -> None:
        super().__init__()
        self.scale = scale
        self.context = nn.Linear(4 * words, config.width, bias=False)
        self.distance = nn.Embedding(2 * FARTHEST + 1, config.width)
        self.share = nn.Linear(config.width, config.shares)
        self.before = nn.Linear(states, config.shares, bias=False)
        self.after = nn.Linear(states, config.shares, bias=False)

    def forward(self, slots: Sequence[Slot], embedding: Tensor) -> tuple[Tensor, Tensor]:
        """What each replacement takes from each place of its text: (pairs,), and the number of the replacement."""
        contexts = []
        distances = []
        pairs = []
        of = []
        far = []
        first = replacement = 0
        for vectors, units, place, lost, _ in slots:
            size = len(units)
            there = np.arange(len(units)) - place
            words = embedding[torch.from_numpy(units)] / self.scale
            both = torch.from_numpy(vectors).float(), words
            one = [its[place].expand(size, -1) for its in both]
            contexts.append(torch.cat([*both, *one], 1))
            distances.append(there)
            pairs.append(np.tile(np.arange(first, first + size), len(lost)))
            of.append(np.repeat(np.arange(replacement, replacement + len(lost)), size))
            far.append(np.tile(there > 0, len(lost)))
            first = first + size
            replacement = replacement + len(lost)
        distance = torch.from_numpy(np.concatenate(distances).clip(-FARTHEST, FARTHEST) + FARTHEST)
        hidden = gelu(self.context(torch.cat(contexts)) + self.distance(distance), approximate="tanh")
        moved = torch.from_numpy(np.concatenate([slot.moved for slot in slots], 1)).float() * 2.0 ** (1 - STATE)
        changes = torch.stack([self.before(moved[0]), self.after(moved[1])])
        side, number, pair = (torch.from_numpy(np.concatenate(its)) for its in (far, of, pairs))
        return (self.share(hidden)[pair] * changes[side.long(), number]).sum(1), number

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the model's file, by name. Raises ValueError as `stored`."""
        weights = {name: value.detach().numpy() for name, value in self.named_parameters()}
        parts = weights["context.weight"].reshape(self.context.out_features, 2, 2, -1)
        scaled = parts / np.array([1.0, self.scale])[:, None]
        weights["context.weight"] = scaled.reshape(self.context.out_features, -1)
        arrays: dict[str, np.ndarray] = {}
        for name, values in weights.items():
            arrays |= stored(f"{PREFIX}{name}", values)
        return arrays


@single_threaded()
def slots_of(model: ClozeModel, captions: Sequence[Sequence[str]], seed: int) -> Iterator[Slot]:
    """Places of tokenised captions in which the model has read other units, drawn at random from the likely ones."""
    rng = np.random.default_rng(seed)
    table = given_table(data_path("reference_lexicon") / "lexicon.parquet", LEXICON)
    lexicon = Lexicon.from_table(table, model)
    alike: dict[int, tuple[str, np.ndarray]] = {}  # of each unit, its kind and the units of the same kind and form
    for kind, forms in reversed(FORMS.items()):  # a unit of several kinds counts as the first
        for form in forms:
            units = np.unique(entry_units(lexicon, kind, form))
            units = units[units >= 0]
            alike |= dict.fromkeys(units.tolist(), ("noun" if kind == "noun" else "other", units))
    for at in range(0, len(captions), READ_TOGETHER):
        words = captions[at : at + READ_TOGETHER]
        encodings = model.read(words)
        tried: list[tuple[int, int, int]] = []  # number of the caption, place, new unit
        for number, encoding in enumerate(encodings):
            left = dict(PLACES)
            for place in (rng.permutation(len(encoding.scores)) + 1).tolist():
                if (found := alike.get(encoding.units[place])) is None or not left[found[0]]:
                    continue
                kind, units = found
                left[kind] -= 1
                likely = model.embedding[units] @ encoding.vectors[place - 1] + model.bias[units]
                open_ = units[(likely >= FLOOR) & (units != encoding.units[place])]
                drawn = rng.permutation(open_)[:REPLACEMENTS]
                tried += [(number, place, unit) for unit in drawn.tolist()]
        yield from _read(model, words, encodings, tried)


def _read(
    model: ClozeModel,
    words: Sequence[Sequence[str]],
    encodings: Sequence[CaptionEncoding],
    tried: list[tuple[int, int, int]],
) -> Iterator[Slot]:
    """What the model reads in captions after replacements (number of the caption, place, new unit), by place."""
    if not tried:
        return
    texts = []
    for number, place, unit in tried:
        own = words[number]
        of = encodings[number].place_of
        first = of.index(place)
        last = of.index(place) + of.count(place)
        texts.append([*own[:first], *model.units.names[unit].split(" "), *own[last:]])
    changed = [encodings[number] for number, *_ in tried]
    _, places, units = np.array(tried).T
    beside = np.column_stack([places - 1, places + 1])
    slots = np.arange(len(units))
    moved = state_changes(model.network, changed, beside, slots, units).astype(np.int16)
    read = zip(tried, model.read_edited(changed, texts), moved.transpose(1, 0, 2), strict=True)
    for (number, place), group in groupby(read, key=lambda one: one[0][:2]):
        old = encodings[number]
        lost = []
        changes = []
        for (_, _, unit), new, change in group:
            if list(new.units) == [*old.units[:place], unit, *old.units[place + 1 :]]:  # no phrase has come or gone
                lost.append(np.array(old.scores) - np.array(new.scores))
                changes.append(change)
        if lost:
            vectors = old.vectors[: len(old.scores)].astype(np.float16)  # without loss: at most 2^10 units
            of_text = np.array(lost, np.float16)
            of_text[:, place - 1] = np.nan
            yield Slot(vectors, np.array(old.units[1:-1]), place - 1, of_text, np.stack(changes, 1))


@torch.random.fork_rng(devices=[])
def fit(model: ClozeModel, slots: Sequence[Slot], config: SurrogateConfig) -> Surrogate:
    """Fit a surrogate to what a model has read: the squared error of what each unit loses, and of log(1 + loss)."""
    torch.manual_seed(config.seed)
    embedding = torch.from_numpy(model.embedding)
    net = Surrogate(embedding.shape[1], slots[0].moved.shape[2], float(embedding.std()), config)

    def error(numbers: np.ndarray) -> Tensor:
        (estimated, lost), sums = _losses(net, [slots[i] for i in numbers], embedding)
        return mse_loss(estimated, lost.clamp(LEAST, MOST)) + mse_loss(*sums.log1p())

    one_cycle(net, torch.optim.Adam(net.parameters()), len(slots), error, config, report)
    return net


def _losses(net: Surrogate, slots: Sequence[Slot], embedding: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """What units lose as estimated and as read; and both losses (2, replacements), see `…plausibility.Change`."""
    estimated, number = net(slots, embedding)
    lost = torch.from_numpy(np.concatenate([slot.lost.reshape(-1) for slot in slots])).float()
    other = ~lost.isnan()
    pair = (estimated[other], lost[other])
    none = torch.zeros(sum(len(slot.lost) for slot in slots))
    return pair, torch.stack([none.index_add(0, number[other], its.clamp_min(0.0)) for its in pair])


@torch.no_grad()
def correlation(net: Surrogate, slots: Sequence[Slot], embedding: Tensor) -> float:
    """The correlation of the losses that are estimated with those that the model has read."""
    found = [_losses(net, slots[at : at + 1000], embedding)[1] for at in range(0, len(slots), 1000)]
    return float(torch.corrcoef(torch.cat(found, 1))[0, 1])


def fit_to(captions: Sequence[str], model: Path, output: Path, leave_out: Path | None, config: SurrogateConfig) -> None:
    """Give a cloze model a new surrogate, fitted to captions of some sources, and write the model to `output`.
    captions, leave_out: as of `negcap.pipelines.resources.cloze.train.train_on`. Raises OSError or ValueError for bad
    input.
    """
    torch.set_num_threads(1)
    left_out = corpus.read_photo_ids(leave_out) if leave_out else frozenset[str]()
    read = [corpus.read_source(name, left_out) for name in captions]
    texts = list(dict.fromkeys(text for source in read for text in source.texts))
    order = np.random.default_rng(config.seed).permutation(len(texts))[: config.captions]
    words = list(corpus.tokenised(texts[i] for i in order))
    loaded = ClozeModel.load(model)
    slots = list(slots_of(loaded, [its for its in words if len(its) <= corpus.MAX_UNITS], config.seed))
    apart = int(len(slots) * HELD_OUT)
    if not apart:
        raise ValueError(f"captions must have words of the lexicon to replace in 20 places or more, was: {len(slots)}")
    report(f"{len(order)} captions, {len(slots)} places, {sum(len(slot.lost) for slot in slots)} replacements")
    net = fit(loaded, slots[apart:], config)
    r = correlation(net, slots[:apart], torch.from_numpy(loaded.embedding))
    about = {"captions": len(order), "correlation": round(r, 3), "training": config.model_dump()}
    network.write_part(model, output, PREFIX, net.arrays(), {"surrogate": about})
    report(f"{output}: correlation of the losses {r:.3f}")
