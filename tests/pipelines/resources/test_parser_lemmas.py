"""The lemma tables, and that spaCy's lemmatizer reads them as `lemma` does."""

from typing import Any

import pytest

from negcap.pipelines.resources.parser.lemmas import lemma, lemma_tables

pytest.importorskip("spacy_lookups_data", reason="the lemma tables are built from spacy-lookups-data")

FORMS = {
    "verb": "riding:ride staring:stare hopping:hop hoping:hope walking:walk singing:sing swinging:swing "
    "sitting:sit "
    "skateboarding:skateboard catches:catch passes:pass rides:ride bring:bring need:need dress:dress "
    "crossing:cross "
    "flies:fly lying:lie wearing:wear lit:light racing:race skiing:ski leaves:leave using:use waves:wave",
    "noun": "men:man people:people buses:bus bus:bus glasses:glass glass:glass tennis:tennis grass:grass "
    "vases:vase "
    "cookies:cookie puppies:puppy leaves:leaf knives:knife children:child women:woman skis:ski sheep:sheep "
    "boxes:box "
    "horses:horse shorts:shorts jeans:jeans lens:lens lenses:lens benches:bench brownies:brownie waves:wave "
    "gloves:glove "
    "cows:cow roses:rose feet:foot ties:tie series:series stairs:stair selfies:selfie frisbees:frisbee "
    "clothes:clothes",
    "adj": "older:old bigger:big happier:happy other:other silver:silver best:good nicer:nice upper:upper "
    "wooden:wooden",
    "aux": "is:be are:be has:have does:do 's:be been:be being:be can:can",
    "pron": "i:I him:he them:they it:it his:his",
    "part": "n't:not not:not to:to",
}


@pytest.fixture(scope="module")
def tables() -> dict[str, dict[str, Any]]:
    return lemma_tables()


@pytest.mark.parametrize("pos", FORMS)
def test_lemmas(pos: str, tables: dict[str, dict[str, Any]]) -> None:
    pairs = dict(pair.split(":") for pair in FORMS[pos].split())
    rules, exceptions = tables["lemma_rules"][pos], tables["lemma_exc"].get(pos, {})
    index = set(tables["lemma_index"].get(pos, {}))
    assert {form: lemma(form, rules, exceptions, index) for form in pairs} == pairs


def test_spacy_reads_the_tables_the_same_way(tables: dict[str, dict[str, Any]]) -> None:
    import spacy
    from spacy.lookups import Lookups
    from spacy.tokens import Doc

    nlp = spacy.blank("en")
    lookups = Lookups()
    for name, table in tables.items():
        lookups.add_table(name, table)
    lemmatizer: Any = nlp.add_pipe("lemmatizer", config={"mode": "rule"})
    lemmatizer.initialize(lookups=lookups)
    words = [
        (form, lemma_, pos.upper())
        for pos in FORMS
        for form, lemma_ in (pair.split(":") for pair in FORMS[pos].split())
    ]
    doc = lemmatizer(Doc(nlp.vocab, words=[word[0] for word in words], pos=[word[2] for word in words]))
    assert [token.lemma_ for token in doc] == [word[1] for word in words]


def test_capitals_are_lowered(tables: dict[str, dict[str, Any]]) -> None:
    import spacy

    nlp = spacy.blank("en")
    assert nlp.vocab["Man"].text == "Man"
    assert (
        lemma(
            "man",
            tables["lemma_rules"]["noun"],
            tables["lemma_exc"]["noun"],
            set(tables["lemma_index"]["noun"]),
        )
        == "man"
    )
