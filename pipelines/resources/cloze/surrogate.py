"""Fit the surrogate of a cloze model (see `negcap.augment.cloze.surrogate`) to texts that the model itself has read.

In captions, words of the reference lexicon are replaced by others of the same kind and form that the model finds likely
there; the model reads the texts that this gives, and the surrogate learns how much every other word has lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, mse_loss

from ....augment.cloze.file import FARTHEST, PREFIX, arrays_to_store
from ....augment.cloze.fixed_point import STATE
from ....augment.cloze.model import CaptionEncoding, ClozeModel
from ....augment.cloze.network import single_threaded
from ....augment.cloze.surrogate import state_changes
from ....augment.data import data_path
from ....augment.lexicon.lexicon import Lexicon
from ....augment.plausibility import entry_units
from ....schemas.captions import LEXICON
from ...tables.corpus import given_table
from ..progress import report
from . import corpus, network
from .config import SurrogateConfig
from .one_cycle import one_cycle

FORMS = {"noun": ("nn", "nns"), "preposition": ("",), "attribute": ("",), "verb": ("VBZ", "VBG", "VBD", "VBP", "VB")}
# A unit (word or phrase) is tried as a replacement if the log of p(unit | rest of the caption) is at least this.
LEAST_LIKELY = -6.5
# How many places of a caption are tried, by the kind of the word there.
MAX_PLACES = {"noun": 2, "other": 1}
MAX_REPLACEMENTS = 4  # of a place
CAPTIONS_AT_ONCE = 250
PLACES_AT_ONCE = 1000
# Losses are cut to these, in nats, so that a few extreme ones do not decide the squared error.
LEAST_LOSS = -6.0
LARGEST_LOSS = 8.0
HELD_OUT = 0.05  # of the places


class ReplacedPlace(NamedTuple):
    """A place of a caption in which the model has read other units, and what each of these replacements has changed.

    vectors: of all places of the caption, by which the model scores the units there, (places, width).
    units: the numbers of the units that stand there, (places,).
    place: the index of the replaced place.
    lost: by how much the log p of each place has decreased, NaN at the replaced one, (replacements, places).
    state_changes: as `negcap.augment.cloze.surrogate.state_changes` has them, (2, replacements, states).
    """

    vectors: np.ndarray
    units: np.ndarray
    place: int
    lost: np.ndarray
    state_changes: np.ndarray


class PlaceLosses(NamedTuple):
    """How much log p the places of some captions lose by replacements, in nats. A pair is a replacement and one place
    of its caption. losses: (pairs,). replacement: (pairs,), the number of the replacement of each pair.
    """

    losses: Tensor
    replacement: Tensor


class LossComparison(NamedTuple):
    """Losses as the surrogate estimates them and as the model has read them, without the replaced places themselves.

    estimated, read: of each pair of a replacement and another place, (pairs,).
    sums: what all other places lose by each replacement, `loss` of `negcap.augment.plausibility.Comparison`: estimated,
        then as read, (2, replacements).
    """

    estimated: Tensor
    read: Tensor
    sums: Tensor


class SurrogateNetwork(nn.Module):
    """The estimate in PyTorch. Its equation is in `negcap.augment.cloze.surrogate`; in its letters, `context` is B,
    `distance` t, `share` A and c, and `before` and `after` are the two matrices F.
    """

    def __init__(self, words: int, states: int, scale: float, config: SurrogateConfig) -> None:
        """Draw random weights.

        Args:
            words: the width of the word vectors.
            states: the width of the states of each GRU.
            scale: the standard deviation of the word vectors; they are divided by it.
            config: the widths of the layers.
        """
        super().__init__()
        self.scale = scale
        self.context = nn.Linear(4 * words, config.width, bias=False)
        self.distance = nn.Embedding(2 * FARTHEST + 1, config.width)
        self.share = nn.Linear(config.width, config.shares)
        self.before = nn.Linear(states, config.shares, bias=False)
        self.after = nn.Linear(states, config.shares, bias=False)

    def forward(self, replaced: Sequence[ReplacedPlace], embedding: Tensor) -> PlaceLosses:
        """Estimate how much each place of a caption loses by each of its replacements; embedding: the word vectors.

        A row is a place of one of the captions: all places of the first caption, then all of the second. A caption of
        r replacements and n places has r * n pairs, which share its n rows, since a(i, s) is the same for all of them.
        """
        # Each list gets one array for each caption.
        contexts: list[Tensor] = []  # (places, 4 * words)
        distances: list[np.ndarray] = []  # (places,)
        # The next three: (replacements * places,), an entry for each pair.
        row_of_pair: list[np.ndarray] = []
        replacement_of_pair: list[np.ndarray] = []
        is_behind: list[np.ndarray] = []
        rows = 0  # of the captions so far
        replacements = 0  # in the captions so far
        for caption in replaced:
            size = len(caption.units)
            count = len(caption.lost)
            distance = np.arange(size) - caption.place
            vectors = torch.from_numpy(caption.vectors).float()
            words = embedding[torch.from_numpy(caption.units)] / self.scale
            replaced_vector = vectors[caption.place].expand(size, -1)
            replaced_word = words[caption.place].expand(size, -1)
            contexts.append(torch.cat([vectors, words, replaced_vector, replaced_word], 1))
            distances.append(distance)
            row_of_pair.append(np.tile(np.arange(rows, rows + size), count))
            replacement_of_pair.append(np.repeat(np.arange(replacements, replacements + count), size))
            is_behind.append(np.tile(distance > 0, count))
            rows += size
            replacements += count

        bucket = torch.from_numpy(np.concatenate(distances).clip(-FARTHEST, FARTHEST) + FARTHEST)
        hidden = gelu(self.context(torch.cat(contexts)) + self.distance(bucket), approximate="tanh")
        shares = self.share(hidden)  # (rows, shares)

        stacked = np.concatenate([caption.state_changes for caption in replaced], 1)
        state_changes = torch.from_numpy(stacked).float() * 2.0 ** (1 - STATE)
        projected = torch.stack([self.before(state_changes[0]), self.after(state_changes[1])])

        # A place behind the replaced one sees the change in the forward GRU, a place before it in the backward GRU.
        side = torch.from_numpy(np.concatenate(is_behind)).long()
        row = torch.from_numpy(np.concatenate(row_of_pair))
        replacement = torch.from_numpy(np.concatenate(replacement_of_pair))
        return PlaceLosses((shares[row] * projected[side, replacement]).sum(1), replacement)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the model's file, by name. Raises ValueError if one cannot be stored, see `arrays_to_store`."""
        weights = {name: value.detach().numpy() for name, value in self.named_parameters()}
        # The columns of B are [v_i; e_i; v_s; e_s]. The file's reader does not divide the word vectors e by `scale`, so
        # B is divided. Of the four axes, the second tells the place i from the slot s, the third v from e.
        columns = weights["context.weight"].reshape(self.context.out_features, 2, 2, -1)
        scaled = columns / np.array([1.0, self.scale])[:, None]
        weights["context.weight"] = scaled.reshape(self.context.out_features, -1)
        arrays: dict[str, np.ndarray] = {}
        for name, values in weights.items():
            arrays |= arrays_to_store(f"{PREFIX}{name}", values)
        return arrays


