"""exp and log: as exact as NumPy's, and the same bits wherever the test is run."""

from hashlib import sha256

import numpy as np
import pytest

from negcap.augment.reproducible import exp, log

MANY = np.random.default_rng(0).random(20_000)
POINTS = {exp: MANY * 1400 - 700, log: np.ldexp(MANY, np.arange(20_000) % 600 - 300)}
EDGES = {exp: ([-np.inf, -1000.0, 0.0, 1000.0], [0.0, 0.0, 1.0, np.inf]), log: ([0.0, 1.0], [-np.inf, 0.0])}
BITS = {exp: "348c48746806274d", log: "a4bb99a4c5d7f727"}


@pytest.mark.parametrize("function", [exp, log])
def test_is_as_exact_as_numpys_and_has_the_same_bits_on_every_processor(function):  # type: ignore[no-untyped-def]
    made = function(POINTS[function])
    np.testing.assert_allclose(made, getattr(np, function.__name__)(POINTS[function]), rtol=1e-15)
    given, expected = EDGES[function]
    assert function(np.array(given)).tolist() == expected
    assert sha256(made.tobytes()).hexdigest()[:16] == BITS[function]
