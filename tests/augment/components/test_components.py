from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from negcap.augment.caption import Caption, from_parses
from negcap.augment.components.sampling import NOTHING, Ragged, Sampler
from negcap.augment.components.vocabulary import (
    PAPER_RARE,
    are_incompatible,
    inverses,
    relations_are_incompatible,
    tabulate,
    verb_and_preposition,
)
from negcap.augment.language import semantic_classes
from negcap.augment.language.coreference import CoreferenceIndex, may_corefer
from negcap.augment.language.semantic_classes import overlaps, prepositions
from negcap.augment.lexicon.lexicon import default_min_count
from negcap.augment.mentions import mentioned_attributes, mentioned_nouns
from negcap.augment.scene_graph import SceneGraph, scene_graph
from negcap.augment.slots.verbs import may_be_same
from negcap.pipelines.engine.stage import StageResult
from negcap.pipelines.stages.components import ComponentsConfig, add_counts, choose, count_shard, find_exclusions, read
from negcap.schemas.captions import COMPONENT_EXCLUSIONS, COMPONENT_VOCABULARY, COMPONENTS
from negcap.schemas.fields import check
from tests.augment.fixtures import parse, sample_parses

CONFIG = ComponentsConfig(min_count=3)


@dataclass(frozen=True, eq=False)
class Kept:
    """A WholeTable that is in memory."""

    table: pa.Table

    def read(self) -> pa.Table:
        return self.table


def made(parses: pa.Table, config: ComponentsConfig = CONFIG) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The three tables of one shard."""
    components = read(parses, config).tables["components"]
    vocabulary = chosen([components], config).tables["component_vocabulary"]
    excluded = find_exclusions(parses, config, Kept(vocabulary)).tables["component_exclusions"]
    check(components, COMPONENTS)
    check(vocabulary, COMPONENT_VOCABULARY)
    check(excluded, COMPONENT_EXCLUSIONS)
    return components, vocabulary, excluded


def chosen(parts: Sequence[pa.Table], config: ComponentsConfig = CONFIG) -> StageResult:
    return choose(add_counts([count_shard(part, config) for part in parts], config), config)


@pytest.fixture(scope="module")
def tables() -> tuple[pa.Table, pa.Table, pa.Table]:
    return made(sample_parses())


@pytest.fixture(scope="module")
def images() -> dict[str, list[tuple[Caption, SceneGraph]]]:
    """Every image's captions with their graphs."""
    found: dict[str, list[tuple[Caption, SceneGraph]]] = {}
    for caption in from_parses(sample_parses()):
        found.setdefault(caption.image_id, []).append((caption, scene_graph(caption)))
    return found


def relation_may_be_same(one: str, other: str) -> bool:
    """Whether a caption that states `other` of two things may mean `one`: on~atop, on~sit on; not sit on~stand on."""
    (verb, preposition), (verb2, preposition2) = verb_and_preposition(one), verb_and_preposition(other)
    if one == other or bool(preposition) != bool(preposition2):
        return one == other
    may_be = not verb or not verb2 or may_be_same(verb, verb2)
    return may_be and (not preposition or not prepositions().exclude(preposition, preposition2))


def test_a_row_is_the_graph_of_its_caption() -> None:
    caption = parse(["A man in front of a red car wears the dog's hat."])[0]
    parses = pa.table({"caption_id": ["s:1:0"], "image_id": ["1"], "split": ["train"]})
    (row,) = tabulate(parses, [scene_graph(caption)]).to_pylist()
    assert [(thing["object"], caption.tokens[thing["token"]].text) for thing in row["objects"]] == [
        (word, word) for word in ("man", "car", "dog", "hat")
    ]
    (attribute,) = row["attributes"]
    assert (attribute["attribute"], attribute["object"]) == ("red", "car")
    assert [caption.tokens[attribute[key]].text for key in ("token", "object_token")] == ["red", "car"]
    said = {(r["subject"], r["relation"], r["object"]): [caption.tokens[t].text for t in r["tokens"]]
            for r in row["relations"]}  # fmt: skip
    assert said == {
        ("man", "in front of", "car"): ["in", "front", "of"],
        ("man", "wear", "hat"): ["wears"],
        ("dog", "have", "hat"): [],
    }


