"""Grammar-made captions, augmentation, self-training's filter and the lemma tables."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from negcap.pipelines.resources.parser.attributes import TAG_TO_POS, attribute_patterns
from negcap.pipelines.resources.parser.augmentation import augment, fragments, joined, without_final_stop
from negcap.pipelines.resources.parser.caption_trees import TEMPLATES, caption_trees
from negcap.pipelines.resources.parser.nodes import (
    Node,
    coordinate,
    flatten,
    ing,
    participle,
    plural,
    preposition,
    third,
)
from negcap.pipelines.resources.parser.self_training import agreed_trees, coco_captions
from negcap.pipelines.resources.parser.tree import Tree, to_doc

LABELS = set(
    "ROOT acl acomp advcl advmod agent amod attr aux auxpass case cc ccomp compound conj dative det dobj "
    "expl mark npadvmod "
    "nsubj nsubjpass nummod oprd parataxis pcomp pobj poss prep prt punct relcl xcomp".split()
)


def arcs(tree: Tree) -> list[str]:
    return [
        f"{form} {dep} {tree.forms[head] if head >= 0 else '-'}"
        for form, dep, head in zip(tree.forms, tree.deps, tree.heads, strict=True)
    ]


def is_projective(tree: Tree) -> bool:
    spans = [tuple(sorted((word, head))) for word, head in enumerate(tree.heads) if head >= 0]
    return not any(a < c < b < d for a, b in spans for c, d in spans)


def test_grammar_trees_are_trees_in_the_label_scheme() -> None:
    trees = caption_trees(800, Random(3))
    assert len(trees) == 800
    for tree in trees:
        assert tree.is_tree() and is_projective(tree), arcs(tree)
        assert set(tree.deps) <= LABELS, set(tree.deps) - LABELS
        assert set(tree.tags) <= set(TAG_TO_POS)
        assert 3 <= len(tree) <= 32


def test_grammar_is_seeded_and_varied() -> None:
    first, again, other = (
        caption_trees(50, Random(1)),
        caption_trees(50, Random(1)),
        caption_trees(50, Random(2)),
    )
    assert first == again and first != other
    assert len({tuple(tree.forms) for tree in caption_trees(500, Random(4))}) > 480


@pytest.mark.parametrize("template", [template for template, _ in TEMPLATES], ids=lambda template: template.__name__)
def test_every_template_makes_trees(template: Any) -> None:
    for seed in range(40):
        tree = flatten(template(Random(seed)))
        assert tree.is_tree() and is_projective(tree)


def test_grammar_words_are_the_tokenizer_s() -> None:
    import spacy

    nlp = spacy.blank("en")
    docs = [to_doc([tree], nlp.vocab) for tree in caption_trees(300, Random(5))]
    same = sum([token.text for token in nlp(doc.text)] == [token.text for token in doc] for doc in docs)
    assert same >= 297


def test_coordination_is_a_chain() -> None:
    root = coordinate([Node("plum", "NN"), Node("pear", "NN"), Node("fig", "NN")])
    assert arcs(flatten(root)) == [
        "plum ROOT -",
        ", punct plum",
        "pear conj plum",
        "and cc pear",
        "fig conj pear",
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("on", ["on prep sits", "mat pobj on"]),
        ("next_to", ["next advmod sits", "to prep next", "mat pobj to"]),
        ("in_front_of", ["in prep sits", "front pobj in", "of prep front", "mat pobj of"]),
        ("out_of", ["out prep sits", "of prep out", "mat pobj of"]),
    ],
)
def test_complex_prepositions(name: str, expected: list[str]) -> None:
    tree = flatten(Node("sits", "VBZ", right=[preposition(name, Node("mat", "NN"))]))
    assert arcs(tree)[1:] == expected


@pytest.mark.parametrize(
    ("function", "pairs"),
    [
        (
            ing,
            {
                "ride": "riding",
                "run": "running",
                "lie": "lying",
                "ski": "skiing",
                "see": "seeing",
                "play": "playing",
            },
        ),
        (
            third,
            {
                "catch": "catches",
                "fly": "flies",
                "play": "plays",
                "ride": "rides",
                "pass": "passes",
                "do": "does",
            },
        ),
        (
            participle,
            {"cover": "covered", "make": "made", "carry": "carried", "wrap": "wrapped", "place": "placed"},
        ),
        (plural, {"man": "men", "bus": "buses", "child": "children", "bench": "benches", "puppy": "puppies"}),
    ],
)
def test_inflection(function: Any, pairs: dict[str, str]) -> None:
    assert {word: function(word) for word in pairs} == pairs


def sentence() -> Tree:
    """Return "A dog is chasing two cats." with CLEAR labels."""
    return Tree(
        "A dog is chasing two cats .".split(), [True] * 5 + [False, True], "DT NN VBZ VBG CD NNS .".split(),
        "DET NOUN AUX VERB NUM NOUN PUNCT".split(), [1, 3, 3, -1, 5, 3, 3],
        "det nsubj aux ROOT nummod dobj punct".split(),
        "a dog be chase two cat .".split(),
    )  # fmt: skip


def test_fragment_without_its_auxiliary() -> None:
    (fragment,) = fragments(sentence(), Random(0))
    assert arcs(fragment) == [
        "A det dog",
        "dog ROOT -",
        "chasing acl dog",
        "two nummod cats",
        "cats dobj chasing",
    ]


def test_final_stop_dropped() -> None:
    assert without_final_stop(sentence()).forms == "A dog is chasing two cats".split()
    assert without_final_stop(without_final_stop(sentence())).forms == "A dog is chasing two cats".split()


def test_augmentation_varies_writing_only() -> None:
    made = [augment(sentence(), Random(seed)) for seed in range(200)]
    assert {tuple(tree.heads[:6]) for tree in made} == {(1, 3, 3, -1, 5, 3)}
    assert {tree.forms[0] for tree in made} == {"A", "a"}
    assert {len(tree) for tree in made} == {6, 7}
    assert {tree.spaces[5] for tree in made if len(tree) == 7} == {True, False}


def test_some_documents_have_two_sentences() -> None:
    groups = list(joined([sentence()] * 300, Random(0)))
    assert sum(map(len, groups)) == 300
    assert {len(group) for group in groups} == {1, 2}


def test_only_agreed_plausible_parses_are_kept() -> None:
    import spacy

    class Model:
        def __init__(self, dep: str) -> None:
            self.vocab, self.dep = spacy.blank("en").vocab, dep

        def pipe(self, texts: list[str]) -> Any:
            for text in texts:
                tree = sentence()
                tree.deps[5] = self.dep if text == "disputed" else "dobj"
                if text == "short":
                    tree = Tree(
                        ["dogs", "run"],
                        [True, True],
                        ["NNS", "VBP"],
                        ["NOUN", "VERB"],
                        [1, -1],
                        ["nsubj", "ROOT"],
                    )
                yield to_doc([tree], self.vocab)

    texts = ["disputed", "agreed", "short", "agreed"]
    kept = agreed_trees(Model("dobj"), Model("nsubj"), texts, 10, Random(0))  # type: ignore[arg-type]
    assert [tree.forms for tree in kept] == [sentence().forms]


def test_captions_held_out_for_judging(tmp_path: Path) -> None:
    path = tmp_path / "captions.json"
    path.write_text(
        json.dumps({"annotations": [{"image_id": 10, "caption": "a  cat "}, {"image_id": 11, "caption": "a dog"}]})
    )
    assert coco_captions(path) == ["a dog"]
    assert coco_captions(path, held_out=True) == ["a cat"]
    path.write_text("{}")
    with pytest.raises(ValueError, match="must have 'annotations'"):
        coco_captions(path)


def test_every_tag_has_a_pattern() -> None:
    tags = {pattern["patterns"][0][0].get("TAG") for pattern in attribute_patterns()}
    assert set(TAG_TO_POS) <= tags
