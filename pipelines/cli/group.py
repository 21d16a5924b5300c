"""The group of the verbs, and what they share: one line an error, the executor, the exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from negcap.pipelines.engine.cluster import Executor
    from negcap.pipelines.engine.progress import Silent

BAD_INPUT, CHECK_FAILED, INTERRUPTED = 2, 1, 130
STATUS = (
    "Exit status: 0 done, 1 a check failed, 2 bad input or arguments. NEGCAP_TRACEBACK=1 shows where an error is from."
)
THREADS = {  # the work is spread over processes; training asks for more threads, and none may spin on a busy machine
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
}
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Verbs(click.Group):
    """The group; its commands in the order they are written in, not by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of a run."""
        return list(self.commands)


@click.group(cls=Verbs, context_settings=CONTEXT, epilog=STATUS)
@click.version_option(package_name="negcap", message="%(prog)s %(version)s")
def negcap() -> None:
    """Negative captions: false of the image, fluent, and not guessable without looking at it.

    A run is a folder: every verb but the first reads the tables that the earlier ones left there.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; its exit status: 0 done, 1 a check failed, 2 bad input or arguments (one line on stderr).

    With NEGCAP_TRACEBACK set, an error shows where it comes from.
    """
    for name, value in THREADS.items():
        os.environ.setdefault(name, value)
    try:
        return negcap.main(arguments, prog_name="negcap", standalone_mode=False) or 0
    except click.ClickException as error:
        if os.environ.get("NEGCAP_TRACEBACK") and error.__cause__ is not None:
            raise
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "negcap"
        print(f"{where}: {error.format_message()}", file=sys.stderr)
        return BAD_INPUT
    except (KeyboardInterrupt, click.Abort):
        print("negcap: interrupted; the same command again goes on from here", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what the library raises for bad input, or a run that had to stop, into an error of one line."""
    from negcap.pipelines.engine.errors import EngineError

    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        raise click.ClickException(said) from error
    except (ValueError, ImportError, EngineError) as error:
        raise click.ClickException(" ".join(str(error).split())) from error


@contextmanager
def at_work(given: dict[str, Any]) -> Iterator[tuple[Executor, Silent]]:
    """The executor and the progress that the flags ask for; library errors become one line."""
    from negcap.pipelines.engine.cluster import executor
    from negcap.pipelines.engine.progress import report

    with one_line_errors():
        workers = executor(given.pop("workers"), given.pop("scheduler"))
        try:
            yield workers, report(given.pop("quiet"))
        finally:
            workers.close()


def warn(warnings: Sequence[str]) -> None:
    """A line each on stderr."""
    for warning in warnings:
        print(f"negcap: {warning}", file=sys.stderr)
