"""Negatives of a table of parses: their rows, and what becomes of what fails."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

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
from tests.augment.fixtures import batch_of, captions_of, parse_texts, sample_lexicon, sample_parses


def some_parses() -> pa.Table:
    """Those of the sample's first 50 images."""
    return sample_parses().slice(0, 250)


def made(
    config: NegativesConfig | None = None, parses: pa.Table | None = None
) -> tuple[list[dict], list[dict], Counter]:
    parses = some_parses() if parses is None else parses
    tables, counts = generate_tables(parses, sample_lexicon(), config or NegativesConfig())
    check(tables["negatives"], NEGATIVES)
    check(tables["rejections"], REJECTIONS)
    return tables["negatives"].to_pylist(), tables["rejections"].to_pylist(), counts


@pytest.fixture(scope="module")
def rows() -> tuple[list[dict], list[dict], Counter]:
    return made()


def test_rows_are_numbered_within_their_quotas_and_made_by_their_edits(rows: tuple) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    texts, said = set(), dict[str, set[str]]()
    for row in some_parses().to_pylist():
        said.setdefault(row["image_id"], set()).add(row["text"].lower())
    for row in rows[0]:
        edits = [Edit(edit["start"], edit["end"], edit["new"]) for edit in row["edits"]]
        assert apply_edits(row["caption"], edits) == row["text"] != row["caption"]
        assert all(row["caption"][edit["start"] : edit["end"]] == edit["old"] for edit in row["edits"])
        assert row["text"].lower() not in said[row["image_id"]]
        key = (row["caption_id"], row["operator"])
        assert row["negative_id"] == f"{key[0]}#{key[1]}:{seen[key]}"
        seen[key] += 1
        texts.add((*key, row["text"].lower()))
    assert len(texts) == len(rows[0])
    quota = NegativesConfig().quota
    assert all(n <= quota(operator) for (_, operator), n in seen.items())
    assert quota("noun") == 20 and quota("shuffle") == quota("preposition") == 10
    assert {row["reason"] for row in rows[1]} <= set(REASONS) - {TOO_LONG, OPERATOR_ERROR}
    of_form = {"interchangeable", "ungrammatical", "no_candidate"}
    assert all((row["detail"] is None) == (row["reason"] in of_form) for row in rows[1])
    of_siblings = {"sibling_says_so", "sibling_quantity", "related_in_sibling", "overlap_in_sibling"}
    assert all(row["sibling_id"] for row in rows[1] if row["reason"] in of_siblings)
    assert all(row["sibling_id"] != row["caption_id"] for row in rows[1])
    assert all(bool(row["text"]) == bool(row["edits"]) for row in rows[1])
    assert [row["draw"] for row in rows[0]] == [int(row["negative_id"].rpartition(":")[2]) for row in rows[0]]
    made = Counter(row["operator"] for row in rows[0])
    captions = Counter(operator for _, operator in seen)
    expected = {f"{name}.rows": n for name, n in made.items()} | {f"{name}.captions": n for name, n in captions.items()}
    assert rows[2].items() >= {**expected, "captions": some_parses().num_rows}.items()
    assert sum(n for name, n in rows[2].items() if name.startswith("rejected.")) == len(rows[1])


def test_no_captions_have_tables_of_no_rows() -> None:
    tables, _ = generate_tables(sample_parses().slice(0, 0), sample_lexicon(), NegativesConfig())
    for schema in (NEGATIVES, POSITIVES, REJECTIONS, EXCLUDED):
        name = schema.metadata[b"table"].decode()
        check(tables[name], schema)
        assert tables[name].num_rows == 0


def test_no_article_goes_wrong(rows: tuple) -> None:
    def wrong(text: str) -> int:
        words = text.split()
        pairs = zip(words, words[1:], strict=False)
        return sum(
            w.lower() in ("a", "an") and n[:1].isalnum() and indefinite_article(n) != w.lower() for w, n in pairs
        )

    assert not [row["text"] for row in rows[0] if wrong(row["text"]) > wrong(row["caption"])]


