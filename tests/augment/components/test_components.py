"""Components: their rows, the vocabulary with its rivals, what may be true of an image, and samples that are false."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from negcap.augment.caption import Caption
from negcap.augment.components.sampling import NOTHING, ComponentSampler, Ragged
from negcap.augment.components.vocabulary import (
    are_incompatible,
    inverse_relations,
    relations_are_incompatible,
    verb_and_preposition,
)
from negcap.augment.language import semantic_classes
from negcap.augment.language.coreference import CoreferenceIndex, may_corefer
from negcap.augment.language.semantic_classes import noun_overlap_table, preposition_table
from negcap.augment.mentions import mentioned_attributes, mentioned_nouns
from negcap.augment.scene_graph import SceneGraph, scene_graph
from negcap.augment.slots.verbs import verbs_may_both_hold
from negcap.pipelines.engine.stage import StageResult
from negcap.pipelines.stages import components
from negcap.schemas.captions import COMPONENT_EXCLUSIONS, COMPONENT_VOCABULARY, COMPONENTS
from negcap.schemas.fields import check
from tests.augment.fixtures import parse_texts, sample_images, sample_parses
from tests.cases import cases_of
from tests.tables import TableInMemory

CONFIG = components.ComponentsConfig(min_count=3)
CASES = cases_of(__file__)


class Tables(NamedTuple):
    components: pa.Table
    vocabulary: pa.Table
    exclusions: pa.Table


def components_of(parses: pa.Table, config: components.ComponentsConfig = CONFIG) -> pa.Table:
    return components.read_components(parses, config).tables["components"]


def chosen(parts: Sequence[pa.Table], config: components.ComponentsConfig = CONFIG) -> StageResult:
    counts = [components.count_shard(part, config) for part in parts]
    return components.choose(components.add_counts(counts, config), config)


def exclusions_of(parses: pa.Table, vocabulary: pa.Table, config: components.ComponentsConfig = CONFIG) -> pa.Table:
    return components.find_exclusions(parses, config, TableInMemory(vocabulary)).tables["component_exclusions"]


def tables_of(parses: pa.Table, config: components.ComponentsConfig = CONFIG) -> Tables:
    """The three tables of one shard."""
    rows = components_of(parses, config)
    vocabulary = chosen([rows], config).tables["component_vocabulary"]
    tables = Tables(rows, vocabulary, exclusions_of(parses, vocabulary, config))
    for table, schema in zip(tables, (COMPONENTS, COMPONENT_VOCABULARY, COMPONENT_EXCLUSIONS), strict=True):
        check(table, schema)
    return tables


@pytest.fixture(scope="module")
def tables() -> Tables:
    return tables_of(sample_parses())


@pytest.fixture(scope="module")
def graphs() -> dict[str, list[tuple[Caption, SceneGraph]]]:
    """Every image's captions with their graphs."""
    return {image[0].image_id: [(caption, scene_graph(caption)) for caption in image] for image in sample_images(999)}


def relation_may_be_same(one: str, other: str) -> bool:
    """Whether a caption that states `other` of two things may mean `one`: on~atop, on~sit on; not sit on~stand on."""
    (verb, preposition), (verb2, preposition2) = verb_and_preposition(one), verb_and_preposition(other)
    if one == other or bool(preposition) != bool(preposition2):
        return one == other
    may_be = not verb or not verb2 or verbs_may_both_hold(verb, verb2)
    return may_be and (not preposition or not preposition_table().are_exclusive(preposition, preposition2))


def test_rows_hold_every_component_with_its_tokens():
    parses = parse_texts(["A brown dog is sitting on a red couch."], ["image"], ["caption"])
    (row,) = components_of(parses).to_pylist()
    assert [tuple(thing.values()) for thing in row["objects"]] == [("dog", 2), ("couch", 8)]
    assert [tuple(said.values()) for said in row["attributes"]] == [("brown", "dog", 1, 2), ("red", "couch", 7, 8)]
    (relation,) = row["relations"]
    assert list(relation.values()) == ["dog", "sit on", "couch", [4, 5], 2, 8]


