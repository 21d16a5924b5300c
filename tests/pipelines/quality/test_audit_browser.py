"""The audit's page in headless Chromium: its filters without any script of its own, small screens, contrast."""

import html
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from negcap.pipelines.engine.progress import Progress
from negcap.pipelines.engine.tables import read_table
from negcap.pipelines.quality.audit import PAGE, AuditConfig, audit
from negcap.pipelines.quality.audit.figures import collect
from negcap.schemas.negatives import POSITIVE, REJECTIONS
from tests.pipelines.publish.fixtures import rows, write_images, write_run
from tests.tables import write_table

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH (Debian: apt-get install chromium)"),
]
LIGHT, DARK = 1, 0
# The page stands in a frame of the wanted width, its own policy against scripts intact; the script is its parent's.
WRAPPER = """<!DOCTYPE html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<iframe id="frame" style="width:{width}px;height:900px;border:0" srcdoc="{page}"></iframe>
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
  choose(find('.by-operator', 'shuffle')); choose(find('.by-reason', 'sibling quantity')); result.none = state();
  choose(find('.by-operator', 'numeral')); result.some = state();
  return result;
"""
EMPTY = """
  const operators = () => all('.browse .operator').filter(seen).map(node => node.querySelector('h3').textContent);
  const state = () => ({operators: operators(), nothing: all('.nothing').filter(seen).length,
    offered: all('.by-reason label').filter(seen).map(node => node.firstChild.nextSibling.data.trim())});
  const choose = id => page.getElementById(id).click();
  const result = {all: operators()};
  choose('kept'); result.kept = operators();
  choose(all('.by-operator input').find(node => node.parentElement.textContent.startsWith('verb')).id);
  result.verb = state();
  choose('every'); result.else = state();
  return result;
"""
WIDTHS = """
  const wide = page.documentElement;
  const beyond = all('main *, header *, footer *').filter(node => !node.closest('.wide, svg, del, ins') && seen(node)
    && node.getBoundingClientRect().right > view.innerWidth + 1).map(node => node.outerHTML.slice(0, 80));
  return {overflow: wide.scrollWidth - wide.clientWidth, beyond};
"""
CONTRAST = """
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = '#000'; canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const root = view.getComputedStyle(page.documentElement);
  const behind = node => {
    if (!node) return [255, 255, 255, 1];
    const style = view.getComputedStyle(node);
    if (style.backgroundImage != 'none') return rgba(root.getPropertyValue('--tint'));
    return over(rgba(style.backgroundColor), behind(node.parentElement));
  };
  const found = new Map();
  for (const node of all('body *')) {
    const text = [...node.childNodes].filter(child => child.nodeType == 3).map(child => child.data).join('').trim();
    if (!text || !seen(node) || ['TITLE', 'STYLE'].includes(node.tagName.toUpperCase())) continue;
    const style = view.getComputedStyle(node), drawn = node.closest('svg');
    const back = behind(node), front = over(rgba(drawn ? style.fill : style.color), back);
    const [dark, light] = [luminance(front), luminance(back)].sort((a, b) => a - b);
    const ratio = (light + 0.05) / (dark + 0.05);
    const key = node.tagName + '.' + (node.getAttribute('class') || '') + ' ' + style.color;
    if (!(found.get(key)?.ratio < ratio)) found.set(key, {ratio, text: text.slice(0, 30)});
  }
  const least = [...found].map(([key, {ratio, text}]) => [ratio, key, text]);
  return {paper: view.getComputedStyle(page.body).backgroundColor, least};
"""


@pytest.fixture(scope="module")
def page(sample_run: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the sample, half of its photos there."""
    folder = tmp_path_factory.mktemp("audit")
    names = sorted({row["image"] for table in read_table(sample_run, "captions") for row in table.to_pylist()})
    images = write_images(folder / "images", [name for name in names[::2]])
    audit(sample_run, folder, AuditConfig(n=6, images=images), Progress())
    return (folder / PAGE).read_text(encoding="utf-8")


def test_an_operator_without_rows_is_hidden_with_the_negatives(tmp_path: Path) -> None:
    captions, negatives = rows(24, 9)
    run = write_run(tmp_path / "run", captions, negatives)
    refused = {**dict.fromkeys(REJECTIONS.names), **{k: v for k, v in negatives[0].items() if k in REJECTIONS.names}}
    refused |= {"operator": "verb", "family": "verb", "reason": "same_quantity"}
    write_table(run, "rejections", pa.Table.from_pylist([refused], REJECTIONS))
    audit(run, tmp_path, AuditConfig(blind=False), Progress())
    found = browse((tmp_path / PAGE).read_text(encoding="utf-8"), EMPTY, tmp_path)
    assert found["all"] == ["noun", "numeral", "verb"]
    assert found["kept"] == ["noun", "numeral"]
    assert found["verb"] == {"operators": [], "nothing": 1, "offered": ["everything", "negatives", "same quantity"]}
    assert found["else"]["offered"] == ["everything", "same quantity"]


def browse(page: str, script: str, tmp_path: Path, *, width: int = 1280, scheme: int = LIGHT) -> Any:
    """What a script returns that looks at the page in a frame of this width."""
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(WRAPPER.format(width=width, page=html.escape(page), script=script), encoding="utf-8")
    done = subprocess.run(
        [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--blink-settings=preferredColorScheme={scheme}",
            f"--window-size={max(width, 500) + 40},1000",
            "--virtual-time-budget=10000",
            "--dump-dom",
            wrapper.as_uri(),
        ],
        capture_output=True,
        timeout=300,
        check=True,
    )
    shown = done.stdout.decode().partition('<pre id="result">')[2].partition("</pre>")[0]
    assert shown, done.stderr.decode()[-2000:]
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
    assert sum(state["made"] for state in found["operators"].values()) == start["made"] > 6 * len(operators) - 12
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


@pytest.mark.parametrize("width", [320, 400, 700, 1100, 1400])
def test_nothing_runs_out_of_the_window(page: str, width: int, tmp_path: Path) -> None:
    assert browse(page, WIDTHS, tmp_path, width=width) == {"overflow": 0, "beyond": []}


@pytest.mark.parametrize("scheme, paper", [(LIGHT, "rgb(250, 248, 244)"), (DARK, "rgb(23, 22, 19)")])
def test_text_stands_out_in_light_and_dark(page: str, scheme: int, paper: str, tmp_path: Path) -> None:
    found = browse(page, CONTRAST, tmp_path, scheme=scheme)
    assert found["paper"] == paper
    assert len(found["least"]) > 30
    assert [entry for entry in found["least"] if entry[0] < 4.5] == []
