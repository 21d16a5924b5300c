"""Negatives of a table of parses: their rows, and what becomes of what fails."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from negcap.augment.candidates import Batch
from negcap.augment.caption import MAX_TOKENS, from_parses
from negcap.augment.checks import CHECKS, steps
from negcap.augment.edits import Edit, apply_edits
from negcap.augment.evidence import Evidence
from negcap.augment.generate import NegativesConfig, generate_tables, run_operator
from negcap.augment.language.concreteness import Concreteness
from negcap.augment.language.grammar import indefinite_article
from negcap.augment.lexicon.lexicon import Lexicon
from negcap.augment.operators import OPERATORS, PRESETS
from negcap.augment.operators.operator import ListedRows, ListingOperator, Operator, Source, Traits
from negcap.augment.rows import OPERATOR_ERROR, TOO_LONG, OperatorResult, Row, concreteness_of_change
from negcap.augment.truth.contradiction import Violation
from negcap.schemas.fields import check
from negcap.schemas.negatives import EXCLUDED, NEGATIVES, POSITIVES, REASONS, REJECTIONS
from tests.augment.fixtures import UNLIMITED, batch_of, captions_of, parse_texts, sample_lexicon, sample_parses
from tests.cases import cases_of

CASES = cases_of(__file__)["generate"]


class Made(NamedTuple):
    """What `generate_tables` makes: the rows of two tables, and the counters."""

    negatives: list[dict]
    rejections: list[dict]
    counts: Counter[str]


def some_parses() -> pa.Table:
    """Those of the sample's first 50 images."""
    return sample_parses().slice(0, 250)


def made(config: NegativesConfig | None = None, parses: pa.Table | None = None) -> Made:
    parses = some_parses() if parses is None else parses
    tables, counts = generate_tables(parses, sample_lexicon(), config or NegativesConfig())
    check(tables["negatives"], NEGATIVES)
    check(tables["rejections"], REJECTIONS)
    return Made(tables["negatives"].to_pylist(), tables["rejections"].to_pylist(), counts)


@pytest.fixture(scope="module")
def rows() -> Made:
    """The rows of all operators that check what they make."""
    return made(NegativesConfig(operators=PRESETS["all"]))


def test_rows_are_numbered_within_their_quotas_and_made_by_their_edits(rows):
    number_of_rows: Counter[tuple[str, str]] = Counter()
    texts = set()
    texts_of_image: dict[str, set[str]] = {}
    for row in some_parses().to_pylist():
        texts_of_image.setdefault(row["image_id"], set()).add(row["text"].lower())
    for row in rows.negatives:
        edits = [Edit(edit["start"], edit["end"], edit["new"]) for edit in row["edits"]]
        assert apply_edits(row["caption"], edits) == row["text"] != row["caption"]
        assert all(row["caption"][edit["start"] : edit["end"]] == edit["old"] for edit in row["edits"])
        assert row["text"].lower() not in texts_of_image[row["image_id"]]
        key = (row["caption_id"], row["operator"])
        assert (row["negative_id"], row["draw"]) == (f"{key[0]}#{key[1]}:{number_of_rows[key]}", number_of_rows[key])
        number_of_rows[key] += 1
        texts.add((*key, row["text"].lower()))
    assert len(texts) == len(rows.negatives)
    quota = NegativesConfig().quota
    assert all(number <= quota(operator) for (_, operator), number in number_of_rows.items())
    assert quota("noun") == 20 and quota("shuffle") == quota("preposition") == 10
    captions = Counter(operator for _, operator in number_of_rows)
    expected = {f"{name}.captions": number for name, number in captions.items()}
    for (_, name), number in number_of_rows.items():
        expected[f"{name}.rows"] = expected.get(f"{name}.rows", 0) + number
    assert rows.counts.items() >= {**expected, "captions": some_parses().num_rows}.items()


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
    tables, _ = generate_tables(sample_parses().slice(0, 0), sample_lexicon(), NegativesConfig())
    for schema in (NEGATIVES, POSITIVES, REJECTIONS, EXCLUDED):
        name = schema.metadata[b"table"].decode()
        check(tables[name], schema)
        assert tables[name].num_rows == 0


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
def test_an_operator_makes_the_same_alone_as_among_all_others(name, rows):
    some = some_parses().slice(0, 60)
    ids = set(some["caption_id"].to_pylist())
    alone = made(NegativesConfig(operators=(name,)), some)
    for own, every in ((alone.negatives, rows.negatives), (alone.rejections, rows.rejections)):
        assert own == [row for row in every if row["operator"] == name and row["caption_id"] in ids]


