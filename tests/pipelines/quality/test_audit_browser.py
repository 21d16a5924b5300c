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
# The page stands in a frame, in which scripts are off; the script is its parent's.
WRAPPER = """<!DOCTYPE html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<iframe id="frame" sandbox="allow-same-origin" style="width:1280px;height:900px;border:0" srcdoc="{page}"></iframe>
<pre id="result"></pre>
<script>
frame.onload = () => {{
  const page = frame.contentDocument, view = frame.contentWindow;
  const seen = node => node.checkVisibility() && node.getClientRects().length > 0;
  const all = selector => [...page.querySelectorAll(selector)];
  result.textContent = JSON.stringify((() => {{ {script} }})());
}};
</script>"""
FILTERS = """
  const state = () => ({
    operators: all('.browse .operator').filter(seen).map(node => node.querySelector('h3').textContent),
    made: all('.browse .made ol > li').filter(seen).length,
    reasons: [...new Set(all('.browse .refused .reason').filter(seen).map(node => node.firstChild.data.trim()))],
    plots: all('.browse svg.plot').filter(seen).length,
    nothing: all('.nothing').filter(seen).length,
    controls: all('#controls .controls ol > li').filter(seen).length,
  });
  const label = node => node.parentElement.firstChild.nextSibling.data.trim();
  const choose = (group, name) => all(group + ' input').find(node => label(node) == name).click();
  const result = {start: state(), operators: {}, reasons: {}};
  for (const node of all('.by-operator input:not(#all)')) { node.click(); result.operators[label(node)] = state(); }
  page.getElementById('all').click();
  const reasons = all('.by-reason input:not(#every, #kept)');
  for (const node of reasons) { node.click(); result.reasons[label(node)] = state(); }
  page.getElementById('kept').click(); result.kept = state();
  page.getElementById('every').click(); result.end = state();
  choose('.by-operator', 'noun'); choose('.by-reason', 'sibling quantity'); result.none = state();
  return result;
"""
WIDTHS = """
  const wide = page.documentElement, result = [];
  for (const width of [320, 400, 700, 1100, 1400]) {
    frame.style.width = width + 'px';
    const beyond = all('main *, header *, footer *').filter(node => !node.closest('.wide, svg, del, ins') && seen(node)
      && node.getBoundingClientRect().right > view.innerWidth + 1).map(node => node.outerHTML.slice(0, 80));
    result.push([view.innerWidth, wide.scrollWidth - wide.clientWidth, ...beyond]);
  }
  return result;
"""


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
    """What a script returns that looks at the page in a frame."""
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(WRAPPER.format(page=html.escape(page), script=script), encoding="utf-8")
    shown = document(wrapper.as_uri(), tmp_path).partition('<pre id="result">')[2].partition("</pre>")[0]
    return json.loads(html.unescape(shown))


def test_the_filters_work_without_a_script_of_the_page(page: str, sample_run: Path, tmp_path: Path) -> None:
    found = browse(page, FILTERS, tmp_path)
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
    assert browse(page, WIDTHS, tmp_path) == [[width, 0] for width in (320, 400, 700, 1100, 1400)]


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
