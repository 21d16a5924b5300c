"""The parser's training data and tables: caption trees, conversion, augmentation, lemmas; and a small training."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import spacy
from spacy.lookups import Lookups
from spacy.tokens import Doc

from negcap.pipelines.resources.parser.captions import caption_trees
from negcap.pipelines.resources.parser.clear import convert
from negcap.pipelines.resources.parser.lexical import TAG_TO_POS, lemma, lemma_tables
from negcap.pipelines.resources.parser.train import ParserTrainingConfig, accuracy, save, train
from negcap.pipelines.resources.parser.tree import Tree, agreed_trees, coco_captions, fragments, read_conllu, to_doc
from tests.cases import cases_of

CASES, FORMS = (cases_of(__file__, name) for name in ("conversion.toml", "lemmas.toml"))
LABELS = set(
    "ROOT acl acomp advcl advmod agent amod attr aux auxpass case cc ccomp compound conj dative det dobj expl mark "
    "npadvmod nsubj nsubjpass nummod oprd parataxis pcomp pobj poss prep prt punct relcl xcomp".split()
)
SMALL = ParserTrainingConfig(seed=7, width=32, depth=1, rows=500, hidden=16, epochs=5, batch_words=100)


def arcs(tree: Tree) -> list[str]:
    heads = [tree.forms[head] if head >= 0 else "-" for head in tree.heads]
    return [f"{form} {dep} {head}" for form, dep, head in zip(tree.forms, tree.deps, heads, strict=True)]


def is_projective(tree: Tree) -> bool:
    spans = [tuple(sorted((word, head))) for word, head in enumerate(tree.heads) if head >= 0]
    return not any(a < c < b < d for a, b in spans for c, d in spans)


def test_grammar_trees_are_seeded_trees_in_the_label_scheme() -> None:
    trees = caption_trees(400, Random(3))
    assert len({tuple(tree.forms) for tree in trees}) > 380
    for tree in trees:
        assert tree.is_tree() and is_projective(tree), arcs(tree)
        assert set(tree.deps) <= LABELS and set(tree.tags) <= set(TAG_TO_POS), arcs(tree)
        assert 3 <= len(tree) <= 32
    assert caption_trees(50, Random(3)) == trees[:50] != caption_trees(50, Random(2))
    nlp = spacy.blank("en")
    docs = [to_doc([tree], nlp.vocab) for tree in trees]
    assert sum([token.text for token in nlp(doc.text)] == [token.text for token in doc] for doc in docs) >= 396


def tree(compact: str) -> Tree:
    rows = [word.rsplit("/", 4) for word in compact.split()]
    forms, tags, pos, heads, deps = (list(column) for column in zip(*rows, strict=True))
    lemmas = ["be" if form in ("is", "are", "was") else form.lower() for form in forms]
    return Tree(forms, [True] * len(forms), tags, pos, [int(head) - 1 for head in heads], deps, lemmas)


@pytest.mark.parametrize("name", CASES)
def test_a_rule_of_the_conversion(name: str) -> None:
    source = tree(CASES[name]["ud"])
    before, converted = source.copy(), convert(source)
    assert source == before
    clear = {arc.removesuffix(" -") for arc in arcs(converted)} if converted else {"cannot be expressed"}
    assert set(CASES[name]["clear"].split("; ")) <= clear, clear


DOCUMENT = """# newdoc id = {host}\n# meta::sourceURL = https://{host}/page
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_\n1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_\n2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No\n4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_\n\n"""


def test_reading_keeps_spaces_filters_by_host_and_names_a_broken_line(tmp_path: Path) -> None:
    path = tmp_path / "t.conllu.gz"
    path.write_bytes(gzip.compress((DOCUMENT.format(host="free.org") + DOCUMENT.format(host="other.org")).encode()))
    assert len(list(read_conllu(path))) == 2
    (kept,) = read_conllu(path, ("free.org",))
    assert kept.spaces == [False, True, False, True]
    path.write_bytes(gzip.compress(b"1\tonly\n\n"))
    with pytest.raises(ValueError, match=r"t\.conllu\.gz:1: .* must have 10 columns, has: 2"):
        list(read_conllu(path))


CHASING = tree(
    "A/DT/DET/2/det dog/NN/NOUN/4/nsubj is/VBZ/AUX/4/aux chasing/VBG/VERB/0/ROOT two/CD/NUM/6/nummod "
    "cats/NNS/NOUN/4/dobj ././PUNCT/4/punct"
)


def test_only_agreed_plausible_parses_are_kept_and_clauses_become_noun_phrases() -> None:
    class Model:
        def __init__(self, dep: str) -> None:
            self.vocab, self.dep = spacy.blank("en").vocab, dep

        def pipe(self, texts: list[str]) -> Iterator[Doc]:
            for text in texts:
                parse = tree("dogs/NNS/NOUN/2/nsubj run/VBP/VERB/0/ROOT") if text == "short" else CHASING.copy()
                if text == "disputed":
                    parse.deps[5] = self.dep
                yield to_doc([parse], self.vocab)

    texts = ["disputed", "agreed", "short", "agreed"]
    kept = agreed_trees(Model("dobj"), Model("nsubj"), texts, 10, Random(0))  # type: ignore[arg-type]
    assert [tree.forms for tree in kept] == [CHASING.forms]
    (fragment,) = fragments(CHASING, Random(0))
    assert arcs(fragment) == ["A det dog", "dog ROOT -", "chasing acl dog", "two nummod cats", "cats dobj chasing"]


def test_captions_held_out_for_judging(tmp_path: Path) -> None:
    path = tmp_path / "captions.json"
    annotations = [{"image_id": 10, "caption": "a  cat "}, {"image_id": 11, "caption": "a dog"}]
    path.write_text(json.dumps({"annotations": annotations}))
    assert (coco_captions(path), coco_captions(path, held_out=True)) == (["a dog"], ["a cat"])
    path.write_text("{}")
    with pytest.raises(ValueError, match="must have 'annotations'"):
        coco_captions(path)


@pytest.fixture(scope="module")
def tables() -> dict[str, Any]:
    pytest.importorskip("spacy_lookups_data", reason="the lemma tables are built from spacy-lookups-data")
    return lemma_tables()


@pytest.mark.parametrize("pos", FORMS)
def test_lemmas_are_those_that_spacy_finds(pos: str, tables: dict[str, Any]) -> None:
    lemma_of = dict(pair.split(":") for pair in FORMS[pos].split())
    rules, exceptions, index = (tables[name].get(pos, {}) for name in ("lemma_rules", "lemma_exc", "lemma_index"))
    assert {form: lemma(form, rules, exceptions, set(index)) for form in lemma_of} == lemma_of
    nlp, lookups = spacy.blank("en"), Lookups()
    for name, table in tables.items():
        lookups.add_table(name, table)
    lemmatizer: Any = nlp.add_pipe("lemmatizer", config={"mode": "rule"})
    lemmatizer.initialize(lookups=lookups)
    doc = lemmatizer(Doc(nlp.vocab, words=list(lemma_of), pos=[pos.upper()] * len(lemma_of)))
    assert {token.text: token.lemma_ for token in doc} == lemma_of


@pytest.mark.slow
def test_a_small_run(tmp_path: Path, tables: dict[str, Any]) -> None:
    lines: list[str] = []
    config = SMALL.changed(learning_rate=0.005)
    nlp = train(config, [], caption_trees(200, Random(0)), lines.append)
    assert len(lines) == config.epochs and lines[0].startswith("epoch 1/5")
    dev, folder = caption_trees(60, Random(1)), tmp_path / "parser"
    for captions in (["a dog runs on grass"] * 20, []):  # the second replaces the first
        save(nlp, folder, dev, captions, config)
        assert [path.name for path in tmp_path.iterdir()] == ["parser"]
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        named = " ".join(source["name"] for source in meta["sources"])
        assert "EWT" in named and ("COCO" in named) == bool(captions)
    scores = accuracy(spacy.load(folder), dev)
    assert meta["performance"] == {"ewt_dev": scores}
    assert scores["tag"] > 75 and scores["las"] > 50, scores
