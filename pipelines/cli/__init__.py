"""The command line. A command imports what it needs only when it is run, so that help is fast."""

# ruff: noqa: F401, I001 - these modules register their commands in this order
from . import building, quality, judging, models, images, papers
from .group import main, negcap

__all__ = ["main", "negcap"]