class Alternatives(NamedTuple):
    """The units that may replace a unit. kind: a key of MAX_PLACES. units: all of one kind and form, ascending."""

    kind: str
    units: np.ndarray


def alternatives_by_unit(lexicon: Lexicon) -> dict[int, Alternatives]:
    """By the number of a unit that is an entry of the lexicon, the units that may replace it."""
    alternatives: dict[int, Alternatives] = {}
    # Reversed, as later entries of the dict replace earlier ones: a unit of two kinds gets the first kind of FORMS.
    for kind, forms in reversed(FORMS.items()):
        for form in forms:
            units = np.unique(entry_units(lexicon, kind, form))
            units = units[units >= 0]
            alternatives |= dict.fromkeys(units.tolist(), Alternatives("noun" if kind == "noun" else "other", units))
    return alternatives


class Replacement(NamedTuple):
    """A unit (by number) that is put into a place of a caption. caption: its number. place: from 1, as START has 0."""

    caption: int
    place: int
    unit: int


@single_threaded()
def replaced_places(model: ClozeModel, captions: Sequence[Sequence[str]], seed: int) -> Iterator[ReplacedPlace]:
    """Put other words into captions, and read with the model what that changes at the other places.

    Args:
        model: the cloze model.
        captions: the words of each.
        seed: of the random choice of places, and of words among those that are likely there.

    Yields:
        The places that words were put into, each with all the words that were tried there.
    """
    rng = np.random.default_rng(seed)
    table = given_table(data_path("reference_lexicon") / "lexicon.parquet", LEXICON)
    alternatives = alternatives_by_unit(Lexicon.from_table(table, model))
    for start in range(0, len(captions), CAPTIONS_AT_ONCE):
        words = captions[start : start + CAPTIONS_AT_ONCE]
        encodings = model.read(words)
        replacements: list[Replacement] = []
        for number, encoding in enumerate(encodings):
            replacements += _likely_replacements(model, encoding, number, alternatives, rng)
        yield from _read_replacements(model, words, encodings, replacements)


