"""Negative captions for vision and language: false of the image, fluent, and hard to recognize without seeing it.

    >>> import negcap
    >>> negcap.negatives(["A dog sleeps on a red couch."])  # -> pandas.DataFrame

`negatives` makes negatives of sentences or tables; `Augmenter` makes them of batches during training; `build` writes a
whole run as Parquet; `read` reads a table of a run; `graph` returns the scene graph of a sentence; `Negatives` is a
PyTorch data set of batches of captions with negatives, and `NegativesByKey` joins negatives to the samples of another;
`train_openclip` and `train_transformers` train a CLIP on such batches, and `NegativesLoss` is their loss. Importing
this package is cheap: pandas, spaCy, PyTorch and other large packages are imported by the functions that need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pipelines.api.augmenter import Augmenter
    from .pipelines.api.batches import CaptionBatch, Negatives, NegativesByKey
    from .pipelines.api.functions import build, graph, negatives, read
    from .pipelines.api.training import NegativesLoss, train_openclip, train_transformers

    __version__: str

_MODULES = {
    "Augmenter": "augmenter",
    "CaptionBatch": "batches",
    "Negatives": "batches",
    "NegativesByKey": "batches",
    "NegativesLoss": "training",
    "build": "functions",
    "graph": "functions",
    "negatives": "functions",
    "read": "functions",
    "train_openclip": "training",
    "train_transformers": "training",
}
__all__ = [
    "Augmenter",
    "CaptionBatch",
    "Negatives",
    "NegativesByKey",
    "NegativesLoss",
    "__version__",
    "build",
    "graph",
    "negatives",
    "read",
    "train_openclip",
    "train_transformers",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("negcap")
    if name not in _MODULES:
        from .schemas.messages import did_you_mean

        similar = did_you_mean(name, __all__)
        raise AttributeError(f"module negcap has no attribute {name}; it has {', '.join(__all__)}{similar}")
    try:
        module = import_module(f".pipelines.api.{_MODULES[name]}", __name__)
    except ModuleNotFoundError as error:
        from .schemas.messages import missing_library

        if missing := missing_library(error):
            raise ImportError(f"negcap.{name}: {missing}") from error
        raise
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
