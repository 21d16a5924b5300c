"""The command line: one group, a verb a command. Nothing heavy is imported before a verb needs it."""

from negcap.pipelines.cli import tables, quality, images, training, captioner  # noqa: F401, I001  verbs register themselves, in this order
from negcap.pipelines.cli.group import main, negcap

__all__ = ["main", "negcap"]
