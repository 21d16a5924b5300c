"""The audit: its figures against plain counts of the tables, its page, and the verdict on top."""

import base64
import hashlib
import io
import json
import re
import shutil
import zlib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from negcap.pipelines.cli import main
from negcap.pipelines.engine.progress import Progress
from negcap.pipelines.quality.audit import PAGE, TABLE, AuditConfig, audit, figures, page
from negcap.pipelines.quality.bias.measure import BlindConfig, Blindness, measure_run
from negcap.pipelines.report.rows import pieces
from negcap.schemas.fields import check
from negcap.schemas.negatives import AUDIT, MEASURES
from tests.pipelines.publish.fixtures import changed, report, write_images
from tests.tables import content, rows_of

Rows = list[dict[str, Any]]
VOID = {"meta", "input", "br", "img"}
MARKUP = """<script>alert(1)</script> "><img src=x onerror=alert(1)> </style></title><svg onload=alert(1)>
{{ 7 * 7 }} {% raw %} ' & &lt;b&gt; <!--""".replace("\n", " ")


class Page(HTMLParser):
    """Elements with their attributes; by where they stand, the rows shown: their texts before and after the edits."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.shown: dict[str, list[tuple[str, str]]] = {"made": [], "refused": [], "controls": []}
        self.rows = self.shown["made"]
        self.siblings: list[list[str]] = []  # of every row in turn
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag not in VOID:
            self.open.append(tag)
        for name in (*(attributes.get("class") or "").split(), attributes.get("id")):
            self.rows = self.shown.get(name or "", self.rows)
        if tag == "q" and "li" in self.open:
            self.rows.append(("", ""))
            self.siblings.append([])
        if tag == "li" and self.open.count("li") == 2:
            self.siblings[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open.count("li") == 2:
            self.siblings[-1][-1] += data
        if "li" in self.open and "q" in self.open:
            true, false = self.rows[-1]
            self.rows[-1] = (true + data * ("ins" not in self.open), false + data * ("del" not in self.open))


def audited(run: Path, output: Path, **given: Any) -> tuple[str, pa.Table]:
    audit(run, output, AuditConfig(**given), Progress())
    return (output / PAGE).read_text(encoding="utf-8"), pq.read_table(output / TABLE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the audit of the sample is written."""
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def sample(sample_run: Path, folder: Path) -> tuple[str, pa.Table]:
    return audited(sample_run, folder, n=6)


def values(audited: pa.Table, **wanted: str) -> dict[tuple[str, str], float]:
    found = [row for row in audited.to_pylist() if all(row[name] == value for name, value in wanted.items())]
    return {(row["operator"], row["item"]): row["value"] for row in found}


def test_the_counts_are_those_of_the_tables(sample: tuple[str, pa.Table], sample_run: Path) -> None:
    html, table = sample
    check(table, AUDIT)
    metadata = table.schema.metadata
    assert metadata[b"table"] == b"audit" and metadata[b"seed"] == b"0" and b"negcap_version" in metadata
    assert set(table["measure"].to_pylist()) | {"p_true"} == set(MEASURES)
    assert values(table, measure="captions") == {("", ""): 200} and values(table, measure="images") == {("", ""): 40}
    for name in ("negatives", "positives"):
        rows = pd.DataFrame(rows_of(sample_run, name))
        captions = rows.groupby("operator")["caption_id"]
        covered = captions.nunique().to_dict()
        if name == "negatives":
            covered["all"] = rows["caption_id"].nunique()
        for measure, expected in (("rows", captions.size().to_dict()), ("covered", covered)):
            found = values(table, table=name, measure=measure)
            assert found == {(operator, ""): n for operator, n in expected.items()}
    refused = Counter((row["operator"], row["reason"]) for row in rows_of(sample_run, "rejections"))
    assert values(table, measure="refused") == refused
    for name in {operator for operator, _ in refused} - {"true_negation", "paraphrase"}:
        bare = refused[name, "no_candidate"]
        candidates = sum(n for (operator, _), n in refused.items() if operator == name) - bare
        assert re.search(rf"<td>{candidates:,}</td><td [^>]*>[^<]*</td><td>{bare:,}</td>", html)


