"""The functions of the package against the command, which must make the same rows."""

import doctest
import json
import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import negcap
from negcap.pipelines.api import augmenter, captions, functions
from negcap.pipelines.cli import main
from negcap.pipelines.ingestion.grouping import IngestConfig
from negcap.pipelines.sample import path
from negcap.pipelines.tables.pairs import p_good
from tests.pipelines.publish.fixtures import rows, write_run

DOG, DOGS, BICYCLE = "A dog sleeps on a red couch.", "Two dogs run on grass.", "A man rides a bicycle."


def sample(images: int = 24) -> pd.DataFrame:
    notes = pd.DataFrame(json.loads(path().read_text("utf-8"))["annotations"])
    frame = notes[notes["image_id"].isin(sorted(set(notes["image_id"]))[:images])]
    frame = frame.sort_values(["image_id", "id"])[["image_id", "caption"]].reset_index(drop=True)
    return frame.assign(split=["train" if i % 3 else "test" for i in frame["image_id"]])


def built_by_command(folder: Path, frame: pd.DataFrame, *flags: str) -> Path:
    """The run that the command makes of some captions."""
    frame.to_csv(folder / "captions.csv", index=False)
    here = ["--output", str(folder / "run"), "--scheduler", "synchronous", "--quiet"]
    assert main(["build", str(folder / "captions.csv"), *here, *flags]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = ["--preset", "all", "--set", "lexicon=own", "--seed", "5", "--set", "min_count=3"]
    return built_by_command(tmp_path_factory.mktemp("built"), sample(), *flags)


def as_written(run: Path, table: str) -> pd.DataFrame:
    return pq.read_table(run / table / "part-00000.parquet").to_pandas()


def table_of(given: object) -> pa.Table:
    """The table of captions that negatives are made of."""
    return captions.captions_table(captions.captions_as_arrow_table(given, IngestConfig()), IngestConfig()).captions


def test_the_rows_are_those_that_the_command_writes(built, tmp_path):
    options = {"operators": "all", "lexicon": "own", "seed": 5, "min_count": 3}
    made, refused = negcap.negatives(sample(), rejections=True, **options)
    pd.testing.assert_frame_equal(made.drop(columns="p_good"), as_written(built, "negatives"))
    assert made["p_good"].tolist() == p_good(pa.Table.from_pandas(made)).tolist() and made["p_good"].nunique() > 100
    pd.testing.assert_frame_equal(refused, as_written(built, "rejections"))
    run = negcap.build(sample(), tmp_path / "run", scheduler="synchronous", **options)
    pd.testing.assert_frame_equal(negcap.read(run), made)


@pytest.mark.parametrize("lexicon", ["auto", "built"])
def test_command_and_function_agree_on_a_few_captions(lexicon, built, tmp_path):
    sentences = ["Two dogs run across the grass.", "A woman sits on a red couch.", "A woman holds a cup on a table."]
    given = str(built) if lexicon == "built" else lexicon
    frame = pd.DataFrame({"image": range(3), "caption": sentences})
    run = built_by_command(tmp_path, frame, "--set", f"lexicon={given}")
    made = negcap.negatives(sentences, lexicon=given)
    assert {"0", "1"} <= set(made["image_id"])
    pd.testing.assert_frame_equal(made.drop(columns="p_good"), as_written(run, "negatives"))
    if lexicon == "built":
        for table in ("lexicon", "truth", "balance"):
            pd.testing.assert_frame_equal(as_written(run, table), as_written(built, table))


def test_other_tables_have_the_same_captions():
    datasets = pytest.importorskip("datasets")
    grouped = sample().groupby("image_id", as_index=False).agg({"caption": list, "split": "first"})  # one cell an image
    arrow = pa.Table.from_pandas(sample(), preserve_index=False)
    for given in (arrow, datasets.Dataset.from_pandas(sample()), grouped):
        assert table_of(given).equals(table_of(sample()))


def test_captions_that_cannot_be_kept_are_told():
    with pytest.warns(UserWarning, match="no_text 1; the first is that at position 1"):
        assert table_of([DOG, "", BICYCLE])["image_id"].to_pylist() == ["0", "2"]
    with pytest.warns(UserWarning, match="without the name of an image: 2"):  # a table of captions alone is such a list
        assert table_of(pd.DataFrame({"caption": [DOG, BICYCLE]}, index=[7, 8]))["image_id"].to_pylist() == ["0", "1"]
    with pytest.raises(ValueError, match="no_text 2"):
        negcap.negatives(["", " "])
    with pytest.raises(ValueError, match="no_text"):
        negcap.negatives([DOG, ""], strict=True)


PICTURES = {"image": [{"bytes": b"\x89PNG", "path": "a.jpg"}] * 2 + [{"bytes": b"\x89PNG", "path": None}]}


def test_embedded_images_are_known_by_their_paths_and_others_by_their_position():
    datasets = pytest.importorskip("datasets")
    table = pa.table({**PICTURES, "text": [DOG, DOGS, BICYCLE]})
    features = datasets.Features({"image": datasets.Image(), "text": datasets.Value("string")})
    for given in (table, table.to_pandas(), datasets.Dataset(table.cast(features.arrow_schema))):
        with pytest.warns(UserWarning, match="captions without the name of an image: 1; each is taken"):
            made = table_of(given)
        assert made["caption_id"].to_pylist() == ["table:a:0", "table:a:1", "table:2:0"]
    with pytest.warns(UserWarning, match="name of an image"):
        assert "bytes" not in str(captions.captions_as_arrow_table(table, IngestConfig()).schema)


def test_rows_are_joined_to_those_of_the_caller_by_columns_to_keep():
    mine = pd.DataFrame({"image": ["b", "a", "b"], "caption": [DOG, "", DOGS], "text": ["x", "y", "z"]})
    mine.index = pd.Index([10, 20, 30])
    with pytest.warns(UserWarning, match="at position 1"):
        made, refused = negcap.negatives(
            mine.reset_index(), keep_columns="index", caption_column="caption", lexicon="reference", rejections=True
        )
    assert set(made["index"]) == {10, 30} and "index" in refused
    assert (mine["caption"][made["index"]].to_numpy() == made["caption"]).all()


@pytest.mark.parametrize(("captions", "settings", "error", "message"), [
    ("A dog.", {}, TypeError, "captions must be a list of sentences"),
    ([1, 2], {}, TypeError, "one was: 1"),
    ([DOG], {"operators": "nouns"}, ValueError, "operators must be a preset .* was: nouns; did you mean noun"),
    ([DOG], {"operators": ["uniform_nou"]}, ValueError, "one of (?!.*uniform.*was:).* mean uniform_noun"),
    ([DOG], {"max_tru": 1}, TypeError, "among (?![^;]*backoff).*; was: max_tru; did you mean max_true"),
    ([DOG], {"lexicon": "nowhere"}, FileNotFoundError, "lexicon must be own, reference, auto or a run"),
    ([DOG], {"min_count": 3, "lexicon": "reference"}, ValueError, "min_count needs lexicon own"),
    ([DOG], {"preset": "negation", "operators": "noun"}, ValueError, "preset and operators exclude each"),
    (pd.DataFrame({"image": [1], "caption": [DOG], "text": [1]}),
     {"keep_columns": ["text"], "caption_column": "caption"}, ValueError, "name of a column of captions, was: text"),
    (pd.DataFrame({"image": [1], "words": [DOG]}), {}, ValueError, "found .*; name it: caption_column="),
    (pa.table({"photo": [{"size": 3}], "text": [DOG]}), {}, ValueError,
     r"no image column found \(columns: photo\.size, text\); name it: image_column=$"),
])  # fmt: skip
def test_bad_input(captions, settings, error, message):
    with pytest.raises(error, match=message):
        negcap.negatives(captions, **settings)


def test_read_chooses_rows_and_columns(built):
    everything = negcap.read(built)
    pd.testing.assert_series_equal(negcap.read(built, columns=["p_good"])["p_good"], everything["p_good"])
    assert "p_good" not in negcap.read(built, "rejections")
    chosen = negcap.read(built, operator=["noun", "verb"], split="test", columns=["operator", "split", "text"])
    wanted = everything[everything["operator"].isin(["noun", "verb"]) & (everything["split"] == "test")]
    assert len(chosen) and list(chosen["text"]) == list(wanted["text"])
    assert negcap.read(built, operator="uniform_noun", split="test").empty  # it exists, but was not asked for
    for given, message in (
        ({"table": "captions", "operator": "noun"}, "captions must have the column operator"),
        ({"operator": "nouns"}, "operator must be one of noun, .*, was: nouns; did you mean noun?"),
        ({"split": ["train", "tset"]}, r"split must be one of train, test, was: tset; did you mean test\?"),
        ({"table": "parsed"}, "has no parsed"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            negcap.read(built, **given)


def test_a_run_without_splits_is_unsplit(tmp_path):
    captions, negatives = ([{**row, "split": ""} for row in table] for table in rows(images=2, tests=1))
    run = write_run(tmp_path / "run", captions, negatives)
    assert len(negcap.read(run, split="unsplit")) == len(negatives)
    with pytest.raises(ValueError, match="split must be one of unsplit, was: train"):
        negcap.read(run, split="train")


@pytest.mark.parametrize("module", [functions, augmenter])
def test_every_example_of_a_docstring_runs(module, tmp_path):
    names: dict[str, Any] = {**vars(module), "tmp": tmp_path, "negcap": negcap}
    runner = doctest.DocTestRunner()
    # `read` reads the run that `build` builds.
    for example in sorted(doctest.DocTestFinder().find(module), key=lambda example: "read" in example.name):
        example.globs = names
        runner.run(example, clear_globs=False)
    assert runner.summarize() == (0, runner.tries) and runner.tries >= 2


TEXTS = ["Two dogs run across the grass.", "A man rides a red bicycle.", "Hello.", "Three children sit on a bench."]


def test_an_augmenter_draws_by_text_and_seed_alone():
    augment = negcap.Augmenter(n=3)
    made = augment(TEXTS)
    assert made[2] == [] and all(0 < len(set(negatives)) <= 3 for negatives in made[:2])
    assert pickle.loads(pickle.dumps(augment))(TEXTS[::-1]) == made[::-1]
    assert augment(TEXTS, seed=1) == negcap.Augmenter(n=3, seed=1)(TEXTS) != made
    assert augment([]) == []


def test_an_augmenter_gives_the_operators_turns_and_nothing_twice():
    noun, numeral = (negcap.Augmenter(n=1, operators=name)(TEXTS[:1])[0] for name in ("noun", "numeral"))
    assert negcap.Augmenter(n=2, operators=["noun", "numeral"])(TEXTS[:1])[0] == [*noun, *numeral]
    (made,) = negcap.Augmenter(n=200, operators="all")(["A cat next to a dog."])
    assert len({negative.lower() for negative in made}) == len(made) > 5
    assert "A dog next to a cat." not in made  # no paraphrases


def test_an_augmenter_spares_what_siblings_say():
    augment = negcap.Augmenter(n=300, operators="noun")
    texts = ["A dog sleeps.", "A boy lies on the floor."]
    alone, told = (augment(texts, images=images)[0] for images in (None, ["a", "a"]))
    boys = {text for text in alone if "boy" in text.split()}
    assert boys and not boys & set(told)


@pytest.mark.parametrize(("settings", "texts", "images", "message"), [
    ({"n": 0}, [], None, "n must be >= 1, was: 0"),
    ({"lexicon": "auto"}, [], None, "lexicon must be reference or a run"),
    ({"lexicon": "nowhere"}, [], None, "was: nowhere"),
    ({"cloze": "nowhere"}, [], None, "cloze must be the file of a cloze model, was: .*nowhere"),
    ({"operators": "paraphrase"}, [], None, "operators must make negatives, was: paraphrase"),
    ({}, "A dog runs.", None, "texts must be a list of sentences, was: str"),
    ({}, ["A dog runs.", 5], None, "texts must be sentences .*, one was: 5"),
    ({}, ["A dog runs."], [], "images must have the length of texts"),
])  # fmt: skip
def test_what_an_augmenter_refuses(settings, texts, images, message):
    with pytest.raises((ValueError, FileNotFoundError, TypeError), match=message):
        negcap.Augmenter(**settings)(texts, images=images)


def test_the_package_tells_what_it_has():
    assert negcap.__version__.count(".") == 2 and set(negcap.__all__) <= set(dir(negcap))
    with pytest.raises(AttributeError, match="module negcap has no attribute negate"):
        negcap.negate  # noqa: B018
    with pytest.raises(TypeError, match="sentence must be a str, was: int"):
        negcap.graph(5)  # type: ignore[arg-type]