def test_rows_hold_every_component_and_counters_are_those_of_the_rows() -> None:
    result = read(sample_parses(), CONFIG)
    rows = result.tables["components"].to_pylist()
    for row, caption in zip(rows, from_parses(sample_parses()), strict=True):
        graph = scene_graph(caption)
        assert row["caption_id"] == caption.caption_id
        assert [thing["object"] for thing in row["objects"]] == [thing.name for thing in graph.objects]
        assert [a["attribute"] for a in row["attributes"]] == [a.value for a in graph.attributes]
        assert [tuple(r["tokens"]) for r in row["relations"]] == [r.tokens for r in graph.relations]
    assert result.counts["captions"] == len(rows)
    for kind in ("objects", "attributes", "relations"):
        assert result.counts[kind] == sum(len(row[kind]) for row in rows) > 0
        assert result.counts[f"without.{kind}"] == sum(not row[kind] for row in rows)
    assert [table.num_rows for table in made(sample_parses().slice(0, 0))] == [0, 0, 0]


def test_the_vocabulary_counts_what_the_components_say(tables: tuple) -> None:
    rows = tables[0].to_pylist()
    pairs = [(a["attribute"], a["object"]) for row in rows for a in row["attributes"]]
    triples = [(r["subject"], r["relation"], r["object"]) for row in rows for r in row["relations"]]
    said = {
        "noun": Counter((thing["object"],) for row in rows for thing in row["objects"]),
        "attribute": Counter(pair[:1] for pair in pairs),
        "attribute_noun": Counter(pairs),
        "relation": Counter(triple[1:2] for triple in triples),
        "triple": Counter(triples),
    }
    for entry in tables[1].to_pylist():
        assert entry["count"] == said[entry["kind"]][tuple(entry["words"])] >= (3 if len(entry["words"]) == 1 else 2)
        assert entry["kind"] != "noun" or entry["words"][0] not in overlaps().vague
    by_kind: dict[str, list[dict]] = {}
    for entry in tables[1].to_pylist():
        by_kind.setdefault(entry["kind"], []).append(entry)
    for its in by_kind.values():  # ids count from the most frequent
        assert [entry["id"] for entry in its] == [*range(len(its))]
        assert its == sorted(its, key=lambda entry: -entry["count"])
    for kind, of in {"attribute_noun": ("attribute", "noun"), "triple": ("noun", "relation", "noun")}.items():
        for entry in by_kind[kind]:
            assert entry["words"] == [by_kind[k][i]["words"][0] for k, i in zip(of, entry["parts"], strict=True)]


def test_rivals_exclude_one_another(tables: tuple) -> None:
    entries = tables[1].to_pylist()
    for kind, excluding in (("attribute", are_incompatible), ("relation", relations_are_incompatible)):
        its = [entry for entry in entries if entry["kind"] == kind]
        assert any(entry["rivals"] for entry in its)
        for entry, other in product(its, its):
            assert (other["id"] in entry["rivals"]) == excluding(other["words"][0], entry["words"][0])
    assert not [entry for entry in entries if entry["kind"] not in ("attribute", "relation") and entry["rivals"]]


PAIRS = {  # function: pairs of words of which it is true, and others
    are_incompatible: ("two/three, wet/dry", "one/two, two/two, two/several, red/pink, two/red"),
    relations_are_incompatible: (
        "on/under, sit on/stand on, sit on/sit under, eat/drive, in front of/behind",
        "on/atop, sit on/on, wear/on, hold/carry, look at/look under, of/for",
    ),
    relation_may_be_same: (
        "on/on, on/atop, on/sit on, sit on/sit atop, hold/carry",
        "sit on/stand on, on/under, wear/on",
    ),
}


@pytest.mark.parametrize("function", PAIRS, ids=lambda function: f"{function.__module__}.{function.__name__}")
def test_which_words_exclude_one_another_or_may_mean_the_same(function: Callable[[str, str], bool]) -> None:
    for expected, pairs in zip((True, False), PAIRS[function], strict=True):
        for one, other in (pair.split("/") for pair in pairs.split(", ")):
            assert function(one, other) == function(other, one) == expected, (one, other)


