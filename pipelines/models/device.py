"""The choice of a device, the way of features and indices to it, and reproducible computation on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

# the model, its gradients and the scores of an evaluation need room, too
RESIDENT = 0.5  # the share of a GPU's free memory that features may take up


def choose_device(name: str) -> torch.device:
    """The torch device: auto (a GPU if there is one), cpu or cuda. Raises ValueError for cuda without a GPU."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be auto or cpu: this torch sees no GPU")
    # auto takes a GPU where torch sees one
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A CPU tensor copied to a device; a copy to a GPU is asynchronous, from pinned memory."""
    # a GPU reads pinned memory by itself, while the CPU goes on
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def to_device_if_it_fits(values: Tensor, device: torch.device) -> Tensor:
    """Features (I, …) on the device, or as they are if they would take up more than half of a GPU's free memory."""
    if device.type == "cpu" or values.nbytes > RESIDENT * torch.cuda.mem_get_info(device)[0]:
        return values
    return values.to(device)


def rows_to_device(values: Tensor, rows: Tensor, device: torch.device) -> Tensor:
    """The features `rows` (B,), on the CPU, of values (I, …), copied to the device from pinned memory."""
    if values.device.type != "cpu":
        return values[to_device(rows, values.device)]
    pinned = torch.empty((len(rows), *values.shape[1:]), dtype=values.dtype, pin_memory=device.type != "cpu")
    # by NumPy, in the thread of `load_ahead`: torch's threads compute the batch before
    np.take(values.numpy(), rows.numpy(), axis=0, out=pinned.numpy(), mode="clip")
    return pinned.to(device, non_blocking=True)


class LoadedBatch(NamedTuple):
    """The rows of a batch (B,), and what was loaded for them (B, …)."""

    rows: Tensor
    values: Tensor


def load_ahead(batches: Iterable[Tensor], load: Callable[[Tensor], Tensor]) -> Iterator[LoadedBatch]:
    """Each batch with what `load` loads for it, in a thread, while the batch before it is in use."""
    with ThreadPoolExecutor(1) as pool:
        previous = None
        for batch in batches:
            loading = pool.submit(load, batch)  # begins before the previous batch is given out
            if previous is not None:
                rows, loaded = previous
                yield LoadedBatch(rows, loaded.result())
            previous = batch, loading
        if previous is not None:
            rows, loaded = previous
            yield LoadedBatch(rows, loaded.result())


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """A context in which the same computation on a GPU gives the same bits; on a CPU it changes nothing. There, sums
    over indices (`index_add`, `scatter_add`) are atomic operations in no fixed order. Here torch takes deterministic
    algorithms in their place, and warns of an operation for which it has none.
    """
    if device.type == "cpu":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as cuBLAS and cuDNN's recurrent nets need it
    was_enabled = torch.are_deterministic_algorithms_enabled()
    was_warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_enabled, warn_only=was_warn_only)
