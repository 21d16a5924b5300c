"""The command group, and what all commands share: errors of one line, exit statuses, the executor."""

from __future__ import annotations

import codecs
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace
from functools import cached_property
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click

from ...schemas.messages import missing_library
from ..engine.errors import EngineError, cause, is_out_of_memory
from .options import FlagValue

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from ..engine.run import Execution

BAD_INPUT = 2
CHECK_FAILED = 1
INTERRUPTED = 130
# Errors that the input or the machine causes, which are told in one line. Others are faults of the program and show
# their traceback, which a report of the fault needs.
ANSWERED = (OSError, ValueError, OverflowError, EngineError, RecursionError, ImportError, MemoryError)
CONTINUES = "the same command continues from here"
EPILOG = """\b
Start with:   negcap build captions.json --output outputs/mine
Then look:    negcap show outputs/mine
Completion:   eval "$(_NEGCAP_COMPLETE=bash_source negcap)"   (zsh_source, fish_source)
\b
Exit status:  0 done, 1 a check failed, 2 bad input or arguments, 130 interrupted (129 by SIGHUP, 143 by SIGTERM).
With NEGCAP_TRACEBACK=1 an error shows where it was raised."""
THREADS = {  # one per process, as work is spread over processes, and idle ones must not spin; trainings set their own
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
}
# Flags that help lists last.
LAST = ("overwrite", "quiet", "as_json")
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


# Module of negcap.pipelines.cli -> heading of its commands, in the order of help.
SECTIONS = {
    "building": "Make negatives and look at them",
    "quality": "Measure, select and publish negatives",
    "judging": "Negatives by other people and language models",
    "models": "Train and score models",
    "images": "Image features and synthetic scenes",
    "papers": "Reproduce papers",
}


class HelpEntry(NamedTuple):
    """A line of help: a flag or setting, and what it means."""

    name: str
    meaning: str


