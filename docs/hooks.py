"""What the documentation takes from the code when the site is built: every command, and the columns of every table."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import click

from negcap.pipelines.cli import negcap
from negcap.schemas.markdown import markdown as tables


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the commands and the tables where a page has `<!-- commands -->` or `<!-- tables -->`."""
    markdown = re.sub(r"<!-- commands: (.+?) -->", lambda match: commands(match[1].split()), markdown)
    return markdown.replace("<!-- tables -->", tables())


def commands(names: list[str]) -> str:
    """A section for each of these commands: its usage, its help and a table of its options."""
    return "\n\n".join("\n".join(_section(name, negcap.commands[name])) for name in names)


def _section(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"negcap {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f"### negcap {name} {{ #negcap-{name} }}", "", "```text", f"negcap {name} {usage}", "```", "")
    yield from (_text(command.help or ""), "")
    options = [option for option in command.params if isinstance(option, click.Option)]
    yield from ("| option | meaning |", "|---|---|")
    for option in options:
        if record := option.get_help_record(context):
            flags, _, choices = record[0].partition(" [")
            words = f" One of {', '.join(choices.rstrip(']').split('|'))}." if choices else ""
            yield f"| `{flags}` | {_text(record[1] + words)} |"


def _text(help: str) -> str:
    """Help as Markdown, its markup escaped and its example as a block of code."""
    text, _, example = inspect.cleandoc(help).partition("\b\nExample: ")
    escaped = re.sub(r"([*_<|])", r"\\\1", text)
    return f"{escaped}\n```console\n$ {example.strip()}\n```" if example else escaped
