"""The parser's products are exact: the same for every batch."""

from fractions import Fraction

import numpy as np

from negcap.augment.language.exact import GRID, ExactOps, on_grid
from negcap.augment.language.parse import load


def test_products_are_exact_wherever_a_row_stands() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((600, 288)).astype("f"), rng.standard_normal((5, 288)).astype("f")
    made = ExactOps().gemm(x, y, trans2=True)
    assert np.array_equal(made[300:307], ExactOps().gemm(x[300:307], y, trans2=True))
    row, column = ([Fraction(v) for v in on_grid(array[0]).tolist()] for array in (x, y))
    assert all((v / Fraction(GRID)).denominator == 1 for v in (*row, *column))
    assert made[0, 0] == np.float32(float(sum(a * b for a, b in zip(row, column, strict=True))))


def test_the_networks_of_a_pipeline_multiply_exactly_and_see_equal_vectors_in_every_batch() -> None:
    nlp = load()
    models = [model for _, pipe in nlp.pipeline if (model := getattr(pipe, "model", None)) is not None]
    assert models and {type(layer.ops) for model in models for layer in model.walk()} == {ExactOps}
    texts = ["a man on a horse", "two dogs", "the small brown dog runs in the snow", "a man"] * 4
    one, many = ([doc.tensor for doc in nlp.pipe(texts, batch_size=size)] for size in (1, 16))
    assert all(map(np.array_equal, one, many))
