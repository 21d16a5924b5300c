"""Negatives of a table of parses: their rows, and what becomes of what fails."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from negcap.augment.candidates import Batch
from negcap.augment.caption import MAX_TOKENS
from negcap.augment.edits import Edit, apply_edits
from negcap.augment.evidence import Evidence
from negcap.augment.generate import NegativesConfig, generate_tables
from negcap.augment.language.concreteness import Concreteness
from negcap.augment.language.grammar import indefinite_article
from negcap.augment.operators import OPERATORS, PRESETS
from negcap.augment.operators.operator import ListingOperator, Traits
from negcap.augment.rows import OPERATOR_ERROR, TOO_LONG, Row, concreteness_of_change
from negcap.schemas.fields import check
from negcap.schemas.negatives import EXCLUDED, NEGATIVES, POSITIVES, REASONS, REJECTIONS
from tests.augment.fixtures import parse_texts, sample_lexicon, sample_parses
from tests.cases import cases_of

CASES = cases_of(__file__)["generate"]
ALL = NegativesConfig(operators=PRESETS["all"])  # the operators that check what they make


class Made(NamedTuple):
    """What `generate_tables` makes: the rows of three tables, and the counters."""

    negatives: list[dict]
    rejections: list[dict]
    positives: list[dict]
    counts: Counter[str]


def made(config: NegativesConfig, parses: pa.Table) -> Made:
    tables, counts = generate_tables(parses, sample_lexicon(), config)
    for schema in (NEGATIVES, REJECTIONS, POSITIVES, EXCLUDED):
        check(tables[schema.metadata[b"table"].decode()], schema)
    return Made(*(tables[name].to_pylist() for name in ("negatives", "rejections", "positives")), counts)


def some_parses() -> pa.Table:
    """Those of the sample's first 50 images."""
    return sample_parses().slice(0, 250)


@pytest.fixture(scope="module")
def rows() -> Made:
    """The rows of all operators that check what they make."""
    return made(ALL, some_parses())


def test_rows_are_numbered_within_their_quotas_and_made_by_their_edits(rows):
    texts_of_image: dict[str, set[str]] = {}
    for row in some_parses().to_pylist():
        texts_of_image.setdefault(row["image_id"], set()).add(row["text"].lower())
    texts: dict[tuple[str, str], list[str]] = {}  # by caption and operator
    for row in rows.negatives:
        edits = [Edit(edit["start"], edit["end"], edit["new"]) for edit in row["edits"]]
        assert apply_edits(row["caption"], edits) == row["text"] != row["caption"]
        assert all(row["caption"][edit["start"] : edit["end"]] == edit["old"] for edit in row["edits"])
        assert row["text"].lower() not in texts_of_image[row["image_id"]]
        before = texts.setdefault((row["caption_id"], row["operator"]), [])
        assert (row["draw"], row["negative_id"]) == (
            len(before), f"{row['caption_id']}#{row['operator']}:{len(before)}",
        )  # fmt: skip
        assert row["text"].lower() not in before
        before.append(row["text"].lower())
    assert (ALL.quota("noun"), ALL.quota("shuffle"), ALL.quota("preposition")) == (20, 10, 10)
    assert all(len(own) <= ALL.quota(operator) for (_, operator), own in texts.items())
    expected = Counter(captions=some_parses().num_rows)
    for (_, operator), own in texts.items():
        expected.update({f"{operator}.captions": 1, f"{operator}.rows": len(own)})
    assert rows.counts.items() >= expected.items()


def test_rejections_have_the_reason_and_what_decided(rows):
    of_form = {"interchangeable", "ungrammatical", "no_candidate"}  # no word decides these
    of_siblings = {"sibling_says_so", "sibling_quantity", "related_in_sibling", "overlap_in_sibling"}
    assert {row["reason"] for row in rows.rejections} <= set(REASONS) - {TOO_LONG, OPERATOR_ERROR}
    for row in rows.rejections:
        assert (row["detail"] is None) == (row["reason"] in of_form)
        assert row["sibling_id"] or row["reason"] not in of_siblings
        assert row["sibling_id"] != row["caption_id"] and bool(row["text"]) == bool(row["edits"])
    refused = sum(number for name, number in rows.counts.items() if name.startswith("rejected."))
    assert refused == len(rows.rejections)


def test_no_captions_have_tables_of_no_rows():
    assert made(NegativesConfig(), sample_parses().slice(0, 0))[:3] == ([], [], [])


def test_no_article_goes_wrong(rows):
    def wrong_articles(text: str) -> int:
        words = text.split()
        pairs = zip(words, words[1:], strict=False)
        return sum(
            word.lower() in ("a", "an") and after[:1].isalnum() and indefinite_article(after) != word.lower()
            for word, after in pairs
        )

    assert not [row["text"] for row in rows.negatives if wrong_articles(row["text"]) > wrong_articles(row["caption"])]


