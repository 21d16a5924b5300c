"""The surrogate against its formula in plain floats, and against reading the texts as a whole."""

from __future__ import annotations

import math

import numpy as np
import pytest

from negcap.augment.cloze.file import FARTHEST
from negcap.augment.cloze.fixed_point import STATE
from negcap.augment.cloze.model import ClozeModel, cloze_model
from negcap.augment.cloze.surrogate import state_changes, surrogate_of
from negcap.augment.data import data_path
from negcap.augment.edits import Edit
from negcap.augment.language.parse import parse
from negcap.augment.operators import replacing
from negcap.augment.plausibility import WINDOW, compare, encode_captions, read_and_compare
from negcap.augment.rows import Row
from negcap.pipelines.resources.cloze.network import write_arrays
from tests.augment.fixtures import batch_of, sample_images

WORDS = "two young boys throw a red ball to a small dog .".split()


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(("place", "unit"), [(3, "girls"), (7, "bone"), (10, "cat"), (1, "six")])
def test_the_estimate_is_that_of_the_formula(place, unit):
    model = cloze_model()
    (encoding,) = model.read([WORDS])
    arrays, number, surrogate = model.network.arrays, model.units.number_of(unit), surrogate_of(model)
    assert surrogate is not None and number is not None
    places, first, units = np.array([[place - 1, place + 1]]), np.zeros(1, int), np.array([number])
    found = surrogate.estimate(surrogate.at_slots([encoding], places), first, units, WINDOW)
    moved = state_changes(model.network, [encoding], places, first, units)[:, 0] * 2.0 ** (1 - STATE)

    def weight(name: str) -> np.ndarray:
        return arrays[f"surrogate.{name}"].astype(np.float64)

    def inputs(at: int) -> list[np.ndarray]:
        return [encoding.vectors[at - 1], model.embedding[encoding.units[at]]]

    new = min(0.0, float(model.embedding[number] @ encoding.vectors[place - 1] + model.bias[number]))
    changes = []  # of the scores of the other units
    for other, score in enumerate(encoding.scores, 1):
        if other != place:
            distance = int(np.clip(other - place, -FARTHEST, FARTHEST)) + FARTHEST
            hidden = weight("context.weight") @ np.concatenate([*inputs(other), *inputs(place)])
            share = weight("share.weight") @ gelu(hidden + weight("distance.weight")[distance]) + weight("share.bias")
            change = weight("after.weight") @ moved[1] if other > place else weight("before.weight") @ moved[0]
            changes.append(min(0.0, score - float(share @ change)) - score)
    log_odds = new - encoding.scores[place - 1]
    assert found.log_odds[0] == pytest.approx(log_odds, abs=1e-4)
    assert found.whole[0] == pytest.approx(log_odds + sum(changes), abs=0.3)
    assert found.loss[0] == pytest.approx(sum(max(0.0, -change) for change in changes), abs=0.3)
    assert found.lowest[0] <= new


def test_estimates_agree_with_what_is_read_and_depend_on_no_other_text():
    batch, noun, pairs = batch_of(sample_images(12), "noun"), replacing("noun")["noun"], []
    for number in np.flatnonzero(batch.candidates.weight)[::4].tolist():
        row = noun.row(number, batch)
        if row.reason is None:
            pairs.append((batch.evidence[batch.candidates.caption_of_candidate[number]], row))
    captions, made = [own.caption for own, _ in pairs], [row for _, row in pairs]
    encodings = [own.encoding for own, _ in pairs]
    estimated, exact = (np.array(how(captions, encodings, made)) for how in (compare, read_and_compare))
    assert len(made) > 150
    for column, least in ((1, 0.5), (2, 0.8), (3, 0.6)):  # loss, lowest, whole
        assert np.corrcoef(estimated[:, column], exact[:, column])[0, 1] > least
    alone = [compare([own], encode_captions([own]), [row])[0] for own, row in zip(captions[:30], made, strict=False)]
    assert np.array_equal(alone, estimated[:30])


def test_a_model_without_a_surrogate_reads_all_texts(tmp_path):
    with np.load(data_path("cloze") / "model.npz") as archive:
        arrays = {name: archive[name] for name in archive.files if not name.startswith("surrogate.")}
    write_arrays(tmp_path / "own.npz", arrays)
    model = ClozeModel.load(tmp_path / "own.npz")
    assert surrogate_of(model) is None
    captions = parse(["A dog on a couch."])
    cat = Row("noun", (Edit(2, 5, "cat"),), (1,), "dog", "cat")
    shipped = encode_captions(captions)
    exact = compare(captions, encode_captions(captions, model), [cat])
    assert exact == read_and_compare(captions, shipped, [cat]) != compare(captions, shipped, [cat])
    arrays["surrogate.share.weight"] = np.ones((2, 3), np.int16)
    arrays["surrogate.share.weight.bits"] = np.ones(2, np.int8)
    write_arrays(tmp_path / "own.npz", arrays)
    with pytest.raises(ValueError, match="missing, unknown or of another shape: surrogate"):
        ClozeModel.load(tmp_path / "own.npz")
