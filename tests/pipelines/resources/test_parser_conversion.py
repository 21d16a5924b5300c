"""UD -> CLEAR, rule by rule. A word is form/tag/upos/head/label; an expectation is "word label head" or
"word label"."""

import gzip
from pathlib import Path

import pytest

from negcap.pipelines.resources.parser.tree import Tree, read_conllu
from negcap.pipelines.resources.parser.ud_to_clear import convert

CASES = {
    "renamed": (
        "She/PRP/PRON/2/nsubj gave/VBD/VERB/0/root him/PRP/PRON/2/iobj cake/NN/NOUN/2/obj",
        "She nsubj gave; gave ROOT; him dative gave; cake dobj gave",
    ),
    "preposition": (
        "Cats/NNS/NOUN/2/nsubj sit/VBP/VERB/0/root on/IN/ADP/5/case the/DT/DET/5/det rug/NN/NOUN/2/obl",
        "on prep sit; rug pobj on; the det rug",
    ),
    "agent of a passive": (
        "Sheep/NNS/NOUN/3/nsubj:pass are/VBP/AUX/3/aux:pass led/VBN/VERB/0/root by/IN/ADP/5/case "
        "dogs/NNS/NOUN/3/obl:agent",
        "Sheep nsubjpass led; are auxpass led; by agent led; dogs pobj by",
    ),
    "chain of prepositions": (
        "Mice/NNS/NOUN/2/nsubj ran/VBD/VERB/0/root out/IN/ADP/5/case of/IN/ADP/5/case holes/NNS/NOUN/2/obl",
        "out prep ran; of prep out; holes pobj of",
    ),
    "conjoined prepositional phrases": (
        "He/PRP/PRON/2/nsubj ran/VBD/VERB/0/root in/IN/ADP/4/case parks/NNS/NOUN/2/obl and/CC/CCONJ/7/cc "
        "on/IN/ADP/7/case "
        "roads/NNS/NOUN/4/conj",
        "in prep ran; parks pobj in; on conj in; and cc in; roads pobj on",
    ),
    "adverb before a preposition": (
        "Dogs/NNS/NOUN/2/nsubj lie/VBP/VERB/0/root right/RB/ADV/5/advmod in/IN/ADP/5/case mud/NN/NOUN/2/obl",
        "right advmod in; in prep lie; mud pobj in",
    ),
    "measure before a preposition": (
        "It/PRP/PRON/2/nsubj hung/VBD/VERB/0/root feet/NNS/NOUN/5/obl:unmarked above/IN/ADP/5/case "
        "ground/NN/NOUN/2/obl",
        "feet npadvmod above; above prep hung",
    ),
    "possessive": (
        "The/DT/DET/2/det dog/NN/NOUN/4/nmod:poss 's/POS/PART/2/case tail/NN/NOUN/5/nsubj wags/VBZ/VERB/0/root",
        "dog poss tail; 's case dog; tail nsubj wags",
    ),
    "unmarked nominal": (
        "We/PRP/PRON/2/nsubj swam/VBD/VERB/0/root last/JJ/ADJ/4/amod year/NN/NOUN/2/obl:unmarked",
        "year npadvmod swam",
    ),
    "copula with an adjective": (
        "The/DT/DET/2/det cat/NN/NOUN/5/nsubj is/VBZ/AUX/5/cop very/RB/ADV/5/advmod wet/JJ/ADJ/0/root "
        "././PUNCT/5/punct",
        "is ROOT; cat nsubj is; wet acomp is; very advmod wet; . punct is",
    ),
    "copula with a noun": (
        "This/DT/PRON/4/nsubj is/VBZ/AUX/4/cop a/DT/DET/4/det kite/NN/NOUN/0/root",
        "This nsubj is; kite attr is; a det kite",
    ),
    "copula with a preposition": (
        "Cups/NNS/NOUN/4/nsubj are/VBP/AUX/4/cop on/IN/ADP/4/case shelves/NNS/NOUN/0/root",
        "Cups nsubj are; on prep are; shelves pobj on",
    ),
    "negated copula in a clause": (
        "I/PRP/PRON/2/nsubj know/VBP/VERB/0/root he/PRP/PRON/6/nsubj is/VBZ/AUX/6/cop not/RB/PART/6/advmod "
        "tall/JJ/ADJ/2/ccomp",
        "is ccomp know; he nsubj is; not neg is; tall acomp is",
    ),
    "copular question": (
        "Where/WRB/ADV/0/root is/VBZ/AUX/1/cop it/PRP/PRON/1/nsubj ?/./PUNCT/1/punct",
        "is ROOT; Where advmod is; it nsubj is",
    ),
    "conjoined clause after a copula": (
        "He/PRP/PRON/3/nsubj is/VBZ/AUX/3/cop old/JJ/ADJ/0/root and/CC/CCONJ/5/cc walks/VBZ/VERB/3/conj",
        "old acomp is; walks conj is; and cc is",
    ),
    "conjoined adjective stays": (
        "He/PRP/PRON/3/nsubj is/VBZ/AUX/3/cop old/JJ/ADJ/0/root and/CC/CCONJ/5/cc tired/JJ/ADJ/3/conj",
        "tired conj old; and cc old",
    ),
    "chain of conjuncts": (
        "Pears/NNS/NOUN/0/root ,/,/PUNCT/3/punct plums/NNS/NOUN/1/conj and/CC/CCONJ/5/cc figs/NNS/NOUN/1/conj",
        "plums conj Pears; figs conj plums; and cc plums; , punct Pears",
    ),
    "preposition and gerund": (
        "He/PRP/PRON/2/nsubj left/VBD/VERB/0/root before/IN/SCONJ/4/mark eating/VBG/VERB/2/advcl it/PRP/PRON/4/obj",
        "before prep left; eating pcomp before; it dobj eating",
    ),
    "while stays a mark": (
        "He/PRP/PRON/2/nsubj sang/VBD/VERB/0/root while/IN/SCONJ/4/mark eating/VBG/VERB/2/advcl",
        "while mark eating; eating advcl sang",
    ),
    "with and a clause": (
        "He/PRP/PRON/2/nsubj sat/VBD/VERB/0/root with/IN/SCONJ/6/mark dogs/NNS/NOUN/6/nsubj "
        "quietly/RB/ADV/6/advmod "
        "sleeping/VBG/VERB/2/advcl",
        "with prep sat; dogs pobj with; sleeping acl dogs",
    ),
    "existential": (
        "There/EX/PRON/2/expl is/VBZ/VERB/0/root a/DT/DET/4/det boat/NN/NOUN/2/nsubj",
        "There expl is; boat attr is",
    ),
    "extraposed infinitive": (
        "It/PRP/PRON/3/expl is/VBZ/AUX/3/cop fun/JJ/ADJ/0/root to/TO/PART/5/mark ski/VB/VERB/3/csubj",
        "It nsubj is; fun acomp is; ski xcomp is; to aux ski",
    ),
    "perception and a bare verb": (
        "We/PRP/PRON/2/nsubj saw/VBD/VERB/0/root him/PRP/PRON/2/obj jump/VB/VERB/2/xcomp",
        "jump ccomp saw; him nsubj jump",
    ),
    "perception and a participle": (
        "We/PRP/PRON/2/nsubj saw/VBD/VERB/0/root him/PRP/PRON/2/obj jumping/VBG/VERB/2/xcomp",
        "him dobj saw; jumping acl him",
    ),
    "predicative complement": (
        "They/PRP/PRON/2/nsubj look/VBP/VERB/0/root happy/JJ/ADJ/2/xcomp",
        "happy acomp look",
    ),
    "object predicate": (
        "They/PRP/PRON/2/nsubj paint/VBP/VERB/0/root it/PRP/PRON/2/obj red/JJ/ADJ/2/xcomp",
        "it dobj paint; red oprd paint",
    ),
    "flat name": (
        "Ada/NNP/PROPN/3/nsubj Lovelace/NNP/PROPN/1/flat smiled/VBD/VERB/0/root",
        "Ada compound Lovelace; Lovelace nsubj smiled",
    ),
    "more than": (
        "more/JJR/ADJ/3/advmod than/IN/ADP/1/fixed ten/CD/NUM/4/nummod cows/NNS/NOUN/0/root",
        "more amod ten; than quantmod ten; ten nummod cows",
    ),
    "because of": (
        "He/PRP/PRON/2/nsubj fell/VBD/VERB/0/root because/IN/ADP/5/case of/IN/ADP/3/fixed ice/NN/NOUN/2/obl",
        "because prep fell; of prep because; ice pobj of",
    ),
    "such as": (
        "fruit/NN/NOUN/0/root such/JJ/ADJ/4/case as/IN/ADP/2/fixed figs/NNS/NOUN/1/nmod",
        "such amod as; as prep fruit; figs pobj as",
    ),
    "as well as": (
        "dogs/NNS/NOUN/0/root as/RB/ADV/5/cc well/RB/ADV/2/fixed as/IN/ADP/2/fixed cats/NNS/NOUN/1/conj",
        "cats conj dogs; well advmod as; as cc dogs",
    ),
    "each other": (
        "They/PRP/PRON/2/nsubj chase/VBP/VERB/0/root each/DT/DET/2/obj other/JJ/ADJ/3/fixed",
        "other dobj chase; each det other",
    ),
    "particle and to": (
        "He/PRP/PRON/2/nsubj got/VBD/VERB/0/root up/RP/ADP/2/compound:prt to/TO/PART/5/mark dance/VB/VERB/2/advcl",
        "up prt got; to aux dance; dance advcl got",
    ),
    "relative clause with a stranded preposition": (
        "the/DT/DET/2/det bench/NN/NOUN/0/root they/PRP/PRON/4/nsubj sit/VBP/VERB/2/acl:relcl on/IN/ADP/4/obl",
        "sit relcl bench; on prep sit",
    ),
}


