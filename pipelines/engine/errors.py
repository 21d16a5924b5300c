"""What can go wrong while stages run, each with a one-line message; libraries that are missing."""

from __future__ import annotations

import re
from importlib import import_module

from ...schemas.messages import missing_library

# What torch says, as a RuntimeError or TypeError, of arrays that no memory holds, on a processor or a GPU. There is no
# common type: other libraries raise MemoryError.
_NO_MEMORY = re.compile(r"allocate memory|out of memory|size calculation overflowed|overflow when unpacking", re.I)


class EngineError(RuntimeError):
    """A run stopped for a reason other than its arguments. Finished shards are kept: the same run again continues."""


class DamagedShardError(EngineError):
    """A shard is missing, unreadable, or does not have the sha256 that is stated of it."""


class ClusterError(EngineError):
    """A Dask scheduler cannot be reached, was lost, or has no workers."""


class LockedError(EngineError):
    """A run's folder is being written by another process: the message names it."""


class StageError(EngineError):
    """A stage failed: the message names it and, if one shard caused it, the shard."""


class TaskError(EngineError):
    """A call of an executor failed: the message is why, `__cause__` what it raised, `position` which one, from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


OUT_OF_MEMORY = (
    "out of memory: fewer --workers, smaller shards (--set shard_size=N) or a higher limit (ulimit -v) may help; "
    "the same command continues from here"
)


class OtherConfigError(ValueError):
    """A table was made with another config, input or code: the message names the first difference."""


def require_libraries(message: str, *libraries: str) -> None:
    """Raise ImportError with a message, which says what to install, if a library cannot be imported."""
    try:
        for name in libraries:
            import_module(name)
    except ImportError as error:
        raise ImportError(message) from error


def cause(error: BaseException) -> str:
    """An error in one line for users: "captions.csv: No such file or directory", "KeyError: 'dog'"."""
    if isinstance(error, EngineError):
        return str(error)
    missing = missing_library(error)
    if missing:
        return missing
    first_line = next(iter(str(error).splitlines()), "")
    if is_out_of_memory(error):
        details = first_line.partition(" - ")[0][:200]  # a MemoryError mostly has no text
        return f"{OUT_OF_MEMORY}: {details}" if details else OUT_OF_MEMORY
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {first_line}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that something is too large for the memory, of whatever type libraries raise then."""
    if isinstance(error, MemoryError):
        return True
    # An EngineError is a RuntimeError, but its message is already for users, and may itself speak of memory.
    may_be_of_torch = isinstance(error, RuntimeError | TypeError) and not isinstance(error, EngineError)
    return may_be_of_torch and _NO_MEMORY.search(str(error)) is not None
