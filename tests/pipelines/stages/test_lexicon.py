"""Which counts the tables lexicon, truth and balance of a run are made of, and that it is said."""

import json
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from negcap.augment.data import data_path
from negcap.augment.lexicon.entries import REFERENCE_CAPTIONS
from negcap.pipelines.cli import main
from negcap.pipelines.engine.run import Execution
from negcap.pipelines.engine.stage import run_in_memory
from negcap.pipelines.report.summary import truth_lines
from negcap.pipelines.resources.reference import write_reference
from negcap.pipelines.sample import path
from negcap.pipelines.stages import balance, build
from negcap.pipelines.stages.build import LEXICON_VERBS, configure, make_in_memory
from negcap.pipelines.stages.lexicon import CAPTIONS, captions_counted
from negcap.pipelines.stages.truth import TruthConfig, sample_shard
from negcap.schemas.captions import CAPTIONS as CAPTIONS_SCHEMA
from negcap.schemas.captions import LEXICON
from tests.conftest import HERE
from tests.runs import caption_row, write_run

REFERENCE = {verb: data_path("reference_lexicon") / f"{verb}.parquet" for verb in LEXICON_VERBS}


def captions(sentences: list[str], per_image: int = 1) -> pa.Table:
    rows = [caption_row(text, f"{n // per_image:03}", n % per_image) for n, text in enumerate(sentences)]
    return pa.Table.from_pylist(rows, CAPTIONS_SCHEMA)


def count_of(table: pa.Table, entry: str) -> float:
    """The total count of a noun; 0 if the lexicon does not have it."""
    rows = table.filter((pc.field("kind") == "noun") & (pc.field("entry") == entry) & (pc.field("place") == ""))
    return sum(rows["count"].to_pylist())


@pytest.mark.parametrize("options, own, backed_off", [
    ({}, True, True),
    ({"lexicon": "auto"}, True, True),
    ({"lexicon": "own"}, True, False),
    ({"min_count": 3}, True, False),
    ({"lexicon": "auto", "balance_sample": 500}, True, False),
    ({"lexicon": "reference"}, False, False),
])  # fmt: skip
def test_what_the_option_lexicon_means(options, own, backed_off):
    for verb in LEXICON_VERBS:
        config = configure(verb, options)
        assert config.lexicon == ("own" if own else REFERENCE[verb])
        assert config.backoff == (REFERENCE[verb] if backed_off else None)


def test_a_small_corpus_adds_its_words_to_the_reference():
    reference = pq.read_table(REFERENCE["lexicon"])
    sentences = ["A panda eats bamboo.", "A panda sits on a rock.", "The panda sleeps in a tree."] * 2
    made = make_in_memory(captions(sentences, per_image=3), {"operators": ("noun",)})
    assert made["lexicon"].schema.equals(LEXICON)
    weight = REFERENCE_CAPTIONS / captions_counted(REFERENCE["lexicon"])
    assert count_of(reference, "panda") == 0 and count_of(made["lexicon"], "panda") == 6
    assert count_of(made["lexicon"], "rock") == pytest.approx(2 + weight * count_of(reference, "rock"))
    assert count_of(made["lexicon"], "bamboo") == count_of(reference, "bamboo") == 0  # 2 uses do not suffice
    assert count_of(made["lexicon"], "dog") == pytest.approx(weight * count_of(reference, "dog"))
    truth = made["truth"].to_pandas()
    of_panda = truth[truth["entry"] == "panda"]
    assert of_panda[of_panda["said"] == "panda"]["count"].sum() == 0  # said in fewer than 20 pairs of captions
    counted = of_panda[(of_panda["kind"] == "noun") & (of_panda["said"] == "")]
    assert list(counted["count"]) == [12]  # ordered pairs of captions, two images of three
    shipped = pq.read_table(REFERENCE["truth"]).to_pandas()
    assert [*map(list, truth["coefficients"].dropna())] == [*map(list, shipped["coefficients"].dropna())]
    assert made["balance"].to_pydict() == pq.read_table(REFERENCE["balance"]).to_pydict()
    assert made["negatives"].num_rows


