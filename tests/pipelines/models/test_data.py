"""Captions, negatives and batches of a run as tensors."""

from pathlib import Path
from shutil import copytree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator

from negcap.pipelines.models import data
from negcap.pipelines.models.batches import NegativeSampler, shuffled_batches
from negcap.pipelines.models.sampling import NegativePool
from negcap.pipelines.models.vocabulary import SPECIALS, WordVocabulary, build_vocabulary, tokenize
from negcap.schemas.captions import CAPTIONS
from tests.pipelines.models.worlds import write_table, write_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"), [("train", 30), ("test", 10)])


def test_split_captions(world: Path) -> None:
    captions = data.read_captions(world)
    there = torch.ones(40, dtype=torch.bool)
    train, held = data.split_captions(captions, ["train"], "val", 5, there)
    assert (len(train), len(held)) == (50, 10)
    assert not set(captions.image[train].tolist()) & set(captions.image[held].tolist())
    assert (
        len(data.split_captions(captions, ["train"], "val", None, there).validation) == 2 * 3
    )  # a tenth of the images
    there[captions.image[0]] = False
    train, held = data.split_captions(captions, ["train", "none"], "test", 5, there)
    assert (len(train), len(held)) == (58, 20)
    for splits, validation, images, message in (
        (["trian"], "test", 5, "have none: the splits are 'train', 'test'"),
        (["train"], "val", 0, "no split 'val' and validation_images is 0"),
        (["train"], "val", 100, "validation_images must be fewer than the 29 to train on, were: 100"),
    ):
        with pytest.raises(ValueError, match=message):
            data.split_captions(captions, splits, validation, images, there)


def write_captions(run: Path, *columns: dict[str, str]) -> None:
    row = {"image": "b.png", "split": "test", "origin": "human", "text": "A hen.", "language": "en"}
    rows = [{**row, "caption_id": f"x:{n}", **given} for n, given in enumerate(columns)]
    write_table(run, "captions", pa.Table.from_pylist(rows, CAPTIONS))


def test_captions_beyond_an_images_fifth_are_left_out(tmp_path: Path) -> None:
    write_captions(tmp_path, *({"image_id": image} for image in "ababbaaaabac"))  # 7, 4 and 1 captions
    captions, there = data.read_captions(tmp_path), torch.ones(3, dtype=torch.bool)
    assert captions.to_evaluate("test", there, None, 5).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 9, 11]
    assert captions.to_evaluate("test", there, 2, 1).tolist() == [0, 1]
    assert captions.to_evaluate("test", there, None).tolist() == list(range(12))


def test_captions_of_several_languages(tmp_path: Path) -> None:
    said = [("a", "de"), ("a", "en"), ("b", "en"), ("b", "fr"), ("c", "de"), ("c", "en")]
    write_captions(tmp_path, *({"image_id": image, "language": code} for image, code in said))
    captions = data.read_captions(tmp_path, languages=("en", "de"))
    assert captions.ids == ["x:0", "x:1", "x:2", "x:4", "x:5"] and captions.language.tolist() == [1, 0, 0, 1, 0]
    assert captions.to_evaluate("test", torch.ones(3, dtype=torch.bool), None, 1, "de").tolist() == [0, 3]
    captions.require_every_language(torch.tensor([0, 1, 3, 4]), "to train on")
    with pytest.raises(ValueError, match=r"b has none in: de \(1 of 3 images lack"):
        captions.require_every_language(torch.arange(5), "to train on")
    with pytest.raises(ValueError, match="languages must be of the captions in .*, de, en, fr, were: it"):
        data.read_captions(tmp_path, languages=("en", "it"))


def test_a_run_is_encoded_in_its_order(world: Path) -> None:
    captions = data.read_captions(world)
    vocabulary = build_vocabulary(captions.texts.to_pylist(), 4)
    corpus = data.encode_run(world, captions, {"en": vocabulary})
    rows = pq.read_table(world / "negatives").to_pylist()
    column = {name: [row[name] for row in rows] for name in rows[0]}
    texts = [*captions.texts.to_pylist(), *column["text"]]
    assert len(corpus.texts.offsets) == len(texts) + 1
    for n in range(0, len(texts), 7):
        tokens = corpus.texts.tokens[corpus.texts.offsets[n] : corpus.texts.offsets[n + 1]]
        words = [word if word in vocabulary.ids else "<unk>" for word in tokenize(texts[n])]
        assert [vocabulary.words[k] for k in tokens] == ["<start>", *words, "<end>"]
    assert [captions.ids[n] for n in corpus.negative_caption.tolist()] == column["caption_id"]
    assert [corpus.operators[n] for n in corpus.operator.tolist()] == column["operator"]
    assert [corpus.families[n] for n in corpus.family.tolist()] == column["family"]
    assert corpus.draw.tolist() == column["draw"]
    for name, flags in (("replaced", corpus.was_plural), ("replacement", corpus.is_plural)):
        assert flags.tolist() == [word in ("two", "three") for word in column[name]] and flags.any()
    assert corpus.concreteness.tolist() == pytest.approx([value or 0.0 for value in column["concreteness"]])
    assert corpus.made_by(["noun", "shuffle"]).tolist() == [operator == "noun" for operator in column["operator"]]


