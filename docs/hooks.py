"""What the documentation takes from the code: every command when the site is built, and in the pages themselves the
columns of every table and how plausible the negatives of each operator must be (`make golden` writes them anew).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.exceptions import PluginError

from negcap.augment.kinds import KINDS
from negcap.augment.operators.swap import MIN_LOG_ODDS
from negcap.pipelines.cli import negcap
from negcap.pipelines.cli.group import Command
from negcap.pipelines.cli.models import settings_of
from negcap.pipelines.models.registry import MODELS
from negcap.schemas.markdown import markdown as tables
from negcap.schemas.markdown import replaced

LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?(?:https?:)?//|<link[^>]*\shref=["']?(?:https?:)?//"""
)
STYLED = re.compile(r"(url\(|@import)\s*[\"']?https?:")


def on_post_build(config: Any, **_: Any) -> None:
    """Refuse a site with a page or a style sheet that loads something from a network."""
    site = Path(config["site_dir"])
    files = [(path, LOADED) for path in site.rglob("*.html")] + [(path, STYLED) for path in site.rglob("*.css")]
    if found := [str(path.relative_to(site)) for path, loads in files if loads.search(path.read_text("utf-8"))]:
        raise PluginError(f"pages must load nothing from a network, these do: {', '.join(sorted(found))}")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put commands where a page has `<!-- commands: … -->`, and write anew what stands between other marks."""
    return re.sub(r"<!-- commands: (.+?) -->", lambda match: commands(match[1].split()), filled(markdown))


def filled(markdown: str) -> str:
    """A page with what is generated between `<!-- tables -->` and `<!-- /tables -->`, and of `limits` alike."""
    for name, section in (("tables", tables), ("limits", limits)):
        if f"<!-- {name} -->" in markdown:
            markdown = replaced(markdown, f"<!-- {name} -->", f"<!-- /{name} -->", section())
    return markdown


def limits() -> str:
    """A table of the lowest log p of a replacement of each kind, and of the log-odds of two nouns that are swapped."""
    floors = {name: kind.floor for name, kind in KINDS.items() if kind.floor > float("-inf")}
    floors["shuffle"] = MIN_LOG_ODDS
    return "\n".join(
        ["| operator | floor |", "|---|---|", *(f"| `{name}` | {floor:g} |" for name, floor in floors.items())]
    )


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
    if name == "train":
        yield from ("", "Settings for `--set`, with their defaults:", "")
        yield from ("| setting | models | meaning |", "|---|---|---|", *_settings())
    elif isinstance(command, Command) and (settings := command.settings_without_flag(context)):
        yield from ("", "Settings for `--set`, with their defaults:", "", "| setting | meaning |", "|---|---|")
        yield from (f"| `{setting}` | {_text(meaning)} |" for setting, meaning in settings)


def _settings() -> Iterator[str]:
    """A row of a table for each setting of a training."""
    models: dict[tuple[str, str], list[str]] = {}
    for model in MODELS:
        for setting, meaning in settings_of(model):
            models.setdefault((setting, meaning), []).append(model)
    for (setting, meaning), its in sorted(models.items()):
        yield f"| `{setting}` | {', '.join(its) if len(its) < len(MODELS) else 'all'} | {_text(meaning)} |"


def _text(help: str) -> str:
    """Help as Markdown, its markup escaped and its example as a block of code."""
    text, _, example = inspect.cleandoc(help).partition("\b\nExample: ")
    escaped = re.sub(r"([*_<|])", r"\\\1", text)
    return f"{escaped}\n```console\n$ {example.strip()}\n```" if example else escaped
