"""What the documentation site takes from the code when it is built: the columns of every table."""

from __future__ import annotations

from typing import Any

from negcap.schemas.markdown import markdown

MARKER = "<!-- tables -->"


def on_page_markdown(markdown_text: str, **_: Any) -> str:
    """Put the columns of every table where a page has the marker."""
    return markdown_text.replace(MARKER, markdown())