def _likely_replacements(
    model: ClozeModel,
    encoding: CaptionEncoding,
    number: int,
    alternatives: Mapping[int, Alternatives],
    rng: np.random.Generator,
) -> Iterator[Replacement]:
    """Some replacements, at random places of the caption with this number, that the model finds likely there.

    encoding: what it has read of the caption. alternatives: by the number of a unit, what may replace it.
    """
    places_left = dict(MAX_PLACES)
    for place in (rng.permutation(len(encoding.scores)) + 1).tolist():
        old = encoding.units[place]
        if old not in alternatives or not places_left[alternatives[old].kind]:
            continue
        kind, units = alternatives[old]
        places_left[kind] -= 1
        log_p = model.embedding[units] @ encoding.vectors[place - 1] + model.bias[units]
        likely = units[(log_p >= LEAST_LIKELY) & (units != old)]
        for unit in rng.permutation(likely)[:MAX_REPLACEMENTS].tolist():
            yield Replacement(number, place, unit)


class _ReadReplacement(NamedTuple):
    """A replacement and how the model has read it; state_changes: (2, states)."""

    replacement: Replacement
    encoding: CaptionEncoding
    state_changes: np.ndarray

    @property
    def caption_and_place(self) -> tuple[int, int]:
        """The caption and the place, the same for all replacements of one place."""
        return self.replacement.caption, self.replacement.place


def _read_replacements(
    model: ClozeModel,
    words: Sequence[Sequence[str]],
    encodings: Sequence[CaptionEncoding],
    replacements: Sequence[Replacement],
) -> Iterator[ReplacedPlace]:
    """Read the edited captions, and yield how the replacements of each place change what the model reads.

    Args:
        model: the cloze model, which reads every edited caption.
        words: of each caption.
        encodings: what the model has read of each caption.
        replacements: to make, those of one place of a caption one after another; each names its caption by number.
    """
    if not replacements:
        return
    texts = []
    for caption, place, unit in replacements:
        # The tokens of the unit that stands in the place.
        unit_of_token = encodings[caption].unit_of_token
        first = unit_of_token.index(place)
        end = first + unit_of_token.count(place)
        texts.append([*words[caption][:first], *model.units.names[unit].split(" "), *words[caption][end:]])

    changed = [encodings[replacement.caption] for replacement in replacements]
    places = np.array([replacement.place for replacement in replacements])
    units = np.array([replacement.unit for replacement in replacements])
    # Beside a place the GRUs have the same states as before; from these are computed those after the new unit. The
    # changes are whole numbers below 2^15, see `fixed_point`: (2 directions, replacements, states).
    neighbours = np.column_stack([places - 1, places + 1])  # (replacements, 2)
    by_direction = state_changes(model.network, changed, neighbours, np.arange(len(units)), units).astype(np.int16)
    edited = model.read_edited(changed, texts)
    rows = map(_ReadReplacement, replacements, edited, by_direction.transpose(1, 0, 2))
    for (caption, place), group in groupby(rows, key=attrgetter("caption_and_place")):
        replaced = _replaced_place(encodings[caption], place, list(group))
        if replaced is not None:
            yield replaced


def _replaced_place(old: CaptionEncoding, place: int, rows: Sequence[_ReadReplacement]) -> ReplacedPlace | None:
    """How the replacements of one place have changed the caption's other places, as the model reads it.

    None if every replacement also changes how the other words are cut into units.
    """
    before = old.units[:place]
    behind = old.units[place + 1 :]
    # A new word may join its neighbours to a phrase, or break one up. Then the places of both texts do not correspond.
    comparable = [row for row in rows if list(row.encoding.units) == [*before, row.replacement.unit, *behind]]
    if not comparable:
        return None
    lost = np.array([np.array(old.scores) - np.array(row.encoding.scores) for row in comparable], np.float16)
    lost[:, place - 1] = np.nan
    return ReplacedPlace(
        vectors=old.vectors[: len(old.scores)].astype(np.float16),  # exact: fixed-point numbers of at most 2^10 steps
        units=np.array(old.units[1:-1]),
        place=place - 1,
        lost=lost,
        state_changes=np.stack([row.state_changes for row in comparable], 1),
    )