def test_plots_are_of_the_first_draws(sample: tuple[str, pa.Table], sample_run: Path) -> None:
    first = [row for row in rows_of(sample_run, "negatives") if row["draw"] == 0]
    counts: dict[str, Counter[tuple[str, str]]] = {name: Counter() for name in MEASURES}
    for row in first:
        words = {"words_caption": len(row["caption"].split()), "words_negative": len(row["text"].split())}
        for measure, n in {**words, "characters_added": len(row["text"]) - len(row["caption"])}.items():
            counts[measure][row["operator"], str(n)] += 1
        for edit in row["edits"]:
            tenth = min(int(5 * (edit["start"] + edit["end"]) / len(row["caption"])), 9)
            counts["edit_position"][row["operator"], f"{10 * tenth}–{10 * tenth + 10} %"] += 1
    for measure in ("words_caption", "words_negative", "characters_added", "edit_position"):
        found = values(sample[1], table="negatives", measure=measure)
        assert {key: n for key, n in found.items() if n} == counts[measure] and len(first) > 200


def test_the_blind_figures_are_those_of_blind(sample: tuple[str, pa.Table], sample_run: Path) -> None:
    report = measure_run(sample_run, BlindConfig(operators=("noun",))).reports["noun"]
    found = values(sample[1], table="negatives", operator="noun", measure="blind")
    assert found == {("noun", name): value.percent for name, value in report.baselines.items()}
    words = values(sample[1], table="negatives", operator="noun", measure="word_true")
    assert words == {("noun", cue.word): cue.true for cue in report.words}


def pairs(run: Path, table: str) -> set[tuple[str, str]]:
    return {(row["caption"], row["text"]) for row in rows_of(run, table)}


def test_rows_on_the_page_are_rows_of_the_run_beside_the_other_captions_of_their_image(sample, sample_run):
    shown_page = Page(sample[0])
    shown = shown_page.shown
    operators = {row["operator"] for row in rows_of(sample_run, "negatives")}
    assert 6 * len(operators) - 12 < len(shown["made"]) <= 6 * len(operators)  # swaps are rare
    assert set(shown["made"]) <= pairs(sample_run, "negatives")
    assert 0 < len(shown["controls"]) <= 12 and set(shown["controls"]) <= pairs(sample_run, "positives")
    proposed, strata = set(), Counter[tuple[str, str]]()
    for row in rows_of(sample_run, "rejections"):
        edited = "".join(piece.text for piece in pieces(row["caption"], row["edits"]) if piece.kind != "old")
        proposed.add((row["caption"], edited))
        strata[row["operator"], row["reason"]] += 1
    assert set(shown["refused"]) <= proposed
    assert len(shown["refused"]) == sum(min(n, 2) for n in strata.values())
    captions = rows_of(sample_run, "captions")
    image = {row["text"]: row["image_id"] for row in captions}
    siblings = []
    for true in (true for rows in shown.values() for true, _ in rows):
        siblings.append(sorted({row["text"] for row in captions if row["image_id"] == image[true]} - {true}))
    assert sorted(map(sorted, shown_page.siblings)) == sorted(siblings) and all(siblings)


def test_photos_stand_in_the_page_scaled_down_and_none_is_from_outside_the_folder(tmp_path: Path) -> None:
    paths = {"p000": "../secret.jpg", "p001": "/etc/p.jpg", "p002": "a\\..\\b.jpg", "p003": "broken.jpg"}
    paths["p004"] = "absent.jpg"

    def edit(captions: Rows, negatives: Rows) -> None:
        for row in captions:
            row["image"] = paths.get(row["image_id"], row["image"])

    run = changed(tmp_path, edit)
    folder = write_images(tmp_path / "images", [f"p{i:03d}.jpg" for i in range(5, 24)])
    write_images(tmp_path, ["secret.jpg"])
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff no photo")
    Image.new("RGB", (1500, 1000)).save(folder / "p007.jpg")
    html, _ = audited(run, tmp_path / "audit", images=folder, n=500, blind=False)
    photos = Page(html)
    shown = {}
    for attributes in (attributes for tag, attributes in photos.elements if tag == "img"):
        assert set(attributes) == {"src", "width", "height", "alt"}
        kind, _, data = (attributes["src"] or "").partition(",")
        assert kind == "data:image/jpeg;base64"
        shown[(attributes["alt"] or "").removeprefix("The image of ")] = base64.b64decode(data)
    assert set(shown) == {f"p{i:03d}" for i in range(5, 24)}
    large, small = (Image.open(io.BytesIO(shown[name])) for name in ("p007", "p005"))
    assert large.size == (320, 213) and small.size == (16, 12)
    assert "No photo was found for 5 images." in photos.text
    assert photos.text.count("no photo\n") == sum(row["image_id"] in paths for row in rows_of(run, "negatives"))


