"""What can go wrong while stages run, each with a one-line message."""


class EngineError(RuntimeError):
    """A run stopped for a reason other than its arguments. Finished shards are kept: the same run again continues."""


class DamagedShardError(EngineError):
    """A shard is missing, unreadable, or does not have the sha256 in its receipt."""


class ClusterError(EngineError):
    """A Dask scheduler cannot be reached, was lost, or has no workers."""


class LockedError(EngineError):
    """A run's folder is being written by another process: the message names it."""


class StageError(EngineError):
    """A stage failed: the message names it and, if one shard caused it, the shard."""


class TaskError(EngineError):
    """A call of an executor failed: `__cause__` is the exception it raised.

    position: of the call, from 0. killed: whether its worker died instead, at every attempt.
    """

    def __init__(self, position: int, killed: bool = False) -> None:
        """Keep position and killed; they are explained in the class."""
        super().__init__(f"call {position} failed")
        self.position = position
        self.killed = killed


class OtherConfigError(ValueError):
    """A table was made with another config, input or code: the message names the first difference."""
