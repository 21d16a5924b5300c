"""Temporary."""

from pathlib import Path

import numpy as np

from negcap.augment.cloze.units import Units


def read_model(path: Path) -> tuple[Units, dict[str, np.ndarray]]:
    """Read."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    units = Units(tuple(arrays.pop("units").tobytes().decode().split("\n")))
    arrays.pop("about")
    return units, {name: np.ascontiguousarray(value, np.float32) for name, value in arrays.items()}
