"""Negative captions for vision and language: false of the image, fluent, and hard to recognize without seeing it.

    >>> import negcap
    >>> negcap.negatives(["A dog sleeps on a red couch."])  # -> pandas.DataFrame

`negatives` makes negatives of sentences or tables; `Augmenter` makes them of batches during training; `build` writes a
whole run as Parquet; `read` reads a table of a run; `graph` returns the scene graph of a sentence. Importing this
package is cheap: pandas, spaCy and other large packages are imported by the functions that need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from negcap._augmenter import Augmenter
    from negcap._functions import build, negatives
    from negcap._graph import graph
    from negcap._read import read

    __version__: str

__all__ = ["Augmenter", "__version__", "build", "graph", "negatives", "read"]

_MODULES = {
    "Augmenter": "_augmenter",
    "build": "_functions",
    "graph": "_graph",
    "negatives": "_functions",
    "read": "_read",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("negcap")
    if name not in _MODULES:
        raise AttributeError(f"module negcap has no attribute {name}; it has {', '.join(__all__)}")
    return getattr(import_module(f"negcap.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
