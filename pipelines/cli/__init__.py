"""The command line. A command imports what it needs only when it is run, so that help is fast."""

# ruff: noqa: F401, I001 - these modules register their commands in this order
from . import building, looking, judging, quality, scoring, images
from . import training, probing, order, clip, captioner
from .group import main, negcap

__all__ = ["main", "negcap"]