def test_the_page_needs_nothing_else(sample: tuple[str, pa.Table]) -> None:
    html, _ = sample
    page = Page(html)
    assert not {tag for tag, _ in page.elements} & {"link", "img", "iframe", "object", "embed", "base", "form"}
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#")
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(a["content"] for t, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    scripts = f"script-src 'sha256-{digest}' 'strict-dynamic'"
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; {scripts}"
    assert not re.search(r"https?:|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)


def test_the_same_run_gives_the_same_bytes(toy: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(toy, tmp_path / "elsewhere"))
    html, _ = audited(toy, tmp_path / "first", n=6)
    audited(moved, tmp_path / "again", n=6)
    first = content(tmp_path / "first")
    assert first == content(tmp_path / "again") and {PAGE, TABLE} < set(first)
    other, _ = audited(moved, tmp_path / "other", n=6, seed=1, blind=False)
    assert Page(other).shown["made"] != Page(html).shown["made"]
    assert str(tmp_path) not in html and not re.search(r"\b20\d\d-\d\d-\d\d|\d\d:\d\d:\d\d", html)


def test_markup_stays_text(tmp_path: Path) -> None:
    def edit(captions: Rows, negatives: Rows) -> None:
        for row in [*captions, *negatives]:
            for name in {"text", "caption", "operator", "replacement"} & row.keys():
                row[name] = f"{row[name]} {MARKUP}"
        for row in negatives:
            row["edits"][0]["new"] = row["replacement"]
            row["negative_id"] = f"{row['caption_id']}#{row['operator']}:{row['negative_id'][-1]}"

    html, _ = audited(changed(tmp_path, edit), tmp_path / "audit")
    page = Page(html)
    tags = [tag for tag, _ in page.elements]
    assert "img" not in tags and tags.count("style") == tags.count("script") == 1
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert all(true.endswith(MARKUP) and false.endswith(MARKUP) for true, false in page.shown["made"])
    assert len(page.shown["made"]) == 24 and page.text.count(MARKUP) > 50


def searchable(folder: Path) -> list[Any]:
    """The images in the files that the page searches."""
    packed = [re.fullmatch(r'unpack\("([\w+/=]+)"\);\n', path.read_text()) for path in sorted(folder.glob("rows/*.js"))]
    return [image for one in packed if one for image in json.loads(zlib.decompress(base64.b64decode(one[1])))]


def test_what_can_be_searched_is_all_of_a_run(sample_run: Path, sample: tuple[str, pa.Table], folder: Path) -> None:
    images = searchable(folder)
    captions = [(row["caption_id"], row["text"]) for row in rows_of(sample_run, "captions")]
    assert [tuple(caption) for image in images for caption in image[1]] == captions
    found = Counter((of_image[row[0]][0], row[1], row[2]) for _, of_image, rows in images for row in rows)
    expected = Counter[tuple[str, str, str]]()
    for table in ("negatives", "positives", "rejections"):
        rows = rows_of(sample_run, table)
        expected.update((row["caption_id"], row.get("reason", table), row["operator"]) for row in rows)
    assert found == expected


def test_a_large_run_is_searched_in_random_images_or_not_at_all(toy: Path, tmp_path: Path) -> None:
    audited(toy, tmp_path, blind=False)
    images = searchable(tmp_path)
    html, _ = audited(toy, tmp_path, blind=False, search=200)
    some = searchable(tmp_path)
    assert [image for image in images if image in some] == some and len(images) / 4 < len(some) < len(images)
    assert f"It knows {len(some)} of the 24 images" in Page(html).text
    html, _ = audited(toy, tmp_path, blind=False, search=0)
    assert not searchable(tmp_path) and "<script" not in html and not list((tmp_path / "rows").iterdir())


def test_refined_rows_are_set_beside_all(refined_run: Path, tmp_path: Path) -> None:
    html, table = audited(refined_run, tmp_path)
    kept = rows_of(refined_run, "refined")
    assert values(table, table="refined", measure="covered") == {("attribute", ""): len(kept)}
    assert ("attribute", "n-gram regression") in values(table, table="refined", measure="blind")
    assert "What negcap refine kept" in html
    tiles = re.findall(r"<dt>([^<]*)</dt><dd>[0-9.]+ %<small>(\w+), ", html)
    assert [label for label, _ in tiles] == ["Best text-only guess", "The same, refined"]
    assert tiles[1][1] == "attribute" != tiles[0][1]
    html, _ = audited(refined_run, tmp_path, refined=True, n=500, blind=False)
    assert set(Page(html).shown["made"]) == pairs(refined_run, "refined") != pairs(refined_run, "negatives")


def test_a_split_is_shown_alone(toy: Path, tmp_path: Path) -> None:
    whole = audited(toy, tmp_path / "whole", blind=False)[1]
    html, table = audited(toy, tmp_path / "test", splits=("test",), n=500, blind=False)
    assert values(table, measure="images")[("", "")] == 9 < values(whole, measure="images")[("", "")]
    wanted = {row["text"] for row in rows_of(toy, "negatives") if row["split"] == "test"}
    assert {false for _, false in Page(html).shown["made"]} == wanted
    assert values(table, measure="rows")[("numeral", "")] == 36
    assert "Only the split test." in html
    with pytest.raises(ValueError, match="split must be one of 'test', 'train' in .*, was: 'val'"):
        audited(toy, tmp_path / "val", splits=("val",))


def test_bad_runs_are_one_line_and_leave_nothing(toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Path(shutil.copytree(toy, tmp_path / "run"))
    (tmp_path / "file").write_text("")
    shutil.rmtree(run / "negatives")
    for arguments, said in (
        ([toy, "--refined"], f"has no refined negatives yet: run negcap refine {toy}"),
        ([toy, "--images", tmp_path / "none"], f"images must be a folder, was: {tmp_path / 'none'}"),
        ([toy, "--output", tmp_path / "file"], "output must be a folder"),
        ([run], "has no negatives yet: "),
    ):
        assert main(["audit", *map(str, arguments), "--quiet"]) == 2
        shown = capsys.readouterr()
        assert shown.out == "" and shown.err.count("\n") == 1 and said in shown.err
    assert not (run / "audit").exists() and not (toy / "audit").exists()


def test_uses_join_both_sides_of_a_word() -> None:
    rows = [
        ("red", "ride", "", "ride.n.01", 2),
        ("ride", "run", "ride.v.01", "", 3),
        ("run", "ride", "", "ride.v.01", 1),
        ("", "ride", "", "ride.n.01", 2),
        ("a | b", "b | a", "", "", 9),  # only exchanged
    ]
    change = pd.DataFrame(rows, columns=[*figures.CHANGE, "n"])
    found = figures.word_changes(change, {("ride", "verb"): 70, ("red", "attribute"): 30})
    assert [list(use) for use in found] == [
        ["ride", None, 0, 4], ["ride", 70, 3, 1], ["run", None, 1, 3], ["red", 30, 2, 0],
    ]  # fmt: skip
    assert [list(one) for one in figures.exchanges(change)[:2]] == [["a | b", "b | a", 9, 0], ["ride", "run", 3, 1]]


def blindness(**right: int | None) -> Blindness:
    """By operator, how many of 60 pairs the word log-odds get right, if none all of the 20 pairs that there are."""
    results = {}
    for name, number in right.items():
        pairs = 20 if number is None else 60
        results[name] = report(pairs // 2, pairs, name, odds=(20 if number is None else number, pairs))
    return Blindness(results)


CUED, EVEN, FEW = 55, 30, None  # right pairs of 60
REFINED = {"negatives": blindness(noun=CUED, verb=CUED)}


@pytest.mark.parametrize(("tables", "kind", "said", "command"), [
    ({"negatives": blindness(noun=CUED, verb=EVEN)}, "high", "recognize the negatives of noun", "negcap refine RUN"),
    ({"negatives": blindness(noun=5)}, "high", "models recognize the negatives of noun", "negcap refine RUN"),
    ({"negatives": blindness(noun=33)}, "good", "models do not recognize the negatives", "negcap publish RUN"),
    ({"negatives": blindness(noun=FEW)}, "few", "No operator has the 50 pairs", ""),
    ({}, "few", "It was not measured", "negcap audit RUN"),
    ({**REFINED, "refined": blindness(noun=EVEN, verb=FEW)}, "good",
     "After negcap refine, text-only models do not recognize the negatives of noun", "negcap publish RUN --refined"),
    ({**REFINED, "refined": blindness(noun=EVEN, verb=CUED)}, "high",
     "After negcap refine, text-only models recognize the negatives of verb", "--operator NAME"),
])  # fmt: skip
def test_the_verdict_is_that_of_the_refined_negatives_and_says_what_to_do(tables, kind, said, command):
    verdict = page.verdict_on(tables)
    assert (verdict.kind, verdict.command) == (kind, command) and said in verdict.headline