def tree(compact: str) -> Tree:
    rows = [word.rsplit("/", 4) for word in compact.split()]
    rows = [row if len(row) == 5 else ["."] + row[1:] for row in rows]
    forms, tags, pos, heads, deps = (list(column) for column in zip(*rows, strict=True))
    lemmas = ["be" if form in ("is", "are", "was") else form.lower() for form in forms]
    return Tree(forms, [True] * len(forms), tags, pos, [int(head) - 1 for head in heads], deps, lemmas)


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str) -> None:
    source, expected = CASES[name]
    converted = convert(tree(source))
    assert converted is not None
    arcs = {
        f"{form} {dep} {converted.forms[head]}" if head >= 0 else f"{form} {dep}"
        for form, dep, head in zip(converted.forms, converted.deps, converted.heads, strict=True)
    }
    assert set(expected.split("; ")) <= arcs, arcs


def test_inputs_are_not_changed() -> None:
    source = tree(CASES["preposition"][0])
    convert(source)
    assert source.deps[2] == "case"


def test_speech_repairs_are_not_converted() -> None:
    assert convert(tree("a/DT/DET/2/reparandum an/DT/DET/3/det owl/NN/NOUN/0/root")) is None


def write(path: Path, text: str) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        stream.write(text)
    return path


def test_reading_keeps_spaces_and_filters_by_host(tmp_path: Path) -> None:
    def document(host: str) -> str:
        return (
            f"# newdoc id = {host}\n# meta::sourceURL = https://{host}/page\n"
            "1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
            "1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_\n2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_\n"
            "3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No\n4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_\n\n"
        )

    path = write(tmp_path / "t.conllu.gz", document("free.org") + document("other.org"))
    assert len(list(read_conllu(path))) == 2
    (kept,) = read_conllu(path, ("free.org",))
    assert kept.spaces == [False, True, False, True]


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "t.conllu.gz", "1\tonly\n\n")
    with pytest.raises(ValueError, match=r"t\.conllu\.gz:1: .* must have 10 columns, has: 2"):
        list(read_conllu(path))
