"""The command line. A command imports what it needs only when it is run, so that help is fast."""

# ruff: noqa: F401, I001 - these modules register their commands in this order
from negcap.pipelines.cli import tables, looking, judging, quality, scoring, images
from negcap.pipelines.cli import training, probing, order, clip, captioner
from negcap.pipelines.cli.group import main, negcap

__all__ = ["main", "negcap"]