def test_a_relation_is_a_verb_and_a_preposition() -> None:
    parts = {
        "sit next to": ("sit", "next to"), "on": ("", "on"), "close to": ("", "near"), "wear": ("wear", ""),
        "pick up": ("pick", "up"), "for": ("for", ""),
    }  # fmt: skip
    assert {relation: verb_and_preposition(relation) for relation in parts} == parts
    assert "under" in inverses("sit on") and inverses("wear") == ()


def test_only_the_train_split_is_counted_where_there_is_one() -> None:
    parses = sample_parses()
    splits = ["train" if i < 300 else "test" for i in range(parses.num_rows)]
    marked = parses.set_column(parses.column_names.index("split"), parses.schema.field("split"), pa.array(splits))
    both = chosen([read(marked, CONFIG).tables["components"]])
    alone = chosen([read(marked.slice(0, 300), CONFIG).tables["components"]])
    assert both.counts == alone.counts and both.counts["captions"] == 300 and both.counts["train_only"] == 1
    assert both.tables["component_vocabulary"] == alone.tables["component_vocabulary"]


def test_shards_and_their_order_change_nothing(tables: tuple) -> None:
    parses, cuts = sample_parses(), [0, 150, 300, sample_parses().num_rows]
    parts = [parses.slice(a, b - a) for a, b in zip(cuts, cuts[1:], strict=False)]
    components = [read(part, CONFIG).tables["components"] for part in parts]
    assert pa.concat_tables(components).combine_chunks() == tables[0].combine_chunks()
    Random(1).shuffle(components)
    vocabulary = chosen(components).tables["component_vocabulary"]
    assert vocabulary == tables[1]
    rows = [find_exclusions(part, CONFIG, Kept(vocabulary)).tables["component_exclusions"] for part in parts]
    assert pa.concat_tables(rows).combine_chunks() == tables[2].combine_chunks()


def ragged_of(rows: Iterable[list[int]]) -> Ragged:
    return Ragged.from_lists(pa.array(list(rows), pa.list_(pa.int32())))


@settings(deadline=None)
@given(st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=5), st.integers(0, 2**32))
def test_draws_lie_outside_a_row_or_inside_and_follow_an_order(rows: list[set[int]], seed: int) -> None:
    ragged, rng = ragged_of(map(sorted, rows)), np.random.default_rng(seed)
    wanted, pool, order = rng.integers(0, len(rows), 7), rng.permutation(10)[:6], rng.permutation(10)
    every = set(range(10))
    for drawn, allowed in (
        (ragged.sample_outside(wanted, 20, rng, 10), lambda row: every - row),
        (ragged.sample_from(wanted, 20, rng, pool), lambda row: set(pool.tolist()) - row),
        (ragged.sample_inside(wanted, 20, rng), lambda row: row),
    ):
        for row, some in zip(wanted, drawn, strict=True):
            assert set(some.tolist()) <= (allowed(rows[row]) or {NOTHING})
    for row, drawn in zip(wanted, ragged.sample_first(wanted, 4, order), strict=True):
        first = sorted(rows[row], key=lambda id: order[id])[:4]
        assert drawn.tolist() == [*first, *[NOTHING] * (4 - len(first))]


def test_by_the_papers_rule_any_word_that_no_caption_of_the_image_states_is_false(tables: tuple) -> None:
    sampler, rng = Sampler(*tables, "any"), np.random.default_rng(0)
    rows = tables[0].to_pylist()
    for kind, draw, papers in (("attribute", sampler.attributes, True), ("relation", sampler.relations, False)):
        said: dict[str, set[str]] = {}
        for row in rows:
            said.setdefault(row["image_id"], set()).update(item[kind] for item in row[f"{kind}s"])
        images = [row["image_id"] for row in rows for _ in row[f"{kind}s"]]
        words = set(sampler.words[kind])
        words &= set(semantic_classes.attributes().univse) if papers else words
        drawn = draw(np.arange(len(images)), 200, rng)
        for image, ids in list(zip(images, drawn, strict=True))[:40]:
            assert {sampler.words[kind][id] for id in ids} <= words - said[image]
        assert len({id for ids in drawn for id in ids}) == len(words) > 1
        assert len({id for ids in draw(np.arange(len(images)), 200, rng, 2) for id in ids} - {NOTHING}) == 2


