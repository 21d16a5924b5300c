from threading import Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from negcap.augment.cloze import network
from negcap.augment.cloze.model import cloze_model
from negcap.augment.cloze.network import single_threaded


def threads() -> set[int]:
    """Of NumPy's BLAS; other libraries may have been loaded, with one of their own, after the first limit."""
    return {library["num_threads"] for library in threadpool_info() if "numpy.libs" in library["filepath"]}


def test_one_thread_until_the_last_call_is_done() -> None:
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


def test_the_network_computes_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    run = network.run
    monkeypatch.setattr(network, "run", lambda *given: seen.append(threads()) or run(*given))
    with threadpool_limits(2, user_api="blas"):
        reading = cloze_model().read([["a", "dog", "runs"]])[0]
        cloze_model().read_edited([reading], [["a", "cat", "runs"]])
        assert np.isfinite(reading.log_probabilities(1, 2, np.array([5, 6]))).all()
    assert seen == [{1}] * 4
