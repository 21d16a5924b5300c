"""Progress of the commands, on stderr."""

import sys


def report(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)
