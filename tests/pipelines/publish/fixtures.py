"""A small run with two splits and its images, to publish from."""

from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any, NamedTuple

from PIL import Image

from negcap.pipelines.cli import main
from negcap.pipelines.publish.formats import PublishConfig
from negcap.pipelines.publish.publish import publish
from negcap.pipelines.quality.accuracy import accuracy
from negcap.pipelines.quality.bias.baselines import BlindReport
from tests import runs
from tests.conftest import HERE
from tests.runs import Row, caption_row, negative_row
from tests.tables import content

Rows = list[Row]

IMAGES, TESTS = 24, 9
TOYS, TOY_TESTS = 14, 5
COLOURS = "red green blue yellow black white".split()
THINGS = "kite boat lamp bench drum cart sled tent".split()
PLACES = "by the river|in the yard|on the hill|under the bridge|at the fair".split("|")
PROVENANCE = {"negcap_version": "0.0.1", "seed": "7", "parser": "en_toy-1", "config": '{"per_family":3}'}


def sentence(colour: str, thing: str, place: str, number: int) -> str:
    return f"A {colour} {thing} with the number {number} stands {place}."


def rows(images: int, tests: int, draws: int = 3) -> tuple[Rows, Rows]:
    """Captions and negatives of `images` images, the last `tests` of them the test split; five captions an image.

    noun and place are exchanged alike often in both directions; numeral says "dozen" in every negative.
    """
    rng = Random(3)
    captions: Rows = []
    negatives: Rows = []
    for i in range(images):
        split = "train" if i < images - tests else "test"
        thing = rng.choice(THINGS)
        for n, place in enumerate(PLACES):
            colour, number = rng.choice(COLOURS), 100 + 7 * i + n
            caption = caption_row(sentence(colour, thing, place, number), f"p{i:03d}", n, split)
            captions.append(caption)
            others = rng.sample([other for other in THINGS if other != thing], draws)
            negatives += [replaced(caption, "noun", k, thing, other) for k, other in enumerate(others)]
            if n != 4:
                negatives.append(replaced(caption, "numeral", 0, str(number), "dozen"))
    return captions, negatives


def replaced(caption: Row, operator: str, draw: int, old: str, new: str) -> Row:
    """The negative of a caption in which a word is another; numerals have fewer measures than nouns."""
    start = caption["text"].index(old)
    nouns = {"p_true": (draw + 1) / 100, "concreteness": 0.75} if operator == "noun" else {}
    columns = {"edits": [{"start": start, "end": start + len(old), "old": old, "new": new}], "replaced": old}
    columns |= {"replacement": new, "plausibility": -1.25 - draw, **nouns}
    return negative_row(caption, operator, caption["text"].replace(old, new, 1), draw, **columns)


def write_run(run: Path, captions: Rows, negatives: Rows, images: int = 7) -> Path:
    """Write the tables, `images` images a shard."""
    shards = -(-len({row["image_id"] for row in captions}) // images)
    return runs.write_run(run, shards=shards, provenance=PROVENANCE, captions=captions, negatives=negatives)


def write_images(folder: Path, names: list[str]) -> Path:
    """A picture of 16 + i times 12 pixels for the i-th name."""
    for i, name in enumerate(names):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16 + i, 12), (9 * i % 256, 80, 160)).save(file)
    return folder


def config(format: str = "sugarcrepe", **given: Any) -> PublishConfig:
    """Settings that publish the test split whatever can be guessed without its images."""
    return PublishConfig(format=format, **{"license": "CC0-1.0", "allow_blind": True, "split": ("test",), **given})


def published(run: Path, output: Path, format: str = "sugarcrepe", **given: Any) -> dict[str, bytes]:
    """What is published, by path."""
    publish(run, output, config(format, **given), say=lambda _: None)
    return content(output)


def changed(tmp_path: Path, edit: Any) -> Path:
    """A run whose captions and negatives `edit(captions, negatives)` has changed in place."""
    captions, negatives = rows(IMAGES, TESTS)
    edit(captions, negatives)
    return write_run(tmp_path / "changed", captions, negatives)


def refine_attributes(run: Path, copy: Path) -> Path:
    """A copy of a run of which some negatives of the operator attribute are kept as refined."""
    options = ["--operator", "attribute", "--set", "rounds=1", *HERE]
    assert main(["refine", str(copytree(run, copy)), *options]) == 0
    return copy


def report(right: int, pairs: int, name: str = "noun", **others: tuple[int, int]) -> BlindReport:
    """A report whose n-gram regression is right on so many pairs; the other baselines are at chance, or as given."""
    names = ("format_rule", "shorter", "ngrams", "odds", "language_model")
    counts = {name: (pairs // 2, pairs) for name in names} | {"ngrams": (right, pairs)} | others
    return BlindReport(name, true_cues=(), false_cues=(), **{name: accuracy(*counts[name]) for name in names})


def size(file: str | Path) -> tuple[int, int]:
    with Image.open(file) as image:
        return image.size


class Toy(NamedTuple):
    run: Path
    images: Path
    captions: list[dict[str, Any]]
    negatives: list[dict[str, Any]]

    def texts(self, operator: str = "", split: str = "test") -> list[tuple[str, str, str]]:
        """(image, caption, negative) of every negative, as they were written into the run."""
        image = {row["image_id"]: row["image"] for row in self.captions}
        kept = [row for row in self.negatives if row["split"] == split and operator in ("", row["operator"])]
        return [(image[row["image_id"]], row["caption"], row["text"]) for row in kept]

    def first(self, operator: str) -> list[tuple[str, str, str]]:
        """The same of first draws."""
        ids = [n for n in self.negatives if n["split"] == "test" and n["operator"] == operator]
        return [row for row, n in zip(self.texts(operator), ids, strict=True) if n["negative_id"].endswith(":0")]

    def publish(self, output: Path, format: str, **given: Any) -> Path:
        published(self.run, output, format, **{"images": self.images, **given})
        return output