@torch.random.fork_rng(devices=[])
def fit(model: ClozeModel, replaced: Sequence[ReplacedPlace], config: SurrogateConfig) -> SurrogateNetwork:
    """Fit a surrogate: a small network that estimates how a cloze model would score a caption with another word.

    Args:
        model: the cloze model, whose embedding the surrogate takes.
        replaced: places at which the model has read other words, and by how much the others became less probable.
        config: the sizes of the network, and its training.
    """
    torch.manual_seed(config.seed)
    embedding = torch.from_numpy(model.embedding)
    states = replaced[0].state_changes.shape[2]
    net = SurrogateNetwork(embedding.shape[1], states, float(embedding.std()), config)

    def error(numbers: np.ndarray) -> Tensor:
        """The error on the replaced places with these numbers: the squared error of single losses, plus that of the
        logs of their sums (logs, since large sums vary more).
        """
        compared = compare_losses(net, [replaced[i] for i in numbers], embedding)
        of_places = mse_loss(compared.estimated, compared.read.clamp(LEAST_LOSS, LARGEST_LOSS))
        return of_places + mse_loss(*compared.sums.log1p())

    one_cycle(net, torch.optim.Adam(net.parameters()), len(replaced), error, config, report)
    return net


def compare_losses(net: SurrogateNetwork, replaced: Sequence[ReplacedPlace], embedding: Tensor) -> LossComparison:
    """How much less probable other words make the rest of a caption: as the surrogate estimates it, and as it is.

    Args:
        net: the surrogate.
        replaced: places with their replacements, and what the model has read of them.
        embedding: the word vectors of the model.
    """
    losses, replacement = net(replaced, embedding)
    read = torch.from_numpy(np.concatenate([caption.lost.reshape(-1) for caption in replaced])).float()
    is_other = ~read.isnan()  # NaN stands at the replaced place itself
    estimated = losses[is_other]
    read = read[is_other]
    no_loss = torch.zeros(sum(len(caption.lost) for caption in replaced))  # of each replacement
    # Gains are cut at 0: a word that becomes likelier does not make up for one that becomes less likely.
    sums = [no_loss.index_add(0, replacement[is_other], of_pair.clamp_min(0.0)) for of_pair in (estimated, read)]
    return LossComparison(estimated, read, torch.stack(sums))


@torch.no_grad()
def correlation(net: SurrogateNetwork, replaced: Sequence[ReplacedPlace], embedding: Tensor) -> float:
    """How well the surrogate tells bad replacements from good ones: the correlation, over replacements, of the
    estimated sum of losses with the sum that the model itself gives.

    Args:
        net: the surrogate.
        replaced: places with their replacements, and what the model has read of them.
        embedding: (units, width) the vectors of the model's units.
    """
    blocks = [replaced[start : start + PLACES_AT_ONCE] for start in range(0, len(replaced), PLACES_AT_ONCE)]
    sums = [compare_losses(net, block, embedding).sums for block in blocks]
    return float(torch.corrcoef(torch.cat(sums, 1))[0, 1])


def fit_to(captions: Sequence[str], model: Path, output: Path, leave_out: Path | None, config: SurrogateConfig) -> None:
    """Give a cloze model a new surrogate, fitted to captions of some sources, and write the model to `output`.

    Args:
        captions: sources that `negcap build` reads.
        model: the file of the model.
        output: the file to write; it may be the same.
        leave_out: a file with ids of photos whose captions are not read.
        config: how it is fitted.

    Raises:
        OSError, ValueError: the input is missing or bad, or too few words of the captions can be replaced.
    """
    torch.set_num_threads(1)
    texts = corpus.distinct_texts(corpus.read_sources(captions, leave_out))
    order = np.random.default_rng(config.seed).permutation(len(texts))[: config.captions]
    words = list(corpus.tokenise(texts[i] for i in order))
    loaded = ClozeModel.load(model)
    # Only captions that a model reads whole in training: longer ones are cut into pieces there.
    short = [tokens for tokens in words if len(tokens) <= corpus.MAX_UNITS]
    replaced = list(replaced_places(loaded, short, config.seed))
    held_out = int(len(replaced) * HELD_OUT)
    if not held_out:  # fewer places than 1 / HELD_OUT
        raise ValueError(
            f"captions must have words of the lexicon to replace in 20 places or more, was: {len(replaced)}"
        )
    replacements = sum(len(place.lost) for place in replaced)
    report(f"{len(order)} captions, {len(replaced)} places, {replacements} replacements")
    net = fit(loaded, replaced[held_out:], config)
    r = correlation(net, replaced[:held_out], torch.from_numpy(loaded.embedding))
    about = {"captions": len(order), "correlation": round(r, 3), "training": config.model_dump()}
    network.write_part(model, output, PREFIX, net.arrays(), {"surrogate": about})
    report(f"{output}: correlation of the losses {r:.3f}")