@settings(max_examples=3, deadline=None)
@given(st.permutations(range(12)))
def test_order_of_images_and_shards_changes_no_rows(rows, order):
    config = NegativesConfig(operators=("noun", "preposition", "verb"))
    parses = some_parses()
    images = parses["image_id"].unique().to_pylist()[:12]
    shuffled = pa.concat_tables([parses.filter(pc.equal(parses["image_id"], images[number])) for number in order])
    half = shuffled.num_rows // 10 * 5
    apart = [row for part in (shuffled.slice(0, half), shuffled.slice(half)) for row in made(config, part).negatives]
    straight = [row for row in rows.negatives if row["image_id"] in images and row["operator"] in config.operators]
    key = lambda row: row["negative_id"]  # noqa: E731
    assert sorted(straight, key=key) == sorted(apart, key=key) != []


def test_bad_configs_are_named():
    with pytest.raises(ValueError, match="operators must be distinct"):
        NegativesConfig(operators=("noun", "noun"))
    with pytest.raises(ValueError, match="operator must be one of"):
        NegativesConfig(operators=("adverb",))


def test_operators_that_do_not_run_are_tried_on_captions_without_negatives(monkeypatch):
    config, parses = NegativesConfig(operators=("shuffle", "true_negation"), per_family=1), some_parses().slice(0, 100)
    before, _, few = made(config, parses)
    monkeypatch.setattr("negcap.augment.generate.PROBED", 1)
    after, _, counts = made(config, parses)
    assert after == before and 0 < few["tried"] < few["captions.without"] == counts["tried"]
    covered = {row["caption_id"] for row in before}
    alone = {row["caption_id"] for row in made(config.changed(operators=("noun",)), parses).negatives}
    assert counts["more.noun"] == len(alone - covered) > counts["more.shuffle"] == counts["more.paraphrase"] == 0


def test_paraphrases_are_positives_and_nothing_else_is(rows):
    config = NegativesConfig(operators=PRESETS["all"], per_family=1)
    tables, counts = generate_tables(some_parses().slice(0, 100), sample_lexicon(), config)
    check(tables["positives"], POSITIVES)
    assert set(tables["positives"]["operator"].to_pylist()) == {"paraphrase", "true_negation"}
    assert set(tables["positives"]["family"].to_pylist()) == {"positive"}
    assert not {"paraphrase", "true_negation"} & {row["operator"] for row in rows.negatives}
    assert counts["paraphrase.rows"] + counts["true_negation.rows"] == tables["positives"].num_rows
    assert counts["tried"] == 0  # no operator is left to try


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
    config, some = NegativesConfig(operators=("noun", "preposition")), sample_parses().slice(0, 10)
    failing = sum("boy" in caption.lowered for caption in from_parses(some))
    assert 0 < failing < 10
    before = made(NegativesConfig(operators=("preposition",)), some)[0]
    monkeypatch.setitem(OPERATORS, "noun", Fails(KeyError("a\nscarf")))
    said = "operator noun raised KeyError: 'a\\nscarf'"
    with pytest.warns(RuntimeWarning) as warned:
        accepted, refused, counts = made(config, some)
    assert {str(one.message) for one in warned} == {f"{said}; its caption is rejected as {OPERATOR_ERROR}"}
    whole = [row for row in refused if row["operator"] == "noun"]
    assert len(whole) == failing == counts[f"rejected.noun.{OPERATOR_ERROR}"]
    found = {(row["reason"], row["detail"], row["replaced"], *row["edits"]) for row in whole}
    assert found == {(OPERATOR_ERROR, said, "")}
    assert counts["noun.rows"] == 10 - failing
    assert [row for row in accepted if row["operator"] == "preposition"] == before
    monkeypatch.setitem(OPERATORS, "noun", Fails(MemoryError()))  # no fault of a caption
    with pytest.raises(MemoryError):
        made(config, some)


def test_a_caption_that_is_too_long_is_rejected_by_every_operator():
    texts, ids = ["A dog on a table. " * 300, "A dog on a table."], ["long", "short"]
    accepted, refused, counts = made(NegativesConfig(operators=PRESETS["all"]), parse_texts(texts, ids, ids))
    whole = [row for row in refused if row["caption_id"] == "long"]
    assert [(row["operator"], row["reason"]) for row in whole] == [(name, TOO_LONG) for name in PRESETS["all"]]
    assert {row["detail"] for row in whole} == {f"caption must be <= {MAX_TOKENS} tokens"}
    assert accepted and {row["caption_id"] for row in accepted} == {"short"} and counts["captions.without"] == 1