def test_draws_are_uniform() -> None:
    """Over calls, too, though the words of one call share their pool or order."""
    ragged, rng, calls = ragged_of([[], [0, 3, 4, 9], [1]]), np.random.default_rng(0), range(3000)
    row, said, others = np.array([1]), [0, 3, 4, 9], [1, 2, 5, 6, 7, 8]
    for drawn, among in (
        (ragged.sample_outside(row, 6000, rng, 10)[0], others),
        (np.concatenate([ragged.sample_from(row, 2, rng, rng.permutation(10)[:6])[0] for _ in calls]), others),
        (ragged.sample_inside(row, 4000, rng)[0], said),
        (np.concatenate([ragged.sample_first(row, 2, rng.permutation(10))[0] for _ in calls]), said),
    ):
        counts = np.bincount(drawn[drawn != NOTHING], minlength=10)
        assert counts[among].sum() == counts.sum() and np.all(abs(counts[among] - counts.sum() / len(among)) < 180)


@pytest.mark.parametrize("simple", [False, True])
def test_no_sampled_component_is_true_by_a_caption_of_the_image(simple: bool, images: dict) -> None:
    components, vocabulary, excluded = made(sample_parses(), ComponentsConfig(simple=simple, min_count=2))
    sampler, rng = Sampler(components, vocabulary, excluded), np.random.default_rng(1)
    rows = components.to_pylist()
    nouns = sampler.nouns(np.arange(len(rows)), 16, rng)
    assert nouns.shape == (len(rows), 16) and (nouns >= 0).all()
    for row, drawn in zip(rows, nouns, strict=True):
        said = frozenset().union(*(mentioned_nouns(caption) for caption, _ in images[row["image_id"]]))
        assert not [id for id in drawn if CoreferenceIndex((sampler.words["noun"][id],)).with_any(frozenset(said)).all]

    def negatives(kind: str, draw: Callable, n: int) -> Iterator[tuple[str, str, str, str]]:
        """Image, word, noun and a negative of the word, of every pair or triple."""
        every = [(row["image_id"], one[kind], one["object"]) for row in rows for one in row[f"{kind}s"]]
        drawn = draw(np.arange(len(every)), n, rng)
        assert (drawn[:, 0] >= 0).mean() > 0.35
        for one, ids in zip(every, drawn, strict=True):
            yield from ((*one, sampler.words[kind][id]) for id in set(ids.tolist()) - {NOTHING})

    for image, word, thing, new in negatives("attribute", sampler.attributes, 8):
        assert are_incompatible(new, word)
        for caption, graph in images[image]:
            names = {o.token: o.name for o in graph.objects}
            said = {(names[a.object], a.value) for a in graph.attributes} | mentioned_attributes(caption)
            of = [value for owner, value in said if owner in ("", thing) or may_corefer(owner, thing)]
            assert not [value for value in of if semantic_classes.may_be_same(new, value)]
    for image, word, thing, new in negatives("relation", sampler.relations, 4):
        assert relations_are_incompatible(new, word)
        for _, graph in images[image]:
            names = {o.token: o.name for o in graph.objects}
            of = [r.name for r in graph.relations if may_corefer(names[r.object], thing)]
            assert simple or not [name for name in of if relation_may_be_same(new, name)]  # simple graphs have fewer


def test_what_cannot_be_is_named(tables: tuple) -> None:
    with pytest.raises(ValueError, match="min_count must be >= 1, was: 0"):
        ComponentsConfig(min_count=0)
    with pytest.raises(KeyError, match="noun"):
        Sampler(tables[0], tables[1], tables[2].slice(0, 0))  # an image without exclusions


def test_the_papers_threshold_is_scaled_and_a_seed_repeats_its_draws(tables: tuple) -> None:
    assert [default_min_count(n, PAPER_RARE) for n in (1, 31_000, 100_000, 566_435, 10**7)] == [5, 6, 18, 101, 101]
    one, other, third = (Sampler(*tables).nouns(np.arange(20), 16, np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert (one == other).all() and (third != one).any()