def test_another_operator_changes_no_rows(rows: tuple) -> None:
    alone = made(NegativesConfig(operators=("preposition",)))[0]
    assert alone == [row for row in rows[0] if row["operator"] == "preposition"]


@pytest.fixture(scope="module")
def all_rows() -> tuple[list[dict], list[dict]]:
    """The negatives and rejections of all operators that check what they make."""
    return made(NegativesConfig(operators=PRESETS["all"]))[:2]


@pytest.mark.parametrize("name", PRESETS["all"])
def test_an_operator_makes_the_same_alone_as_among_all_others(
    name: str, all_rows: tuple[list[dict], list[dict]]
) -> None:
    alone = made(NegativesConfig(operators=(name,)))[:2]
    assert alone == tuple([row for row in table if row["operator"] == name] for table in all_rows)


@settings(max_examples=3, deadline=None)
@given(st.permutations(range(20)))
def test_order_of_images_and_shards_changes_no_rows(rows: tuple, order: list[int]) -> None:
    parses = some_parses()
    images = parses["image_id"].unique().to_pylist()
    shuffled = pa.concat_tables([parses.filter(pc.equal(parses["image_id"], images[number])) for number in order])
    half = shuffled.num_rows // 10 * 5
    apart = [row for part in (shuffled.slice(0, half), shuffled.slice(half)) for row in made(parses=part)[0]]
    straight = [row for row in rows[0] if row["image_id"] in images[:20]]
    key = lambda row: row["negative_id"]  # noqa: E731
    assert sorted(straight, key=key) == sorted(apart, key=key) != []


def test_bad_configs_are_named() -> None:
    with pytest.raises(ValueError, match="operators must be distinct"):
        NegativesConfig(operators=("noun", "noun"))
    with pytest.raises(ValueError, match="operator must be one of"):
        NegativesConfig(operators=("adverb",))


def test_operators_that_do_not_run_are_tried_on_captions_without_negatives(monkeypatch: pytest.MonkeyPatch) -> None:
    config = NegativesConfig(operators=("shuffle", "true_negation"), per_family=1)
    before, _, few = made(config)
    monkeypatch.setattr("negcap.augment.generate.PROBED", 1)
    after, _, counts = made(config)
    assert after == before and 0 < few["tried"] < few["captions.without"] == counts["tried"]
    covered = {row["caption_id"] for row in before}
    alone = [row["caption_id"] for row in made(config.changed(operators=("noun",)))[0]]
    assert counts["more.noun"] == len({*alone} - covered) > counts["more.shuffle"] == counts["more.paraphrase"] == 0
    assert made(config.changed(operators=PRESETS["all"]))[2]["tried"] == 0


def test_paraphrases_are_positives_and_nothing_else_is() -> None:
    config = NegativesConfig(operators=PRESETS["all"], per_family=1)
    tables, counts = generate_tables(some_parses(), sample_lexicon(), config)
    check(tables["positives"], POSITIVES)
    assert set(tables["positives"]["operator"].to_pylist()) == {"paraphrase", "true_negation"}
    assert set(tables["positives"]["family"].to_pylist()) == {"positive"}
    assert not {"paraphrase", "true_negation"} & set(tables["negatives"]["operator"].to_pylist())
    assert counts["paraphrase.rows"] + counts["true_negation.rows"] == tables["positives"].num_rows
    assert counts["paraphrase.rows"] > 1


class Fails(ListingOperator):
    """Proposes one negative, and then fails on captions about a boy."""

    def __init__(self, error: Exception) -> None:
        super().__init__("noun", Traits("noun", 1.0, is_rated=False))
        self.error = error

    def list_rows(self, evidence: Evidence, batch: Batch, seed: int) -> Iterable[Row]:
        yield Row("none", (Edit(0, 1, "X"),), (0,), "a", "x")
        if "boy" in evidence.caption.lowered:
            raise self.error


