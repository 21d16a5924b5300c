"""The audit's page in headless Chromium: its filters without any script of its own, small screens, contrast."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from negcap.pipelines.engine.progress import Progress
from negcap.pipelines.quality.audit import PAGE, AuditConfig, audit
from negcap.pipelines.quality.audit.figures import collect
from negcap.schemas.negatives import POSITIVE
from tests.browser import IN_BROWSER, document
from tests.pipelines.publish.fixtures import write_images
from tests.tables import rows_of

pytestmark = IN_BROWSER
SCRIPTS = Path(__file__).with_name("browser")


@pytest.fixture(scope="module")
def written(sample_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the sample, half of its photos there, and what lies beside it."""
    folder = tmp_path_factory.mktemp("audit")
    names = sorted({row["image"] for row in rows_of(sample_run, "captions")})
    images = write_images(folder / "images", [name for name in names[::2]])
    audit(sample_run, folder, AuditConfig(n=6, images=images), Progress())
    return folder / PAGE


@pytest.fixture(scope="module")
def page(written: Path) -> str:
    return written.read_text(encoding="utf-8")


def browse(page: str, script: str, tmp_path: Path) -> Any:
    """What a script returns that looks at the page in a frame, in which scripts are off."""
    wrapper = (SCRIPTS / "wrapper.html").read_text("utf-8").replace("SCRIPT", (SCRIPTS / script).read_text("utf-8"))
    (tmp_path / "wrapper.html").write_text(wrapper.replace("PAGE", html.escape(page)), encoding="utf-8")
    shown = document((tmp_path / "wrapper.html").as_uri(), tmp_path)
    return json.loads(html.unescape(shown.partition('<pre id="result">')[2].partition("</pre>")[0]))


def test_the_filters_work_without_a_script_of_the_page(page: str, sample_run: Path, tmp_path: Path) -> None:
    found = browse(page, "filters.js", tmp_path)
    figures = collect(sample_run)
    operators = [name for name, family in figures.families.items() if family != POSITIVE]
    start = found["start"]
    assert start["operators"] == operators == list(found["operators"])
    assert start["nothing"] == 0 < start["controls"] and found["end"] == start
    for name, state in found["operators"].items():
        assert (state["operators"], state["nothing"], state["controls"]) == ([name], 0, start["controls"])
        assert state["made"] <= 6 and state["plots"] in ((3, 4) if state["made"] else (0,))
        assert state["reasons"] == [reason.replace("_", " ") for reason in figures.refused.get(name, {})]
    assert sum(state["made"] for state in found["operators"].values()) == start["made"] > 4 * len(operators)
    assert list(found["reasons"]) == [reason.replace("_", " ") for reason in figures.reasons]
    for reason, state in found["reasons"].items():
        with_it = [name for name in operators if reason.replace(" ", "_") in figures.refused.get(name, {})]
        assert (state["operators"], state["reasons"], state["nothing"]) == (with_it, [reason], 0)
        assert state["made"] == state["plots"] == 0
    with_negatives = [name for name, state in found["operators"].items() if state["made"]]
    assert (found["kept"]["operators"], found["kept"]["made"]) == (with_negatives, start["made"])
    assert found["kept"]["reasons"] == [] and found["kept"]["plots"] == 0
    assert found["none"]["operators"] == [] and found["none"]["nothing"] == 1


def test_nothing_runs_out_of_the_window(page: str, tmp_path: Path) -> None:
    assert browse(page, "widths.js", tmp_path) == [[width, 0] for width in (320, 400, 700, 1100, 1400)]


def is_negative_of_noun(row: dict[str, Any]) -> bool:
    return row["operator"] == "noun" and "reason" not in row


def is_likely_true_below_half(row: dict[str, Any]) -> bool:
    return row.get("reason") == "likely_true" and row["p_true"] is not None and row["p_true"] <= 0.5


@pytest.mark.parametrize(("asked", "wanted", "word"), [
    ("words=horse&operator=noun&kind=negatives", is_negative_of_noun, "horse"),
    ("kind=likely_true&p_true_to=0.5", is_likely_true_below_half, ""),
])  # fmt: skip
def test_the_search_finds_what_the_tables_have(asked, wanted, word, written, sample_run, tmp_path):
    """The page is opened from the disk, as its readers do."""
    found = document(f"{written.as_uri()}#{asked}", tmp_path)
    tables = ("negatives", "positives", "rejections")
    hits = []
    for row in (row for name in tables for row in rows_of(sample_run, name) if wanted(row)):
        texts = (row["caption"], *(edit["new"] for edit in row["edits"]))
        if any(re.search(rf"\b{word}", text, re.I) for text in texts):
            hits.append(row)
    made, captions = sum("reason" not in row for row in hits), {row["caption_id"] for row in hits}
    said = re.search(r'role="status">([\d,]+) texts? and ([\d,]+) rejected candidates? of ([\d,]+) captions?<', found)
    assert said and [int(n.replace(",", "")) for n in said.groups()] == [made, len(hits) - made, len(captions)]
    results = found.partition('<div class="results">')[2].partition('<button type="button" class="more"')[0]
    assert results.count("<article") == min(len(captions), 20) > 0
    assert hits[0]["caption_id"] in results and 'class="siblings"' in results
