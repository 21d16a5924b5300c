"""Objects, attributes and relations of captions."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from negcap.augment.caption import Caption, Token
from negcap.augment.language.parse import parse
from negcap.augment.scene_graph import SceneGraph, scene_graph
from tests.benchmarks.scene_graph import predicted, read, scores
from tests.cases import cases_of


def said(text: str, simple: bool = False) -> dict[str, set[str]]:
    """Objects, attributes as "thing: value", relations as "subject > relation > object"."""
    graph = scene_graph(parse([text])[0], simple)
    names = {thing.token: thing.name for thing in graph.objects}
    return {
        "objects": set(names.values()),
        "attributes": {f"{names[a.object]}: {a.value}" for a in graph.attributes},
        "relations": {f"{names[r.subject]} > {r.name} > {names[r.object]}" for r in graph.relations},
    }


# A kind, a caption, and all that its graph has of the kind; see `said`.
CASES = cases_of(__file__)["scene_graph"]
LINES = Path(__file__).with_name("captions.tsv").read_text("utf-8").splitlines()


@pytest.mark.parametrize(("kind", "text", "expected"), [line.split("\t") for line in LINES])
def test_graphs(kind, text, expected):
    assert said(text)[kind] == set(filter(None, expected.split(", ")))


def test_simple_names_are_one_word_and_have_one_attribute():
    text = "A tall young man with a tennis racket and a hot dog in his right hand."
    graph = said(text, simple=True)
    assert (graph["objects"], graph["attributes"]) == ({"man", "racket", "dog", "hand"}, {"man: tall"})
    assert "man > with > racket" in graph["relations"]


def test_positions_are_those_of_the_words():
    caption = parse(["A light brown horse stands in front of the tennis player's car."])[0]
    graph = scene_graph(caption)
    assert [caption.span(o.start, o.token + 1) for o in graph.objects] == ["horse", "tennis player", "car"]
    (attribute,) = graph.attributes
    assert caption.span(attribute.start, attribute.end) == "light brown"
    assert caption.tokens[attribute.token].text == "brown"
    stands, has = graph.relations
    assert [caption.tokens[i].text for i in stands.tokens] == ["stands", "in", "front", "of"]
    assert (has.name, has.tokens) == ("have", ())


def assert_whole(graph: SceneGraph, caption: Caption) -> None:
    """A graph's parts point to each other and into the caption."""
    tokens = [thing.token for thing in graph.objects]
    size = len(caption.tokens)
    assert tokens == sorted(set(tokens))
    for thing in graph.objects:
        assert 0 <= thing.start <= thing.token < size and thing.name
    for said in graph.attributes:
        assert said.object in tokens and 0 <= said.start <= said.token < said.end <= size
    for relation in graph.relations:
        assert relation.subject in tokens and relation.object in tokens and relation.name
        assert all(0 <= token < size for token in relation.tokens)
    assert len({(said.object, said.token) for said in graph.attributes}) == len(graph.attributes)


WORDS, DEPS, TAGS = (CASES[name].split() for name in ("words", "deps", "tags"))


@st.composite
def bad_parses(draw: st.DrawFn) -> Caption:
    """Captions whose parse may be any nonsense, loops and heads that point anywhere included."""
    size = draw(st.integers(1, 12))
    tokens, start = [], 0
    for index in range(size):
        word, tags, dep = (draw(st.sampled_from(values)) for values in (WORDS, TAGS, DEPS))
        (pos, tag), head = tags.split("/"), draw(st.integers(0, size - 1))
        tokens.append(Token(index, start, start + len(word), word, word, tag, pos, dep, head))
        start += len(word) + 1
    return Caption("c", "i", " ".join(token.text for token in tokens), tuple(tokens), ())


@settings(deadline=None)
@given(bad_parses(), st.booleans())
def test_no_parse_is_too_bad(caption, simple):
    assert_whole(scene_graph(caption, simple), caption)


@pytest.mark.parametrize("text", CASES["no_sentences"])
def test_no_sentence_is_no_error(text):
    (caption,) = parse([text])
    assert_whole(scene_graph(caption), caption)


@pytest.mark.data
def test_graphs_are_those_of_factual(real_data):
    texts, golds = read(str(real_data / "factual" / "dev.csv.gz"))
    reached = scores(golds, [predicted(caption) for caption in parse(texts)])
    least = {"objects": 89, "attributes": 74, "relations": 60, "all": 78, "exact": 48}
    assert not {kind: reached[kind] for kind, bound in least.items() if reached[kind] < bound}