def test_the_vocabulary_counts_what_the_components_say(tables):
    counts: Counter[tuple[str, ...]] = Counter()  # of a kind and words
    for row in tables.components.to_pylist():
        counts.update(("noun", thing["object"]) for thing in row["objects"])
        for said in row["attributes"]:
            counts.update([("attribute", said["attribute"]), ("attribute_noun", said["attribute"], said["object"])])
        for said in row["relations"]:
            triple = (said["subject"], said["relation"], said["object"])
            counts.update([("relation", said["relation"]), ("triple", *triple)])
    by_kind: dict[str, list[dict]] = {}
    for entry in tables.vocabulary.to_pylist():
        by_kind.setdefault(entry["kind"], []).append(entry)
        assert entry["count"] == counts[entry["kind"], *entry["words"]] >= (3 if len(entry["words"]) == 1 else 2)
        assert entry["kind"] != "noun" or entry["words"][0] not in noun_overlap_table().vague
    for entries in by_kind.values():  # ids count from the most frequent
        assert [entry["id"] for entry in entries] == [*range(len(entries))]
        assert entries == sorted(entries, key=lambda entry: -entry["count"])
    for kind, parts in {"attribute_noun": ("attribute", "noun"), "triple": ("noun", "relation", "noun")}.items():
        for entry in by_kind[kind]:
            words = [by_kind[part][id]["words"][0] for part, id in zip(parts, entry["parts"], strict=True)]
            assert entry["words"] == words


def test_no_captions_have_tables_of_no_rows():
    assert [table.num_rows for table in tables_of(sample_parses().slice(0, 0))] == [0, 0, 0]


def test_rivals_exclude_one_another(tables):
    rows = tables.vocabulary.to_pylist()
    for kind, excluding in (("attribute", are_incompatible), ("relation", relations_are_incompatible)):
        entries = [entry for entry in rows if entry["kind"] == kind]
        assert any(entry["rivals"] for entry in entries)
        for entry, other in product(entries, entries):
            assert (other["id"] in entry["rivals"]) == excluding(other["words"][0], entry["words"][0])


@pytest.mark.parametrize("function", [are_incompatible, relations_are_incompatible])
def test_which_words_exclude_one_another(function):
    cases = CASES[function.__name__]
    for pair in (*cases["true"], *cases["false"]):
        one, other = pair.split("/")
        assert function(one, other) == function(other, one) == (pair in cases["true"]), pair


def test_a_relation_is_a_verb_and_a_preposition():
    parts = {relation: tuple(parts) for relation, parts in CASES["verb_and_preposition"].items()}
    assert {relation: verb_and_preposition(relation) for relation in parts} == parts
    assert "under" in inverse_relations("sit on") and inverse_relations("wear") == ()


def test_only_the_train_split_is_counted_where_there_is_one():
    parses = sample_parses()
    splits = ["train" if i < 300 else "test" for i in range(parses.num_rows)]
    marked = parses.set_column(parses.column_names.index("split"), parses.schema.field("split"), pa.array(splits))
    both, alone = (chosen([components_of(part)]) for part in (marked, marked.slice(0, 300)))
    assert both.counts == alone.counts and both.counts["captions"] == 300 and both.counts["train_only"] == 1
    assert both.tables["component_vocabulary"] == alone.tables["component_vocabulary"]


def test_shards_and_their_order_change_nothing(tables):
    parts = [sample_parses().slice(start, size) for start, size in ((0, 150), (150, 150), (300, 1000))]
    shards = [components_of(part) for part in parts]
    assert pa.concat_tables(shards).combine_chunks() == tables.components.combine_chunks()
    Random(1).shuffle(shards)
    assert chosen(shards).tables["component_vocabulary"] == tables.vocabulary
    exclusions = pa.concat_tables([exclusions_of(part, tables.vocabulary) for part in parts])
    assert exclusions.combine_chunks() == tables.exclusions.combine_chunks()


def ragged_of(rows: Sequence[Sequence[int]]) -> Ragged:
    return Ragged.from_lists(pa.array(rows, pa.list_(pa.int32())))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=5), st.integers(0, 2**32))
def test_samples_lie_outside_a_row_or_inside_and_follow_an_order(rows, seed):
    ragged, rng = ragged_of([sorted(row) for row in rows]), np.random.default_rng(seed)
    wanted, pool, order = rng.integers(0, len(rows), 7), rng.permutation(10)[:6], rng.permutation(10)
    for samples, allowed in (
        (ragged.sample_outside(wanted, 20, rng, 10), lambda row: set(range(10)) - row),
        (ragged.sample_from(wanted, 20, rng, pool), lambda row: set(pool.tolist()) - row),
        (ragged.sample_inside(wanted, 20, rng), lambda row: row),
    ):
        for row, ids in zip(wanted, samples, strict=True):
            assert set(ids.tolist()) <= (allowed(rows[row]) or {NOTHING})
    for row, ids in zip(wanted, ragged.sample_first(wanted, 4, order), strict=True):
        first = sorted(rows[row], key=lambda id: order[id])[:4]
        assert ids.tolist() == [*first, *[NOTHING] * (4 - len(first))]