@pytest.mark.parametrize("name", PRESETS["all"])
def test_an_operator_makes_the_same_alone_as_among_all_others_and_of_images_in_any_order(name, rows):
    parses = some_parses()
    images = parses["image_id"].unique().to_pylist()[:12]
    turned = pa.concat_tables([parses.filter(pc.equal(parses["image_id"], image)) for image in images[::-1]])
    alone = made(NegativesConfig(operators=(name,)), turned)
    for own, together in ((alone.negatives, rows.negatives), (alone.rejections, rows.rejections)):
        expected = [row for row in together if row["operator"] == name and row["image_id"] in images]
        assert sorted(own, key=lambda row: images.index(row["image_id"])) == expected


@pytest.mark.parametrize(("operators", "message"), [
    (("noun", "noun"), "operators must be distinct"),
    (("adverb",), "operator must be one of"),
])  # fmt: skip
def test_operators_that_are_given_twice_or_do_not_exist_are_named(operators, message):
    with pytest.raises(ValueError, match=message):
        NegativesConfig(operators=operators)


def test_operators_that_do_not_run_are_tried_on_captions_without_negatives(monkeypatch):
    config, parses = NegativesConfig(operators=("shuffle", "true_negation"), per_family=1), some_parses().slice(0, 60)
    monkeypatch.setattr("negcap.augment.generate.PROBED", 1)
    before, _, _, counts = made(config, parses)
    covered = {row["caption_id"] for row in before}
    alone = {row["caption_id"] for row in made(config.changed(operators=("noun",)), parses).negatives}
    assert counts["tried"] == counts["captions.without"] == len(parses) - len(covered)
    assert counts["more.noun"] == len(alone - covered) > counts["more.shuffle"] == counts["more.paraphrase"] == 0


def test_paraphrases_are_positives_and_nothing_else_is(rows):
    positive = {"paraphrase", "true_negation"}
    assert {(row["operator"], row["family"]) for row in rows.positives} == {(name, "positive") for name in positive}
    assert not positive & {row["operator"] for row in rows.negatives}
    assert sum(rows.counts[f"{name}.rows"] for name in positive) == len(rows.positives)
    assert rows.counts["tried"] == 0  # no operator is left to try


class Fails(ListingOperator):
    """Proposes one negative, and then fails on captions about a boy."""

    def __init__(self, error: Exception) -> None:
        super().__init__("noun", Traits("noun", 1.0, is_rated=False))
        self.error = error

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> Iterable[Row]:
        yield Row("none", (Edit(0, 1, "X"),), (0,), "a", "x")
        if "boy" in evidence.caption.lowered:
            raise self.error


def test_an_operator_that_fails_rejects_the_caption(monkeypatch):
    texts = ["A boy runs on a beach.", "A dog sits on a bench.", "A boy sits on a chair."]
    config, parses = NegativesConfig(operators=("noun", "preposition")), parse_texts(texts, texts, texts)
    before = made(NegativesConfig(operators=("preposition",)), parses).negatives
    monkeypatch.setitem(OPERATORS, "noun", Fails(KeyError("a\nscarf")))
    said = "operator noun raised KeyError: 'a\\nscarf'"
    with pytest.warns(RuntimeWarning) as warned:
        accepted, refused, _, counts = made(config, parses)
    assert {str(warning.message) for warning in warned} == {f"{said}; its caption is rejected as {OPERATOR_ERROR}"}
    whole = [(row["reason"], row["detail"], row["replaced"]) for row in refused if row["operator"] == "noun"]
    assert whole == [(OPERATOR_ERROR, said, "")] * 2
    assert (counts[f"rejected.noun.{OPERATOR_ERROR}"], counts["noun.rows"]) == (2, 1)
    assert [row for row in accepted if row["operator"] == "preposition"] == before != []
    monkeypatch.setitem(OPERATORS, "noun", Fails(MemoryError()))  # no fault of a caption
    with pytest.raises(MemoryError):
        made(config, parses)


def test_a_caption_that_is_too_long_is_rejected_by_every_operator():
    texts, ids = ["A dog on a table. " * 300, "A dog on a table."], ["long", "short"]
    accepted, refused, _, counts = made(ALL, parse_texts(texts, ids, ids))
    whole = [(row["operator"], row["reason"], row["detail"]) for row in refused if row["caption_id"] == "long"]
    assert whole == [(name, TOO_LONG, f"caption must be <= {MAX_TOKENS} tokens") for name in PRESETS["all"]]
    assert {row["caption_id"] for row in accepted} == {"short"} and counts["captions.without"] == 1


@pytest.mark.parametrize(("change", "replacement", "noun"), CASES["concreteness"])
def test_concreteness_is_that_of_the_noun_inserted(change, replacement, noun):
    assert concreteness_of_change(change, replacement) == (Concreteness.load().score(noun) if noun != "none" else None)


def test_no_operator_is_without_negatives_of_the_sample(rows):
    captions = {name: rows.counts[f"{name}.captions"] for name in PRESETS["all"]}
    assert {name: number for name, number in captions.items() if number < CASES["least"][name]} == {}
    for name, (words, share) in CASES["variety"].items():
        first = Counter(row["replacement"] for row in rows.negatives if row["operator"] == name and row["draw"] == 0)
        assert len(first) >= words, name
        assert max(first.values()) <= share * first.total(), name


def test_every_operator_may_make_one_negative_of_a_caption_however_few_are_asked_for():
    assert {NegativesConfig(per_family=1).quota(name) for name in OPERATORS} == {1}
