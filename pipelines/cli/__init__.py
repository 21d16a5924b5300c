"""The command line. A command imports what it needs only when it is run, so that help is fast."""

from negcap.pipelines.cli import (
    tables,
    looking,
    judging,
    quality,
    scoring,
    images,
    training,
    probing,
    order,
    clip,
    captioner,
)  # noqa: E501, F401, I001  they register their commands in this order
from negcap.pipelines.cli.group import main, negcap

__all__ = ["main", "negcap"]
