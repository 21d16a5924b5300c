"""Matrix products of the models run on one BLAS thread, whoever asks for them, and others have their threads back."""

from threading import Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from negcap.augment.candidates import Limits
from negcap.augment.cloze.model import cloze_model
from negcap.augment.cloze.network import single_threaded
from negcap.augment.cloze.surrogate import surrogate_of
from negcap.augment.raters import rater_model_of
from tests.augment.fixtures import batch_of, sample_images


def threads() -> set[int]:
    """Of NumPy's BLAS; other libraries may have been loaded, with one of their own, after the first limit."""
    return {library["num_threads"] for library in threadpool_info() if "numpy.libs" in library["filepath"]}


class Watched(np.ndarray):
    """Weights of a model, which note the number of BLAS threads at each matrix product with them."""

    noted: set[int]

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        if ufunc is np.matmul:
            self.noted.update(threads())
        if out:
            options["out"] = tuple(np.asarray(array) for array in out)
        return getattr(ufunc, method)(*map(np.asarray, inputs), **options)

    def __array_finalize__(self, other):
        self.noted = getattr(other, "noted", set())  # also of a part of the weights


def watched(weights: np.ndarray, noted: set[int]) -> Watched:
    view = weights.view(Watched)
    view.noted = noted
    return view


@pytest.mark.parametrize("model_of", [surrogate_of, rater_model_of])
def test_a_model_multiplies_on_one_thread(model_of, monkeypatch):
    model, noted = model_of(cloze_model()), set[int]()
    for name, value in list(vars(model).items()):
        if isinstance(value, np.ndarray) and value.ndim == 2:
            monkeypatch.setattr(model, name, watched(value, noted))
        elif isinstance(value, list):
            monkeypatch.setattr(model, name, [watched(part, noted) for part in value])
    with threadpool_limits(2, user_api="blas"):
        batch = batch_of(sample_images(3), "noun", limits=Limits())
        batch.estimates.rate(np.arange(len(batch.candidates)))
    assert noted == {1}


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
