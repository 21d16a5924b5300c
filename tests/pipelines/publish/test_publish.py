"""What is published of a run: the rows, the images, the folder, the card; and what bad input is answered."""

import csv
import hashlib
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from negcap.pipelines.engine.manifest import manifest_path
from negcap.pipelines.engine.storage import move
from negcap.pipelines.publish.formats import FORMATS
from negcap.pipelines.publish.publish import publish
from negcap.pipelines.score.test_set import ScoreConfig, read_test_set
from negcap.pipelines.tables.images import Box, Images
from tests import runs
from tests.cases import cases_of
from tests.conftest import ROOT
from tests.pipelines.publish.fixtures import (
    IMAGES,
    PROVENANCE,
    TESTS,
    Rows,
    changed,
    config,
    published,
    rows,
    write_images,
    write_run,
)
from tests.runs import caption_row, negative_row
from tests.tables import content, replace_shard

unmeasured = pytest.mark.usefixtures("unmeasured")


def publish_over(run: Path, output: Path, format: str = "sugarcrepe", **given: Any) -> None:
    publish(run, output, config(format, **given), overwrite=True, say=lambda _: None)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return write_images(tmp_path / "images", [f"p{i:03d}.jpg" for i in range(IMAGES)])


# which rows


@unmeasured
def test_shards_do_not_matter(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", *rows(IMAGES, TESTS), images=100)
    many = write_run(tmp_path / "many", *rows(IMAGES, TESTS), images=2)
    assert published(one, tmp_path / "a") == published(many, tmp_path / "b")


@unmeasured
def test_what_several_operators_made_is_published_once_and_positives_never(tmp_path: Path) -> None:
    def doubled(captions: Rows, negatives: Rows) -> None:
        for row in [row for row in negatives if row["operator"] == "noun"]:
            again = {name: row[name].replace("noun", "object") for name in ("operator", "family", "negative_id")}
            negatives.append({**row, **again, "text": row["text"] + " Alone." * (row["draw"] > 0)})
            negatives.append({**row, "operator": "paraphrase", "family": "positive"})

    run = changed(tmp_path, doubled)
    files = published(run, tmp_path / "out", per_operator=3)
    pairs = [json.loads(files[f"{name}.json"]).values() for name in ("noun", "object")]
    nouns, objects = ({(pair["caption"], pair["negative_caption"]) for pair in some} for some in pairs)
    assert len(nouns) == 3 * 5 * TESTS and len(objects) == 2 * 5 * TESTS and not nouns & objects
    firsts = published(run, tmp_path / "first")  # an operator whose first draw another has made gives its next
    assert len(json.loads(firsts["object.json"])) == len(json.loads(firsts["noun.json"])) == 5 * TESTS
    with pytest.raises(ValueError, match="operator must be one of noun, numeral, object in .*, was: paraphrase"):
        published(run, tmp_path / "other", operators=("paraphrase",))


# images


SPACED = ("Bild\u202f1.png", "写真\u30001.png", "nb\u00a0sp.png", "tief/a b.png")
UNFIT = ("../a.jpg", "a\\..\\b.jpg", "/etc/a.jpg", "soft\u00adhyphen.jpg", "zero\u200bwidth.jpg")


@unmeasured
def test_names_with_spaces_of_any_width_are_published_and_unfit_ones_left_out(images: Path, tmp_path: Path) -> None:
    """Runs that were not ingested by negcap may have any names."""

    def named(captions: Rows, negatives: Rows) -> None:
        ids = list(dict.fromkeys(row["image_id"] for row in captions if row["split"] == "test"))
        names = dict(zip(ids, (*SPACED, *UNFIT), strict=False))
        for row in captions:
            row["image"] = names.get(row["image_id"], row["image"])

    write_images(images, [*SPACED])
    said: list[str] = []
    publish(changed(tmp_path, named), tmp_path / "out", config("coco", images=images), say=said.append)
    assert f"left out: {len(UNFIT)} images with a name that cannot be published: image must " in "\n".join(said)
    shown = json.loads((tmp_path / "out" / "captions_test.json").read_text("utf-8"))["images"]
    assert sorted(image["file_name"] for image in shown) == sorted(SPACED)


def test_images_are_found_by_path_name_or_stem(tmp_path: Path) -> None:
    folder = Images(write_images(tmp_path / "images", ["val/a.jpg", "b.png"]))
    found = [folder.find(name) for name in ("val/a.jpg", "val/a", "b", "x/b.png", "c")]
    assert found == ["val/a.jpg", "val/a.jpg", "b.png", "b.png", None]
    assert folder.box("b.png") == Box(0, 0, 17, 12)
    (tmp_path / "images" / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    assert folder.find("gone.jpg") is None
    with pytest.raises(ValueError, match=r"inside the image folder, .* was: '../outside/d.jpg'"):
        folder.find("../outside/d.jpg")
    (tmp_path / "images" / "e.jpg").write_text("no image")
    with pytest.raises(ValueError, match=r"e.jpg: must be an image file"):
        folder.box("e.jpg")


@unmeasured
def test_missing_images_are_named_counted_and_skipped(run: Path, images: Path, tmp_path: Path) -> None:
    for name in ("p022.jpg", "p023.jpg"):
        (images / name).unlink()
    with pytest.raises(FileNotFoundError, match="2 images missing from .*: p022.jpg, p023.jpg; --set skip_"):
        published(run, tmp_path / "out", images=images)
    files = published(run, tmp_path / "out", images=images, skip_missing=True)
    assert b"p022.jpg" not in files["noun.json"] and b"p021.jpg" in files["noun.json"]
    assert b"10 captions were left out because their image file was not found" in files["README.md"]


# the folder, the card


@unmeasured
def test_only_what_was_published_is_overwritten_and_only_when_asked(run: Path, images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    files = published(run, out, "negclip", images=images, copy_images=True)
    paths = [line.split(b"\t")[2].decode() for line in files["test.tsv"].splitlines()[1:]]
    assert set(paths) == {name for name in files if name.startswith("images/")} and len(set(paths)) == TESTS
    assert files[paths[0]] == (images / paths[0].removeprefix("images/")).read_bytes()
    (out / "mine").mkdir()
    (out / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="output must be an empty folder"):
        published(run, out)
    publish_over(run, out, operators=("noun",))
    names = {path.name for path in out.iterdir()}
    assert names == {"noun.json", "README.md", "croissant.json", "SHA256SUMS", "mine", "mine.txt"}
    (tmp_path / "elsewhere").mkdir()
    (out / "images").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(ValueError, match="leads out of the output folder"):
        publish_over(run, out, images=images, copy_images=True)
    assert not any((tmp_path / "elsewhere").iterdir())


@unmeasured
def test_a_publication_killed_while_it_is_written_is_replaced_by_the_next(tmp_path, monkeypatch):
    class Killed(BaseException):
        """As SIGKILL: nothing that Python does after it happens."""

    run = write_run(tmp_path / "run", *rows(4, 2))
    expected = published(run, tmp_path / "expected", "coco")
    moves = len(published(run, tmp_path / "interrupted", "negclip"))
    for done in range(moves):
        out, left = tmp_path / str(done), iter(range(done))
        published(run, out)

        def moved(file: Path, target: Path) -> None:
            if next(left, None) is None:  # noqa: B023 - called before the next turn
                raise Killed
            move(file, target)

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr("negcap.pipelines.publish.publish.move", moved)
            patch.setattr("negcap.pipelines.engine.storage.shutil.rmtree", lambda *_, **__: None)
            publish_over(run, out, "negclip")
        publish_over(run, out, "coco")
        assert content(out) == expected, done
        assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_the_documentation_lists_every_format() -> None:
    page = (ROOT / "docs/pages/reference/formats.md").read_text(encoding="utf-8")
    table = page.partition("## Formats that are published")[2].partition("## ")[0]
    listed = re.findall(r"^\| `(.+?)` \| .+ \| (\S+) \|$", table, re.M)
    shown = {name: "–" if not f.negatives else "all" if f.per_operator is None else "1" for name, f in FORMATS.items()}
    assert dict(listed) == shown


def test_the_card_tells_what_how_and_how_many(run: Path, images: Path, tmp_path: Path) -> None:
    files = published(run, tmp_path / "out", "aro", name="Toys", images=images)
    card = files["README.md"].decode()
    assert card.startswith('---\nlicense: "cc0-1.0"\nlanguage: ["en"]\npretty_name: "Toys"\n---\n# Toys\n')
    assert "45 English captions of 9 images with 81 negative captions (noun, numeral)" in card
    assert "| test | 9 | 45 | 45 | 36 |" in card and re.search(r"\| noun \| 45 \| 50.0 \(", card)
    assert "| negcap\\_version | `0.0.1` |" in card
    shown = re.findall(r"^\| (noun|numeral) \| (A .*) \| (A .*) \|$", card, re.M)
    assert [name for name, *_ in shown] == ["noun"] * 5 + ["numeral"] * 5 and all(a != b for _, a, b in shown)
    listed = dict(re.findall(r"\| `(.+?)` \| [\d,]+ \| `([0-9a-f]{64})` \|", card))
    assert listed == {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != "README.md"}
    sums = dict(line.split("  ")[::-1] for line in files["SHA256SUMS"].decode().splitlines())
    assert sums == {name: listed[name] for name in ("noun.json", "numeral.json")}


@unmeasured
def test_markup_in_captions_stays_text(tmp_path: Path) -> None:
    def mark_up(captions: Rows, negatives: Rows) -> None:
        for row in [*captions, *negatives]:
            for name in {"text", "caption", "replaced"} & row.keys():
                row[name] = row[name].replace("A ", "A <script>alert(1)</script> | `x` ")

    files = published(changed(tmp_path, mark_up), tmp_path / "out", license="<b>mine</b> | x")
    card = files["README.md"].decode()
    assert "<script" not in card.replace("`<script`", "") and "&lt;b&gt;mine&lt;/b&gt; \\| x" in card
    assert json.loads(files["noun.json"])["0"]["caption"].startswith("A <script>alert(1)</script> | `x` ")


# bad input


def test_bad_input_is_named_and_nothing_is_written(run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    for message, settings in cases_of(__file__)["bad_input"].items():
        given = {name: tmp_path / value if name == "images" else value for name, value in settings.items()}
        output = tmp_path / given.pop("output", "out")
        with pytest.raises((ValueError, OSError), match=re.escape(message.format(tmp=tmp_path))) as error:
            published(run, output, **given)
        assert "\n" not in str(error.value)
        assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_run_that_lacks_something_is_named(run: Path, tmp_path: Path) -> None:
    manifest = manifest_path(run / "negatives")
    whole = manifest.read_text()
    manifest.write_text(whole.replace('"complete": true', '"complete": false'))
    with pytest.raises(ValueError, match="negatives is not complete: "):
        published(run, tmp_path / "out")
    manifest.write_text(whole)
    shard = run / "negatives" / "part-00000.parquet"
    replace_shard(shard, pq.read_table(shard).drop_columns(["replaced"]))
    with pytest.raises(ValueError, match="^negatives/part-00000.parquet lacks the column replaced$"):
        published(run, tmp_path / "out")
    shutil.rmtree(run / "negatives")
    with pytest.raises(FileNotFoundError, match="has no negatives yet: "):
        published(run, tmp_path / "out")


@pytest.mark.parametrize("name, value", [("split", "../../up"), ("operator", "a/b"), ("family", "..")])
def test_no_name_leads_out(name: str, value: str, tmp_path: Path) -> None:
    def rename(captions: Rows, negatives: Rows) -> None:
        for row in [*captions, *negatives]:
            if name in row and row["split"] == "test":
                row[name] = value

    with pytest.raises(ValueError, match="must be able to name a file"):
        published(changed(tmp_path, rename), tmp_path / "out", "vse-c", split=())


# denials


TRUE = {"not helmet": "without a helmet", "hat | not helmet": "with a hat but no helmet"}
FALSE = {  # by what they contradict
    "hat": ("not hat", "without a hat"),
    "not helmet": ("helmet", "with a helmet"),
    "hat | not helmet": ("helmet | not hat", "with a helmet but no hat"),
}


@pytest.fixture
def denials(tmp_path: Path) -> Path:
    """Every caption says "with a hat" at the end, and has all true and false denials."""
    tables: dict[str, Rows] = {"captions": [], "negatives": [], "positives": []}
    for image in range(20):
        stem = f"A dog with the number {image}"
        caption = caption_row(f"{stem} with a hat", f"p{image:03d}", split="test")
        tables["captions"].append(caption)
        for draw, (denied, (replacement, said)) in enumerate(FALSE.items()):
            changes = {"replaced": denied, "replacement": replacement}
            tables["negatives"].append(negative_row(caption, "negation", f"{stem} {said}", draw, **changes))
        for draw, (replacement, said) in enumerate(TRUE.items()):
            changes = {"replaced": "hat", "replacement": replacement, "family": "positive"}
            positive = negative_row(caption, "true_negation", f"{stem} {said}", draw, **changes)
            tables["positives"].append({**positive, "positive_id": positive["negative_id"]})
    return runs.write_run(tmp_path / "denials", shards=2, provenance=PROVENANCE, **tables)


@unmeasured
def test_questions_are_about_two_nouns_in_three_templates(denials: Path, tmp_path: Path) -> None:
    text = published(denials, tmp_path / "mcq", "negbench")["test.csv"].decode()
    templates = {"positive": "with a hat", "negative": "without a helmet", "hybrid": "with a hat but no helmet"}
    answers = Counter[str]()
    for row in csv.DictReader(text.splitlines()):
        options = [row[f"caption_{n}"] for n in range(4)]
        true = options.pop(int(row["correct_answer"]))
        said = templates[row["correct_answer_template"]]
        assert true.endswith(f" {said}")
        stem = true.removesuffix(said)
        assert {option.removeprefix(stem) for option in options} == {said for _, said in FALSE.values()}
        answers[row["correct_answer_template"]] += 1
    assert set(answers) == set(templates)
    for source in (denials, tmp_path / "mcq" / "test.csv"):  # as `negcap score` reads a run, and what is published
        tests = read_test_set(source, ScoreConfig(splits=("test",)))
        asked = tests.questions
        assert Counter(asked.templates[number] for number in asked.template) == answers
        assert asked.false.shape == (answers.total(), 3)
        denies = [tests.texts[text] for _, text in tests.captions[tests.denies]]
        assert denies and all("without" in said or "no helmet" in said for said in denies)