def test_samples_are_uniform():
    """Over calls, too, though the words of one call share their pool or order."""
    ragged, rng, calls = ragged_of([[], [0, 3, 4, 9], [1]]), np.random.default_rng(0), range(3000)
    row, inside, outside = np.array([1]), [0, 3, 4, 9], [1, 2, 5, 6, 7, 8]
    for samples, among in (
        (ragged.sample_outside(row, 6000, rng, 10)[0], outside),
        (np.concatenate([ragged.sample_from(row, 2, rng, rng.permutation(10)[:6])[0] for _ in calls]), outside),
        (ragged.sample_inside(row, 4000, rng)[0], inside),
        (np.concatenate([ragged.sample_first(row, 2, rng.permutation(10))[0] for _ in calls]), inside),
    ):
        counts = np.bincount(samples[samples != NOTHING], minlength=10)
        assert counts[among].sum() == counts.sum() and np.all(abs(counts[among] - counts.sum() / len(among)) < 180)


@pytest.mark.parametrize("kind", ["attribute", "relation"])
def test_by_the_papers_rule_any_word_that_no_caption_of_the_image_states_is_false(kind, tables):
    sampler, rng = ComponentSampler(*tables, "any"), np.random.default_rng(0)
    rows = tables.components.to_pylist()
    stated: dict[str, set[str]] = {}
    for row in rows:
        stated.setdefault(row["image_id"], set()).update(said[kind] for said in row[f"{kind}s"])
    images = [row["image_id"] for row in rows for _ in row[f"{kind}s"]]
    words = set(sampler.words[kind])
    if kind == "attribute":
        words &= set(semantic_classes.attribute_table().univse)
    sample, items = getattr(sampler, f"{kind}s"), np.arange(len(images))
    samples = sample(items, 200, rng)
    for image, ids in list(zip(images, samples, strict=True))[:40]:
        assert {sampler.words[kind][id] for id in ids} <= words - stated[image]
    assert len(np.unique(samples)) == len(words) > 1
    assert len(set(np.unique(sample(items, 200, rng, 2))) - {NOTHING}) == 2  # of a pool of two


@pytest.mark.parametrize("simple", [False, True])
def test_no_sampled_component_is_true_by_a_caption_of_the_image(simple, graphs):
    tables = tables_of(sample_parses(), components.ComponentsConfig(simple=simple, min_count=2))
    sampler, rng = ComponentSampler(*tables), np.random.default_rng(1)
    rows = tables.components.to_pylist()
    nouns = sampler.nouns(np.arange(len(rows)), 16, rng)
    assert nouns.shape == (len(rows), 16) and (nouns >= 0).all()
    for row, ids in zip(rows, nouns, strict=True):
        mentioned = frozenset().union(*(mentioned_nouns(caption) for caption, _ in graphs[row["image_id"]]))
        names = tuple(sampler.words["noun"][id] for id in ids)
        assert not CoreferenceIndex(names).with_any(mentioned).all

    def negatives(kind: str, sample: Callable[..., np.ndarray]) -> list[tuple[str, str, str, str]]:
        """Image, word, noun and a negative of the word, of every pair or triple."""
        every = [(row["image_id"], said[kind], said["object"]) for row in rows for said in row[f"{kind}s"]]
        samples = sample(np.arange(len(every)), 6, rng)
        assert (samples[:, 0] >= 0).mean() > 0.35
        each = [(item, set(ids.tolist()) - {NOTHING}) for item, ids in zip(every, samples, strict=True)]
        return [(*item, sampler.words[kind][id]) for item, ids in each for id in ids]

    for image, word, thing, new in negatives("attribute", sampler.attributes):
        assert are_incompatible(new, word)
        for caption, graph in graphs[image]:
            names = {o.token: o.name for o in graph.objects}
            stated = {(names[a.object], a.value) for a in graph.attributes} | mentioned_attributes(caption)
            values = [value for owner, value in stated if owner in ("", thing) or may_corefer(owner, thing)]
            assert not [value for value in values if semantic_classes.attributes_may_both_hold(new, value)]
    for image, word, thing, new in negatives("relation", sampler.relations):
        assert relations_are_incompatible(new, word)
        for _, graph in graphs[image]:
            names = {o.token: o.name for o in graph.objects}
            stated = [r.name for r in graph.relations if may_corefer(names[r.object], thing)]
            # Simple graphs have fewer objects and relations.
            assert simple or not [name for name in stated if relation_may_be_same(new, name)]


def test_an_image_without_exclusions_is_named(tables):
    with pytest.raises(KeyError, match="noun"):
        ComponentSampler(tables.components, tables.vocabulary, tables.exclusions.slice(0, 0))
