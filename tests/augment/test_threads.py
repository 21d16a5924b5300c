"""Matrix products of the models run on one BLAS thread, whoever asks for them, and others have their threads back."""

from threading import Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from negcap.augment import raters
from negcap.augment.candidates import Limits
from negcap.augment.cloze import surrogate
from negcap.augment.cloze.model import cloze_model
from negcap.augment.cloze.network import single_threaded
from tests.augment.fixtures import batch_of, sample_images


def threads() -> set[int]:
    """Of NumPy's BLAS; other libraries may have been loaded, with one of their own, after the first limit."""
    return {library["num_threads"] for library in threadpool_info() if "numpy.libs" in library["filepath"]}


@pytest.mark.parametrize(("module", "function"), [(raters, "sigmoid"), (surrogate, "state_changes")])
def test_the_models_multiply_on_one_thread(module, function, monkeypatch):
    original, noted = getattr(module, function), []

    def noting_threads(*arguments, **options):
        noted.append(threads())
        return original(*arguments, **options)

    monkeypatch.setattr(module, function, noting_threads)  # called beside the products
    with threadpool_limits(2, user_api="blas"):
        batch = batch_of(sample_images(3), "noun", limits=Limits())
        batch.estimates.rate(np.arange(len(batch.candidates)))
    assert noted and all(numbers == {1} for numbers in noted)


def test_one_thread_until_the_last_call_is_done():
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        inside = single_threaded()
        with single_threaded():
            assert threads() == {1}
            inside.__enter__()
        assert threads() == {1}
        inside.__exit__(None, None, None)
        assert threads() == before
        with pytest.raises(ValueError, match="wrong"), single_threaded():
            raise ValueError("wrong")
        assert threads() == before
        other = Thread(target=lambda: cloze_model().read([["a", "dog"]]))
        other.start()
        other.join()
        assert threads() == before