def test_an_operator_that_fails_rejects_the_caption(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_caption_that_is_too_long_is_rejected_by_every_operator() -> None:
    texts, ids = ["A dog on a table. " * 300, "A dog on a table."], ["long", "short"]
    accepted, refused, counts = made(NegativesConfig(operators=PRESETS["all"]), parse_texts(texts, ids, ids))
    whole = [row for row in refused if row["caption_id"] == "long"]
    assert [(row["operator"], row["reason"]) for row in whole] == [(name, TOO_LONG) for name in PRESETS["all"]]
    assert {row["detail"] for row in whole} == {f"caption must be <= {MAX_TOKENS} tokens"}
    assert accepted and {row["caption_id"] for row in accepted} == {"short"} and counts["captions.without"] == 1


def test_a_rejection_names_the_word_and_the_sibling_that_decided() -> None:
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


def test_the_fallback_is_used_only_where_nothing_else_passes_the_checks() -> None:
    text, config = "A dog on a couch.", NegativesConfig(operators=("noun",))
    cat, horse, bad = (Row("noun", (Edit(2, 5, new),), (1,), "dog", new) for new in ("cat", "horse", "puppy"))

    def made(rows: Sequence[Row], fallback: Sequence[Row], **limits: float) -> OperatorResult:
        settings = config.changed(**{"preferred_unnatural": 1.0, "max_unnatural": 1.0, "max_compatible": 1.0, **limits})
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


@pytest.mark.parametrize(
    ("change", "replacement", "noun"),
    [
        ("noun", "cat", "cat"), ("noun", "tennis racket", "tennis racket"), ("noun", "tennis zzz", None),
        ("swap", "peace | dog", "peace"), ("swap", "dog | peace", "peace"), ("swap", "dog | zzz", None),
        ("numeral", "two", None), ("preposition", "in front of", None), ("attribute", "orange", None),
        ("attribute_swap", "orange | rose", None), ("verb", "park", None),
    ],
)  # fmt: skip
def test_concreteness_is_that_of_the_noun_inserted(change: str, replacement: str, noun: str | None) -> None:
    assert concreteness_of_change(change, replacement) == (Concreteness.load().score(noun) if noun else None)


def test_the_steps_are_all_checks_in_order_and_each_is_said_in_a_sentence() -> None:
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


# At least so many negatives of the sample with one per family: half of what there are.
LEAST = {
    "noun": 250, "numeral": 250, "shuffle": 8, "preposition": 110, "object": 145, "attribute": 115, "relation": 145,
    "swap_attribute": 4, "verb": 25, "negation": 55, "true_negation": 245, "paraphrase": 12,
}  # fmt: skip


# How many different words each inserts, at least, and the share of the commonest, at most.
MOST = {
    "noun": (60, 0.15), "numeral": (4, 0.75), "preposition": (10, 0.35), "attribute": (18, 0.25), "verb": (7, 0.5),
}  # fmt: skip


def test_no_operator_is_without_negatives_of_the_sample() -> None:
    config = NegativesConfig(operators=PRESETS["all"], per_family=1)
    tables, counts = generate_tables(sample_parses(), sample_lexicon(), config)
    assert set(LEAST) == set(PRESETS["all"])
    assert {name: counts[f"{name}.rows"] for name, least in LEAST.items() if counts[f"{name}.rows"] < least} == {}
    inserted: dict[str, Counter[str]] = {name: Counter() for name in MOST}
    for row in tables["negatives"].to_pylist():
        if row["operator"] in MOST:
            inserted[row["operator"]][row["replacement"]] += 1
    for name, (words, share) in MOST.items():
        assert len(inserted[name]) >= words
        assert max(inserted[name].values()) <= share * inserted[name].total()
