"""A cache of arrays derived from a run's tables, in the folder `encoded` of the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from ..engine.storage import scratch_folder, write_atomically

FOLDER = "encoded"


class CachedArrays(NamedTuple):
    """The content of one safetensors file: its tensors and its metadata, both by name."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str]


def cache_file(run: Path, prefix: str, identity: Any, suffix: str) -> Path:
    """A file in the run's cache; the arguments are those of `cached_arrays`. suffix: of its name."""
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    return scratch_folder(run, FOLDER) / f"{prefix}{key}.{suffix}"


def cached_arrays(run: Path, prefix: str, identity: Any, make: Callable[[], bytes]) -> CachedArrays:
    """Read a safetensors file from the run's cache; if it does not exist yet, write it first.

    prefix: the start of the file's name. identity: JSON-compatible data from which the content follows; its hash
    completes the name. make: computes the file's bytes. Raises ValueError for a damaged file.
    """
    from safetensors import SafetensorError, safe_open

    path = cache_file(run, prefix, identity, "safetensors")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, make())
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            return CachedArrays(tensors, file.metadata() or {})
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, and it is computed again") from None
