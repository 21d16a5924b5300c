"""What `--scheduler` names: an address, a scheduler file, or a function that makes a cluster."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from .errors import ClusterError

SYNCHRONOUS = "synchronous"
ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://[^/\s]+:\d+")
FUNCTION = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")


@dataclass(frozen=True)
class Scheduler:
    """A scheduler that is not started by negcap. name: as the user gave it, for messages.

    address: where it is; "" if `make` says it. make: returns a Dask cluster or client.
    """

    name: str
    address: str = ""
    make: Callable[[], Any] | None = None


def named(scheduler: str) -> Scheduler:
    """The scheduler that a user named by an address, a file that a Dask scheduler wrote, or `module:function`.

    The module is imported, also from the current folder. Raises ValueError if it cannot be, has no such function, and
    for any other text; ClusterError if the file holds no address.
    """
    if ADDRESS.fullmatch(scheduler):
        return Scheduler(scheduler, scheduler)
    if Path(scheduler).is_file():
        return Scheduler(scheduler, _address_in(Path(scheduler)))
    if not (called := FUNCTION.fullmatch(scheduler)):
        raise ValueError(
            f"scheduler must be tcp://host:port, tls://host:port, a scheduler file, module:function or {SYNCHRONOUS}, "
            f"was: {scheduler}"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        make = getattr(import_module(called[1]), called[2])
    except Exception as error:
        raise ValueError(f"scheduler {scheduler} cannot be imported: {_line(error)}") from error
    if not callable(make):
        raise ValueError(f"scheduler must be module:function, {scheduler} is no function")
    return Scheduler(scheduler, make=make)


def _address_in(file: Path) -> str:
    try:
        return str(json.loads(file.read_bytes())["address"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ClusterError(f"{file} must be the file of a Dask scheduler, holds no address: {_line(error)}") from error


def made_by(scheduler: Scheduler) -> tuple[Any, Any]:
    """The client and the cluster that the function of a scheduler makes; None if it makes only a client.

    Raises ClusterError if it fails or makes something else.
    """
    from distributed import Client
    from distributed.deploy.cluster import Cluster

    assert scheduler.make is not None
    try:
        made = scheduler.make()
        if isinstance(made, Client):
            return made, made.cluster
        if isinstance(made, Cluster):
            return Client(made, set_as_default=False), made
    except Exception as error:  # each kind of cluster has errors of its own
        raise ClusterError(f"{scheduler.name} failed: {_line(error)}") from error
    raise ClusterError(f"{scheduler.name} must return a Dask cluster or client, returned: {made!r:.80}")


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