def test_what_is_trained_on_inserts_no_unknown_word(world: Path) -> None:
    captions = data.read_captions(world)
    lacking = {"horse", "horses", "three"}
    words = dict.fromkeys(tokenize(" ".join(captions.texts.to_pylist())))
    vocabulary = {"en": WordVocabulary((*SPECIALS, *(word for word in words if word not in lacking)))}
    rows = pq.read_table(world / "negatives").to_pylist()
    known = [not lacking & set(tokenize(row["text"])) - set(tokenize(row["caption"])) for row in rows]
    assert data.encode_run(world, captions, vocabulary).known.tolist() == known and not all(known)
    chosen = data.Selection(("noun", "numeral"), (), ("train",), to_train=True)
    corpus = data.encode_run(world, captions, vocabulary, selection=chosen)
    selected = [n for n, row in enumerate(rows) if row["split"] == "train" and row["family"] in chosen.families]
    assert corpus.row.tolist() == [n for n in selected if known[n]] and corpus.known.all()
    for name in corpus.operators:
        good = [known[n] for n in selected if rows[n]["operator"] == name]
        assert corpus.unknown_words[name] == (len(good), good.count(False)) and not all(good)
    unknown = 100 * (1 - len(corpus.row) / len(selected))
    assert data.unknown_words_line(corpus.unknown_words, "x").startswith(f"{unknown:.1f} %")
    assert not data.unknown_words_line({"noun": data.UnknownWordCounts(1000, 10)}, "x")
    for caption in range(len(captions.ids)):
        own = corpus.negative_caption[corpus.starts[caption] : corpus.starts[caption + 1]]
        assert set(own.tolist()) <= {caption}


def test_a_run_is_encoded_once_and_damage_is_told(world: Path, tmp_path: Path) -> None:
    run = copytree(world, tmp_path / "run", ignore=lambda folder, names: {"encoded"})
    captions = data.read_captions(run)
    words = {"en": build_vocabulary(captions.texts.to_pylist(), 1)}
    first = data.encode_run(run, captions, words)
    (folder,) = (run / "encoded").glob("texts-*")
    beside = sum(getattr(first, name).element_size() for name in data.OF_NEGATIVES) + first.texts.offsets.element_size()
    assert beside <= 40  # bytes for each negative beside its words
    written = (folder / "tokens").stat()
    assert torch.equal(data.encode_run(run, captions, words).texts.tokens, first.texts.tokens)
    assert (folder / "tokens").stat().st_mtime_ns == written.st_mtime_ns
    with (folder / "tokens").open("r+b") as file:
        file.truncate(40)
    with pytest.raises(ValueError, match=r"texts-\w+.arrays is damaged \(tokens must have .*: delete it"):
        data.encode_run(run, captions, words)


OWNERS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.booleans()), max_size=40).map(sorted)


@settings(deadline=None, max_examples=50)
@given(OWNERS, st.integers(1, 9), st.integers(0, 99), st.booleans(), st.booleans())
def test_sampled_negatives_belong_to_their_captions_and_are_distinct(negatives, k, seed, even, all_wanted):
    caption, family = (torch.tensor([row[n] for row in negatives], dtype=torch.long) for n in (0, 1))
    wanted = torch.tensor([row[2] or all_wanted for row in negatives], dtype=torch.bool)
    starts = torch.searchsorted(caption, torch.arange(6))
    pool = NegativePool(starts, k, family if even else None, None if all_wanted else wanted)
    batch = torch.tensor([3, 0, 4, 3])
    which, mask = pool.sample(batch, Generator().manual_seed(seed))
    assert which.shape == mask.shape == (4, k) and len(pool) == int(wanted.sum())
    for number, rows, present in zip(batch.tolist(), which, mask, strict=True):
        sampled = rows[present].tolist()
        assert present.tolist() == sorted(present.tolist(), reverse=True)
        assert len(set(sampled)) == len(sampled) == min(k, int((wanted & (caption == number)).sum()))
        assert wanted[sampled].all() and set(caption[sampled].tolist()) <= {number}


def test_sampled_negatives_have_their_own_families_and_concreteness() -> None:
    family, concreteness, positions = torch.tensor([1, 0, 1]), torch.tensor([0.1, 0.2, 0.3]), torch.tensor([5, 7])
    pool = NegativePool(torch.tensor([0, 2, 3]), 2, None)
    sampled = NegativeSampler(pool, family, positions, concreteness, 3).sample(torch.tensor([1, 0]), Generator())
    assert sampled.owner.tolist() == [0, 1, 1] and sorted(sampled.rows.tolist()) == [0, 1, 2]
    assert torch.equal(sampled.concreteness, concreteness[sampled.rows])
    assert torch.equal(sampled.family, positions[family[sampled.rows]])


def test_families_are_equally_likely_whatever_their_sizes() -> None:
    family = torch.tensor([0] * 20 + [1, 1], dtype=torch.int8)
    batch, generator = torch.zeros(4000, dtype=torch.long), Generator().manual_seed(0)
    for families, share in ((family, 0.5), (None, 2 / 22)):
        pool = NegativePool(torch.tensor([0, 22]), 1, families)
        rows = pool.sample(batch, generator).which[:, 0]
        assert (rows >= 20).double().mean().item() == pytest.approx(share, abs=0.03)
        assert torch.bincount(rows, minlength=22)[:20].min() > 50  # 100 expected, or 182


def test_batches_contain_every_caption_once() -> None:
    batches = list(shuffled_batches(torch.arange(100, 121), 4, Generator().manual_seed(0)))
    assert [len(batch) for batch in batches] == [4] * 5  # the 21st alone would have no negative
    seen = torch.cat(batches).tolist()
    assert len(set(seen)) == 20 and seen != sorted(seen)
