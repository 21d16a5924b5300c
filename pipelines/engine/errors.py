"""What can go wrong while stages run, each with a one-line message."""


class EngineError(RuntimeError):
    """A run that stopped for a reason outside its arguments; finished shards stay, a second run goes on from them."""


class DamagedShardError(EngineError):
    """A shard that is missing, unreadable, or has another sha256 than its receipt states."""


class ClusterError(EngineError):
    """A scheduler that cannot be reached or was lost, or one without workers."""


class StageError(EngineError):
    """A stage that failed on a shard: names both."""


class TaskError(EngineError):
    """Call number `position` of a map failed: `__cause__` is what it raised, or, with `killed`, its worker died."""

    def __init__(self, position: int, killed: bool = False) -> None:
        """Keep which call it was and how it ended."""
        super().__init__(f"call {position} failed")
        self.position = position
        self.killed = killed


class OtherConfigError(ValueError):
    """An output folder made with another config, input or code: the message names the first difference."""
