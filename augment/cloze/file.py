"""The file of a cloze model: a NumPy archive (`.npz`) with the network's parameters, vocabulary and provenance.

Each parameter stands under its name in the PyTorch module (negcap.pipelines.resources.cloze.network): a matrix as whole
numbers (int16), with `NAME.bits` (int8) for the units of its rows (see negcap.augment.cloze.fixed_point), all others in
float16. `units` is the vocabulary (see negcap.augment.cloze.states) as UTF-8 text, one unit a line in the order of
their numbers; `about` says what the model was trained on, as a JSON object. Both are arrays of bytes (uint8).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ..data import data_path
from .fixed_point import LARGEST, ROW, Quantised
from .states import SPECIAL, Units

UNITS = "units"  # array of the units, as text with one a line
ABOUT = "about"  # array of what is known about the model, as JSON
BITS = ".bits"  # ends the name of the array of a matrix's scales
PREFIX = "surrogate."  # begins the names of the surrogate's arrays
NAMES = ("context", "distance", "share", "before", "after")  # of the surrogate's matrices B, t, A and both F
JUDGEMENT = "judgement."  # begins the names of the arrays of the raters' network (`negcap.augment.raters`)
PARTS = ("place", "unit", "terms", "kind", "output")  # its matrices: P and R, Q and S, T, K, A and C
FARTHEST = 10  # places that are farther apart than this share one t
EMBEDDING = "embedding.weight"  # the one matrix whose rows are activations, too
WORD = re.compile(r"[^\W\d_]+")
LEAST_WORDS = 3  # a text with fewer is not checked for its language
KNOWN = 0.4  # of the words of English captions 99 % are known, of German ones 11 %
LATIN = "\u024f"  # the last letter of Latin Extended-B


def arrays_to_store(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays of the file, by name, for a parameter in float32. Raises ValueError, naming it, if it is not finite or
    too large for sums of it to be exact, see `Quantised.from_weights`.
    """
    if values.ndim != 2:
        if not (np.abs(values) <= np.finfo(np.float16).max).all():
            raise ValueError(f"{name} must be finite in half precision, is not: the training has diverged")
        return {name: values.astype(np.float16)}
    try:
        units, bits = Quantised.from_weights(values, LARGEST if name == EMBEDDING else ROW)
    except ValueError as error:
        raise ValueError(f"{name} {error}: the training has diverged") from None
    return {name: units, f"{name}{BITS}": bits}


def read_model(path: Path) -> tuple[Units, dict[str, np.ndarray]]:
    """The vocabulary of a model, and its parameters by name, in float32 without rounding.

    Raises FileNotFoundError, and ValueError, with one line that names the file, if it is no archive, lacks an array,
    has one of another shape or type than required, or whole numbers so large that sums of them would not be exact.
    """
    stored = _read_archive(path)
    units = Units(tuple(_decode_text(path, stored, UNITS).split("\n")))
    bits = {name.removesuffix(BITS) for name in stored if name.endswith(BITS)}
    arrays = _parameters(path, stored)
    if units.names[: len(SPECIAL)] != SPECIAL or len(units.number) != len(units.names):
        raise ValueError(f"{path}: units must be distinct and begin with {', '.join(SPECIAL)}")
    try:
        expected = parameter_shapes(arrays, len(units.names))
    except (KeyError, IndexError, ValueError):
        expected = {}  # then all that the file has is named below as unknown
    different = sorted(arrays.keys() ^ expected.keys())
    different += [name for name in expected if name in arrays and arrays[name].shape != expected[name]]
    if different:
        raise ValueError(
            f"{path}: must hold the parameters of a cloze model of {len(units.names)} units; missing, unknown or of "
            f"another shape: {', '.join(different)}"
        )
    if floats := sorted({name for name, shape in expected.items() if len(shape) == 2} - bits):
        raise ValueError(f"{path}: must hold whole numbers with {BITS} for {', '.join(floats)}")
    return units, arrays


def read_arrays(path: Path, prefix: str) -> dict[str, np.ndarray]:
    """The parameters of a model whose names begin with `prefix`, in float32; their shapes are not checked.

    Raises FileNotFoundError, or ValueError if the file is no archive or one of these arrays is no parameter.
    """
    return _parameters(path, _read_archive(path, prefix=prefix))