def test_a_far_corpus_has_its_own_words_truth_and_balance():
    things, places = ("ships", "bridges", "towers", "pipes", "barges"), ("river", "road", "harbor", "factory")
    wheres = [f"{place} of a {what}" for what in ("village", "refinery", "port") for place in places]
    whats = [f"{how} {thing}" for thing in things for how in ("Many", "Some large")]
    sentences = [f"{what} are near the {where}." for where in wheres for what in whats]
    # Without limits of ratings: raters hold most things of such scenes possible beside each other.
    limits = {"preferred_unnatural": 1.0, "max_unnatural": 1.0, "max_compatible": 1.0}
    made = make_in_memory(captions(sentences, per_image=2), {"operators": ("noun",)} | limits)
    nouns = made["lexicon"].filter((pc.field("kind") == "noun") & (pc.field("place") == ""))["entry"].to_pylist()
    text = " ".join(sentences)
    assert {"ship", "barge", "refinery"} <= set(nouns) and all(noun in text for noun in nouns)
    assert "harbor" in made["truth"]["said"].to_pylist() and "dog" not in made["truth"]["said"].to_pylist()
    assert set(made["balance"].filter(pc.field("kind") == "noun")["entry"].to_pylist()) == set(nouns)
    replaced_by = set(made["negatives"]["replacement"].to_pylist())
    assert replaced_by and replaced_by <= set(nouns)


def test_with_as_many_captions_as_its_sample_the_balance_is_the_corpus_own():
    notes = sorted(json.loads(path().read_text("utf-8"))["annotations"], key=itemgetter("image_id", "id"))
    sentences = [note["caption"] for note in notes[:60]]
    made = make_in_memory(captions(sentences, per_image=5), {"operators": ("noun",)})
    reference = pq.read_table(REFERENCE["balance"])
    assert made["balance"].to_pydict() == reference.to_pydict()  # 60 captions are few
    config = configure("balance", {"operators": ("noun",)}).model_copy(update={"balance_sample": 60})
    own = run_in_memory(balance.STAGE, made, config).tables["balance"]
    nouns = reference.filter(pc.equal(reference["kind"], "noun"))["entry"]  # the kind that the operator draws
    assert set(own["entry"].to_pylist()) >= set(nouns.to_pylist())
    assert own.to_pydict() != reference.to_pydict()


def test_a_shipped_lexicon_says_how_many_captions_it_was_counted_on(sample_run, tmp_path):
    write_reference(sample_run, tmp_path, "the sample")
    assert captions_counted(tmp_path / "lexicon.parquet") == 200
    assert pq.read_schema(tmp_path / "truth.parquet").metadata[b"source"] == b"the sample"
    pq.write_table(pq.read_table(tmp_path / "lexicon.parquet").replace_schema_metadata(None), tmp_path / "bare.parquet")
    with pytest.raises(ValueError, match=f"bare.parquet must have {CAPTIONS}"):
        captions_counted(tmp_path / "bare.parquet")


def test_a_blended_lexicon_is_not_shipped(sample_copy, tmp_path):
    assert main(["build", "--output", str(sample_copy), "--only", "lexicon", "--overwrite", *HERE]) == 0
    with pytest.raises(ValueError, match="must be built with --set lexicon=own, its table lexicon was not"):
        write_reference(sample_copy, tmp_path / "out", "the sample")


def test_the_sample_of_truth_is_of_images_with_siblings():
    images = [f"{number}" for number in range(40)] + ["a", "a", "b", "b"]
    rows = {"caption_id": [*map(str, range(44))], "image_id": images, "split": [""] * 44}
    sample = sample_shard(pa.table(rows), TruthConfig(truth_sample=4))
    assert sorted(sample["image_id"].to_pylist()) == ["a", "a", "b", "b"]


@pytest.mark.parametrize(("captions", "origin", "lines"), [(1, "reference", 1), (2, "reference and own", 0)])
def test_runs_say_where_p_true_is_from(captions, origin, lines, tmp_path):
    texts = {"park": "A dog runs in a park.", "couch": "Two cats sleep on a red couch."}
    rows = [caption_row(text, image, number) for image, text in texts.items() for number in range(captions)]
    run = write_run(tmp_path / "run", captions=rows)
    build.build(None, run, {"operators": ("noun",)}, Execution())
    metadata = pq.read_schema(run / "negatives/part-00000.parquet").metadata
    assert metadata[b"p_true_from"].decode() == origin
    assert len(truth_lines(run)) == lines
    is_reference = pq.read_table(run / "truth").equals(pq.read_table(REFERENCE["truth"]))
    assert is_reference == (origin == "reference")
    if lines:
        assert "p_true comes from built-in statistics alone" in truth_lines(run)[0]
