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
    refused: all('.browse .refused ol > li').filter(seen).length,
    plots: all('.browse svg.plot').filter(seen).length,
    nothing: all('.nothing').filter(seen).length,
    controls: all('#controls .controls ol > li').filter(seen).length,
    offered: all('.by-reason label').filter(seen).map(node => node.firstChild.nextSibling.data.trim()),
  });
  const choose = id => page.getElementById(id).click();
  const label = id => page.getElementById(id).parentElement.firstChild.nextSibling.data.trim();
  const result = {start: state(), operators: {}, reasons: {}};
  for (const {id} of all('.by-operator input:not(#all)')) { choose(id); result.operators[label(id)] = state(); }
  choose('all');
  for (const {id} of all('.by-reason input:not(#every, #kept)')) { choose(id); result.reasons[label(id)] = state(); }
  choose('kept'); result.kept = state();
  choose('every'); result.end = state();
  const find = (group, name) => all(group + ' input').find(node => label(node.id) == name).id;
  choose(find('.by-operator', 'noun')); choose(find('.by-reason', 'sibling quantity')); result.none = state();
  choose(find('.by-operator', 'numeral')); result.some = state();
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
    assert start["nothing"] == 0 and start["plots"] >= 3 * len(operators) and found["end"] == start
    for name, state in found["operators"].items():
        assert state["operators"] == [name] and state["nothing"] == 0
        assert state["controls"] == start["controls"] > 0
        assert state["made"] <= 6 and state["plots"] in ((3, 4) if state["made"] else (0,))
        assert state["reasons"] == [reason.replace("_", " ") for reason in figures.refused.get(name, {})]
        assert set(state["offered"]) == {"everything", *(["negatives"] if state["made"] else []), *state["reasons"]}
    assert sum(state["made"] for state in found["operators"].values()) == start["made"] > 4 * len(operators)
    assert sum(state["refused"] for state in found["operators"].values()) == start["refused"] > 0
    assert list(found["reasons"]) == [reason.replace("_", " ") for reason in figures.reasons]
    for reason, state in found["reasons"].items():
        with_it = [name for name in operators if reason.replace(" ", "_") in figures.refused.get(name, {})]
        assert state["operators"] == with_it and state["reasons"] == [reason]
        assert state["controls"] == start["controls"]
        assert state["made"] == state["plots"] == state["nothing"] == 0 < state["refused"] <= 2 * len(with_it)
    assert set(start["offered"]) == {"everything", "negatives", *found["reasons"]}
    with_negatives = [name for name, state in found["operators"].items() if state["made"]]
    assert found["kept"]["operators"] == with_negatives and "sibling quantity" in found["none"]["offered"]
    assert found["kept"]["made"] == start["made"] and found["kept"]["refused"] == found["kept"]["plots"] == 0
    assert found["none"]["operators"] == [] and found["none"]["nothing"] == 1
    assert found["some"]["operators"] == ["numeral"] and found["some"]["nothing"] == 0 < found["some"]["refused"]


def test_nothing_runs_out_of_the_window(page: str, tmp_path: Path) -> None:
    assert browse(page, WIDTHS, tmp_path) == [[width, 0] for width in (320, 400, 700, 1100, 1400)]


@pytest.mark.parametrize(("asked", "wanted", "word"), [
    ("words=horse", lambda row: True, "horse"),
    (
        "words=horse&operator=noun&kind=negatives",
        lambda row: row["operator"] == "noun" and "reason" not in row,
        "horse",
    ),
    (
        "kind=likely_true&p_true_to=0.5",
        lambda row: row.get("reason") == "likely_true" and row["p_true"] is not None and row["p_true"] <= 0.5,
        "",
    ),
])  # fmt: skip
def test_the_search_finds_what_the_tables_have(asked, wanted, word, written, sample_run, tmp_path):
    """The page is opened from the disk, as its readers do."""
    found = document(f"{written.as_uri()}#{asked}", tmp_path)
    tables = ("negatives", "positives", "rejections")
    rows = [row for name in tables for row in rows_of(sample_run, name)]
    begins = re.compile(rf"\b{word}", re.I)
    hits = [
        row
        for row in rows
        if wanted(row)
        and any(begins.search(text) for text in (row["caption"], *(edit["new"] for edit in row["edits"])))
    ]
    made, captions = sum("reason" not in row for row in hits), {row["caption_id"] for row in hits}
    refused = sum(row.get("reason", "no_candidate") != "no_candidate" for row in hits)
    said = re.search(r'role="status">([\d,]+) texts? and ([\d,]+) rejected candidates? of ([\d,]+) captions?<', found)
    assert said and [int(n.replace(",", "")) for n in said.groups()] == [made, refused, len(captions)]
    results = found.partition('<div class="results">')[2].partition('<button type="button" class="more"')[0]
    assert results.count("<article") == min(len(captions), 20) > 0
    first = next(row for row in rows if row["caption_id"] in captions)
    assert first["caption_id"] in results and 'class="siblings"' in results and ">Rejected: " in results