def _parameters(path: Path, stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parameters among the arrays of a file, by name, in float32.

    A matrix of whole numbers has an array beside it, its name with BITS, of the power of two that scales each row.
    """
    return {
        name: _read_parameter(path, name, array, stored.get(f"{name}{BITS}"))
        for name, array in stored.items()
        if name not in (UNITS, ABOUT) and not name.endswith(BITS)
    }


@cache
def known_words() -> frozenset[str]:
    """The words that the shipped cloze model knows, alone or in a phrase: "in", "front" and "of" for "in front of"."""
    path = data_path("cloze/model.npz")
    units = _decode_text(path, _read_archive(path, (UNITS,)), UNITS).split("\n")[len(SPECIAL) :]
    return frozenset({word for unit in units for word in unit.split()} | {"an"})  # the model reads "an" as "a"


def looks_english(text: str) -> bool:
    """Whether at least 40 % of the words of a sentence are in the vocabulary of the shipped cloze model.

    A text of fewer than 3 words cannot be told and counts as English, unless most of its letters are of another script.
    """
    words = WORD.findall(text.lower())
    letters = "".join(words)
    if 2 * sum(letter > LATIN for letter in letters) > len(letters):
        return False
    return len(words) < LEAST_WORDS or sum(word in known_words() for word in words) >= KNOWN * len(words)


def read_about(path: Path) -> dict[str, Any]:
    """The record of a model's training: captions, settings, perplexity if measured. ValueError if there is none."""
    try:
        about = json.loads(_decode_text(path, _read_archive(path), ABOUT))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: {ABOUT} must be JSON: {error}") from None
    return dict(about)


def parameter_shapes(arrays: dict[str, np.ndarray], units: int) -> dict[str, tuple[int, ...]]:
    """The shape that each parameter must have, by name, in a model with this number of units.

    The other sizes are taken from `embedding.weight`, `query.bias`, `hidden.bias` and `distance`, and of a surrogate
    and a model of raters, if there are any, from their own. Raises KeyError if one of these is missing, IndexError or
    ValueError if one has another number of dimensions.
    """
    words = arrays["embedding.weight"].shape[1]
    (states,) = arrays["query.bias"].shape
    (hidden,) = arrays["hidden.bias"].shape
    heads, _, distances = arrays["distance"].shape
    linear = {
        "query": (states, 2 * states),
        "memory.0": (2 * states, states),
        "memory.1": (2 * states, states),
        "hidden": (hidden, 3 * states),
        "output": (words, hidden),
    }
    if states % heads:
        raise ValueError(f"states must be a multiple of heads, was: {states} states, {heads} heads")
    expected: dict[str, tuple[int, ...]] = {
        "embedding.weight": (units, words),
        "bias": (units,),
        "distance": (heads, 2, distances),
    }
    for gru in ("forward_gru", "backward_gru"):
        expected |= {f"{gru}.weight_ih_l0": (3 * states, words), f"{gru}.weight_hh_l0": (3 * states, states)}
        expected |= {f"{gru}.bias_ih_l0": (3 * states,), f"{gru}.bias_hh_l0": (3 * states,)}
    for name, shape in linear.items():
        expected |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return expected | surrogate_shapes(arrays) | rater_shapes(arrays)


def surrogate_shapes(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """The shape that each parameter of the surrogate must have, by name, beside the other parameters of a model.

    {} for a model without a surrogate (`negcap.augment.cloze.surrogate`, whose equation has five weights). Two sizes
    are read from `surrogate.share.weight`: those of a(i, s) and of its hidden layer; KeyError if that is missing.
    """
    if not any(name.startswith(PREFIX) for name in arrays):
        return {}
    shares, hidden = arrays[f"{PREFIX}share.weight"].shape
    words = arrays["embedding.weight"].shape[1]
    (states,) = arrays["query.bias"].shape
    sizes = ((hidden, 4 * words), (2 * FARTHEST + 1, hidden), (shares, hidden), (shares, states), (shares, states))
    named = {f"{PREFIX}{name}.weight": shape for name, shape in zip(NAMES, sizes, strict=True)}
    return {**named, f"{PREFIX}share.bias": (shares,)}


def rater_shapes(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """The shape that each parameter of the raters must have, by name, beside the other parameters of a model.

    {} for a model without raters (`negcap.augment.raters`). The layers' sizes are read from `judgement.hidden.bias` and
    the weights of `judgement.unit`, `judgement.terms` and `judgement.kind`; KeyError if one of these is missing.
    """
    if not any(name.startswith(JUDGEMENT) for name in arrays):
        return {}
    words = arrays[EMBEDDING].shape[1]
    (hidden,) = arrays[f"{JUDGEMENT}hidden.bias"].shape
    rows = len(arrays[f"{JUDGEMENT}unit.weight"])
    terms, kinds = (arrays[f"{JUDGEMENT}{name}.weight"].shape[1] for name in ("terms", "kind"))
    sizes = (rows, 2 * words), (rows, words), (hidden, terms), (hidden, kinds), (2, rows)
    named = {f"{JUDGEMENT}{name}.weight": shape for name, shape in zip(PARTS, sizes, strict=True)}
    return named | {f"{JUDGEMENT}hidden.bias": (hidden,), f"{JUDGEMENT}output.bias": (2,)}


def _read_parameter(path: Path, name: str, array: np.ndarray, bits: np.ndarray | None) -> np.ndarray:
    """A parameter of the file in float32. bits: the power of two that scales each row of a matrix of whole numbers;
    None: the parameter is no such matrix. Raises ValueError.
    """
    if bits is None:
        return array.astype(np.float32)
    if (array.dtype, array.ndim, bits.dtype, bits.shape) != (np.int16, 2, np.int8, array.shape[:1]):
        raise ValueError(f"{path}: {name} must be a matrix of int16, and {name}{BITS} an int8 for each row")
    whole = Quantised(array, bits)
    try:
        # The embedding's rows are activations, too, whose single numbers have a lower limit.
        whole.check(LARGEST if name == EMBEDDING else ROW)
    except ValueError as error:
        raise ValueError(f"{path}: {name}: {error}; sums would not be exact") from None
    return whole.values


def _read_archive(path: Path, names: tuple[str, ...] = (), prefix: str = "") -> dict[str, np.ndarray]:
    """The arrays of an archive by name: with `names` only these, with `prefix` only those whose names begin with it.

    Raises FileNotFoundError, or ValueError if the file is no archive.
    """
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("is a single array")
            return {
                name: archive[name]
                for name in archive.files
                if name in (names or archive.files) and name.startswith(prefix)
            }
    except (ValueError, EOFError, BadZipFile) as error:
        raise ValueError(f"{path}: must be a cloze model in an .npz archive: {error}") from None


def _decode_text(path: Path, stored: dict[str, np.ndarray], name: str) -> str:
    """The text of the array of bytes with this name; path: of the file. Raises ValueError if there is no such array."""
    array = stored.get(name)
    if array is None or array.dtype != np.uint8:
        raise ValueError(f"{path}: must hold an array of bytes named {name}, as the archive of a cloze model does")
    return array.tobytes().decode("utf-8")
