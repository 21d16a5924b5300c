"""Make a spaCy pipeline compute the same numbers on every processor, and for every batch that a text may be in.

How a BLAS library rounds depends on the processor, and with some of its kernels on where in a matrix a row stands.
Here the products are exact instead: both factors are rounded to whole multiples of GRID, whose products and sums
float64 holds without rounding up to GRID^2 * 2^53 = 8192 (the shipped parser stays below 1000). NumPy may also round a
power differently, so layer normalisation divides by a square root, both of which IEEE 754 defines.

What remains is the parser's last layer, a sum of 64 terms that spaCy leaves to BLIS. Its kernel for AVX2 adds them one
after the other by fused multiplications and additions, whatever the batch; others may round differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from thinc.api import NumpyOps, Ragged

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from thinc.api import Model

GRID = 2.0**-20
# Near this number float64 values lie GRID apart: adding it drops the finer bits of x, for |x| < 2^31.
TO_GRID = 1.5 * 2**52 * GRID
ROWS = 256  # number of rows that are multiplied at once; the result does not depend on it


class ExactOps(NumpyOps):
    """thinc's operations on NumPy arrays, with products of matrices that do not depend on the processor."""

    def __init__(self) -> None:
        """Multiply with NumPy's BLAS: thinc's own needs three times as long."""
        super().__init__(use_blis=False)

    def gemm(
        self, x: np.ndarray, y: np.ndarray, *, out: np.ndarray | None = None, trans1: bool = False, trans2: bool = False
    ) -> np.ndarray:
        """The product of x (n, k) and y (k, m) in float32: (n, m). trans1, trans2: x is (k, n), y is (m, k)."""
        x = x.T if trans1 else x
        right = on_grid(y.T if trans2 else y)
        product = np.empty((len(x), right.shape[1]), np.float32) if out is None else out
        for start in range(0, len(x), ROWS):
            product[start : start + ROWS] = on_grid(x[start : start + ROWS]) @ right
        return product


def on_grid(array: np.ndarray) -> np.ndarray:
    """An array in float64, rounded to multiples of GRID; the same on every processor."""
    rounded = array.astype(np.float64)
    # The first addition rounds, see TO_GRID; the second restores the size, exactly.
    rounded += TO_GRID
    rounded -= TO_GRID
    return rounded


# What a forward function of thinc returns: the result, and what computes the gradient, which is never asked for.
Forward = tuple[Any, None]


def normalise(model: Model, rows: np.ndarray, is_train: bool) -> Forward:
    """Layer normalisation of rows (n, width), instead of the forward function of thinc's layer; not for training."""
    normalised = rows - rows.mean(axis=1, keepdims=True)
    normalised /= np.sqrt(np.square(normalised).mean(axis=1, keepdims=True) + np.float32(1e-8))
    normalised *= model.get_param("G")
    normalised += model.get_param("b")
    return normalised, None


def embed_once(model: Model, docs: Sequence[Doc], is_train: bool) -> Forward:
    """Word vectors before they know their context; those of equal words are computed once, which makes up for the time
    of exact products.

    It takes the place of the forward function of spaCy's MultiHashEmbed without static vectors; not for training.
    """
    extract, flatten, *layers, unflatten = model.layers
    features = flatten.predict(extract.predict(docs))
    rows = np.ascontiguousarray(features.dataXd)  # (words, features)
    # Each row seen as one value of so many bytes, so that equal words are equal values.
    _, first, which = np.unique(rows.view(f"V{rows.strides[0]}"), return_index=True, return_inverse=True)
    ragged: Any = Ragged  # its types are not those of NumPy
    vectors = ragged(rows[first], np.array([len(first)], np.int32))
    for layer in layers:
        vectors = layer.predict(vectors)
    return unflatten.predict(ragged(vectors.dataXd[which.reshape(-1)], features.lengths)), None


def make_exact(nlp: Language) -> None:
    """Let the thinc networks of a spaCy pipeline compute the same numbers on every processor; not those on a GPU."""
    ops = ExactOps()
    for _, pipe in nlp.pipeline:
        model: Model | None = getattr(pipe, "model", None)
        for layer in model.walk() if model is not None else ():
            if type(layer.ops) is NumpyOps:  # no subclass: neither a GPU's, nor what is exact already
                layer.ops = ops
                if layer.name == "layernorm":
                    layer._func = normalise
                # The layer that looks up the vectors of words, by the parts that thinc names it after.
                elif layer.name.startswith("extract_features>>list2ragged>>") and layer.name.endswith("ragged2list"):
                    layer._func = embed_once
