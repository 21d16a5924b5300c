from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from negcap.augment.balance import BALANCED, BOUND, exchanges, fit_factors
from negcap.augment.caption import Caption, by_image, from_parses
from negcap.augment.evidence import batches
from negcap.augment.generate import NegativesConfig, generate_for_images
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.pipelines.engine.tables import WholeTable, hash_table, read_table
from negcap.pipelines.stages.balance import TRAIN, BalanceConfig, first_images, fit, sample_shard
from negcap.pipelines.stages.build import configure
from tests.augment.fixtures import sample_lexicon, sample_parses


@pytest.fixture(scope="module")
def images() -> list[list[Caption]]:
    return by_image(from_parses(sample_parses()))[:50]


def imbalance(operator: str, images: list[list[Caption]], lexicon: Lexicon) -> float:
    """The sum over words of how much oftener one side has it than the other, as a share, among first negatives by three
    seeds: a sample by one is mostly chance.
    """
    left, entered = Counter[str](), Counter[str]()
    for seed in range(3):
        config = NegativesConfig(operators=(operator,), seed=seed, per_family=1)
        for captions in batches(images):
            for made in generate_for_images(captions, lexicon, config).results:
                for row in made[operator].accepted:
                    left[row.replaced] += 1
                    entered[row.replacement] += 1
    return sum(abs(left[word] - entered[word]) for word in left | entered) / left.total()


def factors(kind: str, images: Sequence[Sequence[Caption]], lexicon: Lexicon) -> dict[tuple[str, bool], float]:
    found = exchanges(images, lexicon, kinds=[kind])[kind]
    return fit_factors(kind, lexicon.entries(kind).names, found)


def test_balanced_entries_enter_as_often_as_they_leave(images):
    lexicon = sample_lexicon()
    before = imbalance("noun", images, lexicon)
    nouns = lexicon.nouns.rebalanced(factors("noun", images, lexicon))
    # within the limit of p_unnatural few words can take the place of one, so not all can be evened out
    assert imbalance("noun", images, replace(lexicon, by_kind={**lexicon.by_kind, "noun": nouns})) < 0.9 * before


def test_fitting_leaves_no_trace_and_repeats_itself(images):
    lexicon = sample_lexicon()
    once, again = factors("preposition", images[:20], lexicon), factors("preposition", images[:20], lexicon)
    assert once == again
    assert (lexicon.entries("preposition").balance == 1.0).all()
    assert factors("preposition", images[19::-1], lexicon) == pytest.approx(once)
    assert set(once) == {(name, False) for name in lexicon.entries("preposition").names}
    assert np.abs(np.log(list(once.values()))).max() <= BOUND + 1e-9
    assert set(factors("verb", [], lexicon).values()) == {1.0}  # without captions all weigh the same


def parses(splits: dict[str, str]) -> pa.Table:
    """Three captions of each image."""
    rows = [(f"{image}:{n}", image, split) for image, split in splits.items() for n in range(3)]
    return pa.table(list(zip(*rows, strict=True)), ["caption_id", "image_id", "split"])


def test_the_sample_is_of_whole_images_whatever_the_shards():
    table = parses({f"i{n}": "" for n in range(20)})
    config = BalanceConfig(balance_sample=10)
    whole = first_images([sample_shard(table, config)], config.balance_sample)
    parts = [sample_shard(table.slice(start, 15), config) for start in range(0, 60, 15)]
    assert first_images(parts[::-1], config.balance_sample).equals(whole)
    assert whole.num_rows == 12 and set(Counter(whole["image_id"].to_pylist()).values()) == {3}
    table = parses({"a": "test", "b": "train", "c": "test", "d": "restval"})  # train splits come first
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

    assert fitted(BalanceConfig()) == stored and {row["kind"] for row in stored} == set(BALANCED)
    assert fitted(BalanceConfig(kinds=("verb",))) == [row for row in stored if row["kind"] == "verb"]


@pytest.mark.parametrize(("options", "kinds"), [
    ({}, ("noun", "numeral", "preposition")),
    ({"preset": "univse"}, ("attribute", "noun", "preposition", "verb")),
    ({"operators": ("verb",)}, ("verb",)),
    ({"preset": "all"}, tuple(sorted(BALANCED))),
    ({"preset": "vse-c-paper"}, ()),
])  # fmt: skip
def test_the_kinds_that_operators_sample_are_balanced(options, kinds):
    assert configure("balance", {"lexicon": "own", **options}).kinds == kinds
    assert configure("balance", {"lexicon": "reference", **options}).kinds is None
