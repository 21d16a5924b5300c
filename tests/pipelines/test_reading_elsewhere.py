"""The documentation's snippets for other readers, run as they stand there on a run of the embedded sample."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from negcap.pipelines.engine.shards import read_table
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "pages" / "how-to" / "read.md"
SECTION = re.search(r"<!-- readers: begin -->(.*)<!-- readers: end -->", PAGE.read_text("utf-8"), re.S)
SNIPPETS = re.findall(r"^(\S[^\n]*):\n\n```python\n(.*?)```", SECTION[1] if SECTION else "", re.M | re.S)
NAMES = ["pandas", "DuckDB", "Polars", "`datasets`", "`torch.utils.data`"]


def test_every_reader_has_a_snippet() -> None:
    assert [title.split(",")[0] for title, _ in SNIPPETS] == NAMES


@pytest.mark.parametrize("code", [code for _, code in SNIPPETS], ids=[title.split(",")[0] for title, _ in SNIPPETS])
def test_a_snippet_counts_the_negatives_of_every_operator(code: str, sample_run: Path, tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "sample").symlink_to(sample_run)
    environment = {**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = ast.literal_eval(done.stdout.splitlines()[-1])
    expected = Counter(name for part in read_table(sample_run, "negatives") for name in part["operator"].to_pylist())
    assert found == dict(expected) and len(found) >= 4
