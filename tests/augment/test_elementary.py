"""exp and log: as exact as NumPy's, and the same bits wherever the test is run."""

from hashlib import sha256

import numpy as np

from negcap.augment.reproducible import exp, log

MANY = np.random.default_rng(0).random(20_000)


def test_exp_and_log_are_as_exact_as_numpys_and_have_the_same_bits_on_every_processor():
    for function, exact, numbers, bits in (
        (exp, np.exp, MANY * 1400 - 700, "348c48746806274d"),
        (log, np.log, np.ldexp(MANY, np.arange(20_000) % 600 - 300), "a4bb99a4c5d7f727"),
    ):
        values = function(numbers)
        np.testing.assert_allclose(values, exact(numbers), rtol=1e-15)
        assert sha256(values.tobytes()).hexdigest()[:16] == bits
    assert exp(np.array([-np.inf, -1000.0, 0.0, 1000.0])).tolist() == [0.0, 0.0, 1.0, np.inf]
    assert log(np.array([0.0, 1.0])).tolist() == [-np.inf, 0.0]
