"""Factors by which words enter negatives as often as they leave them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from negcap.augment.balance import BALANCED, BOUND, exchanges, fit_factors
from negcap.augment.evidence import batches
from negcap.augment.generate import NegativesConfig, generate_for_images
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.pipelines.engine.tables import WholeTable, hash_table, read_table
from negcap.pipelines.stages.balance import TRAIN, BalanceConfig, first_images, fit, sample_shard
from negcap.pipelines.stages.build import configure
from tests.augment.fixtures import sample_images, sample_lexicon


def imbalance(lexicon: Lexicon) -> float:
    """The sum over words of how much oftener one side has it than the other, as a share, among first negatives by three
    seeds: a sample by one is mostly chance.
    """
    left, entered = Counter[str](), Counter[str]()
    for seed in range(3):
        config = NegativesConfig(operators=("noun",), seed=seed, per_family=1)
        for images in batches(sample_images(30)):
            for results in generate_for_images(images, lexicon, config).results:
                left.update(row.replaced for row in results["noun"].accepted)
                entered.update(row.replacement for row in results["noun"].accepted)
    return sum(abs(left[word] - entered[word]) for word in left | entered) / left.total()


def factors(kind: str, images: Sequence, lexicon: Lexicon) -> dict[tuple[str, bool], float]:
    found = exchanges(images, lexicon, kinds=[kind])[kind]
    return fit_factors(kind, lexicon.entries(kind).names, found)


def test_balanced_entries_enter_as_often_as_they_leave():
    lexicon = sample_lexicon()
    nouns = lexicon.nouns.rebalanced(factors("noun", sample_images(30), lexicon))
    # Within the limit of p_unnatural few words can take the place of one, so not all can be evened out.
    assert imbalance(replace(lexicon, by_kind={**lexicon.by_kind, "noun": nouns})) < 0.9 * imbalance(lexicon)


def test_fitting_leaves_no_trace_and_hangs_on_no_order():
    lexicon, images = sample_lexicon(), sample_images(20)
    fitted = factors("preposition", images, lexicon)
    assert factors("preposition", images[::-1], lexicon) == pytest.approx(fitted)
    assert (lexicon.entries("preposition").balance == 1.0).all()
    assert set(fitted) == {(name, False) for name in lexicon.entries("preposition").names}
    assert np.abs(np.log(list(fitted.values()))).max() <= BOUND + 1e-9
    assert set(factors("verb", [], lexicon).values()) == {1.0}  # without captions all weigh the same


def parses(splits: dict[str, str]) -> pa.Table:
    """Three captions of each image."""
    rows = [(f"{image}:{n}", image, split) for image, split in splits.items() for n in range(3)]
    return pa.table(list(zip(*rows, strict=True)), ["caption_id", "image_id", "split"])


def test_the_sample_is_of_whole_images_whatever_the_shards_and_of_the_train_splits_first():
    table = parses({f"i{n}": "" for n in range(20)})
    config = BalanceConfig(balance_sample=10)
    whole = first_images([sample_shard(table, config)], 10)
    parts = [sample_shard(table.slice(start, 15), config) for start in range(0, 60, 15)]
    assert first_images(parts[::-1], 10).equals(whole)
    assert whole.num_rows == 12 and set(Counter(whole["image_id"].to_pylist()).values()) == {3}
    table = parses({"a": "test", "b": "train", "c": "test", "d": "restval"})
    sampled = first_images([sample_shard(table, BalanceConfig(balance_sample=6))], 6)
    assert set(sampled["split"].to_pylist()) == {"train", "restval"} and set(sampled[TRAIN].to_pylist()) == {0}


def test_the_factors_are_the_same_however_the_sample_is_cut(sample_run, monkeypatch):
    stored = next(read_table(sample_run, "balance")).to_pylist()
    monkeypatch.setattr("negcap.pipelines.stages.balance.PART_CAPTIONS", 17)
    shared = [WholeTable(sample_run / name, hash_table(sample_run, name)) for name in ("lexicon", "truth")]
    table = first_images([sample_shard(part, BalanceConfig()) for part in read_table(sample_run, "parses")], 10_000)

    def fitted(config: BalanceConfig) -> list[dict[str, Any]]:
        def here(function: Callable[..., pa.Table], calls: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
            assert len(calls) > 5
            return [function(*tables, config, *shared) for tables in calls]

        return fit(table, config, here, *shared).tables["balance"].to_pylist()

    assert {row["kind"] for row in stored} == set(BALANCED)
    kinds = ("verb", "preposition")
    assert fitted(BalanceConfig(kinds=kinds)) == [row for row in stored if row["kind"] in kinds]


@pytest.mark.parametrize(("options", "kinds"), [
    ({}, ("noun", "numeral", "preposition")),
    ({"operators": ("verb",)}, ("verb",)),
    ({"preset": "all"}, tuple(sorted(BALANCED))),
    ({"preset": "vse-c-paper"}, ()),
])  # fmt: skip
def test_the_kinds_that_operators_sample_are_balanced(options, kinds):
    assert configure("balance", {"lexicon": "own", **options}).kinds == kinds
    assert configure("balance", {"lexicon": "reference", **options}).kinds is None