class Command(click.Command):
    """A command whose settings are the fields of configs, which are imported when flags are first asked for.

    Some fields have flags; `--set NAME=VALUE` reads all. The callback gets given values by field, else None. The
    heading of a flag is its `section`, else Options.
    """

    _params: list[click.Parameter]

    def __init__(
        self, *given: FlagValue, configs: str = "", flags: str | Mapping[str, str] = "", **more: FlagValue
    ) -> None:
        """Make the command; its configs are not imported yet.

        Args:
            *given: see click.Command.
            configs: the configs, as `module:name` in negcap.pipelines, with spaces between.
            flags: the names of the fields that have a flag, with spaces between; or those by heading.
            **more: see click.Command.
        """
        self._configs = configs.split()
        self._flags = {"Options": flags} if isinstance(flags, str) else flags
        super().__init__(*given, **more)

    @cached_property
    def fields(self) -> dict[str, FieldInfo]:
        """The fields of the configs that users set, by name: those with a description."""
        described: dict[str, FieldInfo] = {}
        for config in self._configs:
            module, _, name = config.partition(":")
            kind = getattr(import_module(f"..{module}", __package__), name)
            for setting, field in kind.model_fields.items():
                if field.description:
                    described.setdefault(setting, field)  # of two configs with the field, the first describes it
        return described

    @property
    def params(self) -> list[click.Parameter]:
        """All arguments and flags, in the order of help: the command's own, those of config fields, --set, then LAST.

        Flags of fields are made when they are first asked for, as the configs must be imported for them, which is slow:
        the help of `negcap` itself lists commands without their flags.
        """
        if self._configs and self._flags:
            from . import options

            fields_by_heading = self._flags
            self._flags = {}  # so that the flags are made only once
            of_fields = []
            for heading, names in fields_by_heading.items():
                for name in names.split():
                    option = options.from_field(name, self.fields[name], **self.of_field(name))
                    option.section = heading  # type: ignore[attr-defined]
                    # Of several configs, which one is used depends on what the command does.
                    option.required = len(self._configs) == 1 and self.fields[name].is_required()
                    of_fields.append(option)
            last = [option for option in self._params if option.name in LAST]
            own_first = [option for option in self._params if option not in last]
            self._params = [*own_first, *of_fields]
            # Fields without a flag are set by --set.
            if self.fields.keys() - {option.name for option in self._params}:
                self._params.append(options.sets(self.name, self.fields))
            self._params += last
        return self._params

    @params.setter
    def params(self, params: list[click.Parameter]) -> None:
        self._params = params

    def of_field(self, name: str) -> dict[str, FlagValue]:
        """Further arguments of `options.from_field` for a field."""
        return {}

    def settings_without_flag(self, ctx: click.Context) -> list[HelpEntry]:
        """The help of the settings without a flag, as `name=default`; only the name if the default is empty or computed
        on the machine that runs, such as the number of its cores.
        """
        from .options import as_text

        flags = {option.name for option in self.params}
        entries = []
        for name, field in self.fields.items():
            if name not in flags:
                has_default = field.default != "" and not field.default_factory
                shown = f"{name}={as_text(field.default)}" if has_default else name
                entries.append(HelpEntry(shown, field.description or ""))
        return entries

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises UsageError for a flag of one value that is given twice: the last would win."""
        # A parse before click's own, which keeps the last value of a flag and does not say that there were others.
        if not ctx.resilient_parsing:  # completion asks for words of lines that are not whole
            try:
                _, _, given = self.make_parser(ctx).parse_args(args=list(args))
            except click.NoSuchOption as error:
                name = error.option_name.lstrip("-").replace("-", "_")
                named = [option.opts[0] for option in self.params if option.name == name]
                if named:  # the values of a repeated flag are a setting in the plural: `--operators` means `--operator`
                    raise click.NoSuchOption(error.option_name, possibilities=named, ctx=ctx) from None
                if name in self.fields:
                    message = f"{error.option_name} is a setting without a flag: --set {name}=VALUE"
                    raise click.UsageError(message, ctx) from None
                raise
            for flag, times in Counter(given).items():
                if times > 1 and isinstance(flag, click.Option) and not (flag.multiple or flag.is_flag):
                    hint = "; --operator takes several" if flag.name == "preset" else ""
                    raise click.UsageError(f"{flag.opts[0]} takes one value, was given {times} times{hint}", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> FlagValue:
        """Call the command with the values of its flags and of --set. Raises UsageError for one that both give."""
        # Values of --set are texts: the config reads them, which knows the type, as it does for a caller in Python.
        for name, text in (ctx.params.pop("settings", None) or {}).items():
            if ctx.params.get(name) is not None:
                raise click.UsageError(f"{name} is given by a flag and by --set {name}={text}: give one of them", ctx)
            ctx.params[name] = text
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the flags under their headings, in the order of their definition, then the settings without a flag."""
        listed: dict[str, list[HelpEntry]] = {"Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                listed.setdefault(getattr(parameter, "section", "Options"), []).append(HelpEntry(*record))
        # After all flags, as there are many: who looks for a flag should not have to read them.
        listed["Settings, by --set"] = self.settings_without_flag(ctx) if self._configs else []
        for heading, records in listed.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class CommandGroup(click.Group):
    """The command group. It lists commands in the order of their definition, not by name."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in the order of their definition."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands under the headings in SECTIONS, by the module that defines them."""
        width = max(map(len, self.commands))
        for module, heading in SECTIONS.items():
            lines = []
            for name, command in self.commands.items():
                if command.callback.__module__.endswith(f".{module}"):
                    lines.append((f"{name:<{width}}", command.get_short_help_str(65)))
            with formatter.section(heading):
                formatter.write_dl(lines)


@click.group(cls=CommandGroup, context_settings=CONTEXT, epilog=EPILOG, invoke_without_command=True)
@click.version_option(package_name="negcap", message="%(prog)s %(version)s")
@click.pass_context
def negcap(ctx: click.Context) -> None:
    """Make negative image captions: false of the image, fluent, and not guessable without the image.

    A run is a folder of tables (Parquet). `build` makes them; other commands measure, select and publish negatives, and
    train models on them.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def escaped(error: UnicodeError) -> tuple[str, int]:
    """What Python prints instead of characters that the stream's encoding lacks: `\\u2192` for an arrow.

    This is how JSON escapes it, so that what is printed as JSON stays the same value. Returns the text, and where in
    the original text printing goes on. Raises the error if it is not one of encoding.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


ESCAPED = "negcap.escaped"  # the name of the error handler
codecs.register_error(ESCAPED, escaped)


class Stopped(BaseException):
    """Raised in the main thread when SIGTERM or SIGHUP asks the process to end; args: the signal's number."""


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Raise Stopped at SIGTERM and SIGHUP in the block, so that files, locks and workers are cleaned up.

    A second signal ends the process. A signal that is ignored (nohup) or handled already stays so. In other threads
    than the main one nothing is changed: there, Python allows no handlers.
    """
    handled: list[int] = []
    if threading.current_thread() is threading.main_thread():
        handled = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]

    def stop(number: int, frame: object) -> NoReturn:
        """Handle the first signal, as `signal.signal` wants it."""
        # Cleaning up may wait for a disk or a worker; a second signal ends the process at once.
        for other in handled:
            signal.signal(other, signal.SIG_DFL)
        raise Stopped(number)

    for number in handled:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with these arguments (None: sys.argv); returns the exit status, see EPILOG.

    Errors are one line on stderr, or raised if the environment has NEGCAP_TRACEBACK.
    """
    # Before any library is imported that reads them, and inherited by the worker processes.
    for name, value in THREADS.items():
        os.environ.setdefault(name, value)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # If the caller has closed a stream, the next file that is opened would get its number and be written to.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors=ESCAPED)
    where = "negcap"
    try:
        with stopped_by_signals():
            return negcap.main(arguments, prog_name="negcap", standalone_mode=False) or 0
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else where
        message = error.format_message()
        if isinstance(error, click.MissingParameter):
            message = f"{message.rstrip('.')}; see {where} --help"
    except (KeyboardInterrupt, click.Abort) as interrupt:
        print(f"negcap: interrupted; {_what_happens_to_work(interrupt)}", file=sys.stderr)
        return INTERRUPTED
    except Stopped as stopped:
        (number,) = stopped.args
        with suppress(OSError):  # SIGHUP: the terminal is gone
            print(
                f"negcap: stopped by {signal.Signals(number).name}; {_what_happens_to_work(stopped)}", file=sys.stderr
            )
        return 128 + int(number)
    except BrokenPipeError:
        # `negcap show … | head`: nobody reads on. At exit Python would write what is left to write, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        # Some libraries raise RuntimeError or TypeError if memory runs out, which only their messages tell.
        too_large = is_out_of_memory(error)
        if os.environ.get("NEGCAP_TRACEBACK") or not (too_large or isinstance(error, ANSWERED)):
            raise
        # `cause` has a better text for these: "captions.csv: No such file or directory", or what to install.
        names_file = isinstance(error, OSError) and error.filename and error.strerror
        message = cause(error) if names_file or too_large or missing_library(error) else str(error)
    print(f"{where}: {' '.join(message.split())}", file=sys.stderr)
    return BAD_INPUT


def _what_happens_to_work(end: BaseException) -> str:
    """What the end of a command means for its work: the note that the command has added to the exception, else
    CONTINUES: the same command goes on from here.
    """
    # click raises Abort in place of a KeyboardInterrupt, which is its cause and has the note
    noted = end.__cause__ if isinstance(end, click.Abort) and end.__cause__ else end
    return next(iter(getattr(noted, "__notes__", [])), CONTINUES)


@contextmanager
def with_workers(given: dict[str, FlagValue]) -> Iterator[Execution]:
    """How stages are run, by the flags --workers, --scheduler, --quiet and --overwrite, which are removed from `given`.

    Workers that are started for the block end with it.
    """
    from ..engine.cluster import executor

    with closing(executor(given.pop("workers"), given.pop("scheduler"))) as workers:
        yield replace(in_this_process(given), executor=workers)


def in_this_process(given: dict[str, FlagValue]) -> Execution:
    """How stages run without workers, by --quiet and --overwrite, which are removed from the flags `given`."""
    from ..engine.progress import report
    from ..engine.run import Execution

    return Execution(progress=report(given.pop("quiet")), overwrite=given.pop("overwrite"))


def to_json(value: object) -> str:
    """A value, in which dataclasses may be, as JSON."""
    return json.dumps(value, indent=1, ensure_ascii=False, default=asdict)


def say(quiet: bool = False) -> Callable[[str], None]:
    """A function that prints a line of progress on stderr; with `quiet`, one that does nothing."""
    return lambda line: None if quiet else print(line, file=sys.stderr, flush=True)


def warn(warnings: Sequence[str]) -> None:
    """Print warnings on stderr, one line each."""
    for warning in warnings:
        print(f"negcap: {warning}", file=sys.stderr)
