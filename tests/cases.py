"""Tables of cases, kept as TOML beside the tests that read them."""

import tomllib
from pathlib import Path
from typing import Any


def cases_of(test: str, file: str = "cases.toml") -> dict[str, Any]:
    """The tables of a file in the folder of a test module, given as `__file__`."""
    return tomllib.loads(Path(test).with_name(file).read_text("utf-8"))