def test_a_rejection_names_the_word_and_the_sibling_that_decided():
    texts = ["A dog sleeps on a couch.", "Two brown dogs near a sofa.", "A puppy lies under a table."]
    parses = parse_texts(texts, ["image"] * 3, ["0", "1", "2"])
    _, rejected, _ = made(
        NegativesConfig(operators=PRESETS["all"], preferred_unnatural=1.0, max_unnatural=1.0, excluded=True), parses
    )
    first = [row for row in rejected if row["caption_id"] == "0"]
    found = {(row["reason"], row["replaced"], row["replacement"], row["detail"], row["sibling_id"]) for row in first}
    assert found >= {
        ("sibling_quantity", "a", "two", "dog", "1"),
        ("related_in_sibling", "couch", "desk", "table", "2"),
        ("compatible", "couch", "sofa", "the words may name one thing, by WordNet or the tables of overlaps", None),
    }
    # A sofa never replaces a couch, so that nothing compares them: null, not minus infinity.
    assert all(row["plausibility"] is None or math.isfinite(row["plausibility"]) for row in rejected)


class WithFallback(Operator):
    """Lists rows, and others that are tried where none of these passes the checks before the rating."""

    def __init__(self, rows: Sequence[Row], fallback: Sequence[Row]) -> None:
        super().__init__("noun", Traits("noun", 1.0))
        self.first, self.others = rows, fallback

    def rows(self, batch: Batch, seed: int) -> Source:
        return ListedRows([map(replace, self.first) for _ in batch.evidence])

    def fallback_rows(self, batch: Batch, captions: Sequence[int], seed: int) -> Source:
        return ListedRows([map(replace, self.others) if n in captions else () for n in range(len(batch.evidence))])

    def violation(self, row: Row, evidence: Evidence, lexicon: Lexicon) -> Violation | None:
        return Violation("caption_says_so") if row.replacement == "puppy" else None


def test_the_fallback_is_used_only_where_nothing_else_passes_the_checks():
    text, config = "A dog on a couch.", NegativesConfig(operators=("noun",))
    cat, horse, bad = (Row("noun", (Edit(2, 5, new),), (1,), "dog", new) for new in ("cat", "horse", "puppy"))

    def made(rows: Sequence[Row], fallback: Sequence[Row], **limits: float) -> OperatorResult:
        settings = config.changed(**{**UNLIMITED, **limits})
        batch = batch_of([captions_of(text)], limits=settings.limits)
        return run_operator(WithFallback(rows, fallback), batch, settings)[0]

    def words(rows: Iterable[Row]) -> list[str]:
        return [row.replacement for row in rows]

    assert words(made([], [cat]).accepted) == words(made([cat], []).accepted) == words(made([cat], [horse]).accepted)
    assert words(made([], [cat]).accepted) == ["cat"]
    both = made([bad], [horse])  # what the captions make true does not count
    assert (words(both.accepted), words(both.rejected)) == (["horse"], ["puppy"])
    strict = {"preferred_unnatural": 0.0, "max_unnatural": 0.0}
    assert words(made([cat], [horse], **strict).rejected) == ["cat"]  # what is rated does, also if it is refused
    assert words(made([bad], [horse], **strict).rejected) == ["puppy", "horse"]


@pytest.mark.parametrize(("change", "replacement", "noun"), CASES["concreteness"])
def test_concreteness_is_that_of_the_noun_inserted(change, replacement, noun):
    assert concreteness_of_change(change, replacement) == (Concreteness.load().score(noun) if noun != "none" else None)


def test_the_steps_are_all_checks_in_order_and_each_is_said_in_a_sentence():
    names, sentences = zip(*steps(), strict=True)
    at = [names.index(check.__name__) for check in CHECKS]
    assert at == sorted(at) and names[-1] == "rate_whole" and len(set(at)) == len(CHECKS) >= 4
    assert set(names) >= {"propose", "refuse_possible", "rate_at_best", "take", "rate"}
    assert all(len(said.split()) > 5 and said[0].isupper() and said.endswith((".", "`).")) for said in sentences)
    reasons = {reason for reason in REASONS if any(f"`{reason}`" in said for said in sentences)}
    assert reasons >= {
        "dangling_pronoun", "ungrammatical", "related_in_caption", "sibling_says_so", "likely_true", "unnatural",
        "compatible",
    }  # fmt: skip


def test_no_operator_is_without_negatives_of_the_sample(rows):
    captions = {name: rows.counts[f"{name}.captions"] for name in PRESETS["all"]}
    assert {name: number for name, number in captions.items() if number < CASES["least"][name]} == {}
    first = [row for row in rows.negatives if row["draw"] == 0]
    for name, (words, share) in CASES["variety"].items():
        inserted = Counter(row["replacement"] for row in first if row["operator"] == name)
        assert len(inserted) >= words, name
        assert max(inserted.values()) <= share * inserted.total(), name
