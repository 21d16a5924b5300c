"""What is taken away around the words of captions, and what is left."""

import time

import pytest

from negcap.pipelines.readers.record import Record, Rejected, clean

CLEANED = {
    "A dog &amp; a cat": "A dog & a cat",
    "A man&#39;s hat &#x2014; red": "A man's hat — red",
    "A dog &amp;amp;amp; a cat": "A dog & a cat",
    "A hat on a <b>red</b> chair.": "A hat on a red chair.",
    '<p class="x">A dog.</p><p>A cat.</p>': "A dog. A cat.",
    "A dog<br/>and a cat": "A dog and a cat",
    "&lt;b&gt;A dog&lt;/b&gt;": "A dog",
    "A dog <!-- old --> runs": "A dog runs",
    "A dog&nbsp;runs": "A dog runs",
    "[/EN#1/animals A brown dog] sleeps on [/EN#2/other/scene a red couch] .": "A brown dog sleeps on a red couch .",
    "[/EN#1/people A man in [/EN#2/clothing a hat]] waves .": "A man in a hat waves .",
    "<start> a dog sleeps <end>": "a dog sleeps",
    "startseq a dog sleeps endseq": "a dog sleeps",
    "[CLS] a dog sleeps [SEP] [PAD]": "a dog sleeps",
    "<|startoftext|>a dog<|endoftext|>": "a dog",
    "<s> a dog </s>": "a dog",
    "<image>\nA dog sleeps.": "A dog sleeps.",
    "- A dog sleeps.": "A dog sleeps.",
    "• A dog sleeps.": "A dog sleeps.",
    "b'A dog\\'s ball.'": "A dog's ball.",
}
LEFT = (
    "A sign of AT&T", "R&D; and more", "A <PERSON> sits", "2 < 3 and 4 > 3", "I <3 dogs",
    "a dog <unk> ball", "[blurred] A man", "A man - tall", "None of the dogs run.", "A startseq of lights",
    "犬が寝る", "Ärger", "b'A dog",
)  # fmt: skip
REFUSED = {
    ".": "must have a word", "...": "must have a word", "!?": "must have a word", "12 34": "must have a word",
    "NaN": "must have a word", "null": "must have a word", "None": "must have a word", "N/A": "must have a word",
    "🐶": "must have a word", "<b></b>": "must not be empty", 
    "[/EN#1/animals A dog": "has the mark '[/EN#1/animals A dog'",
    'A dog <widget id="x"> runs': "has the mark", "&#7;A dog &#x202e;x": "control characters",
}  # fmt: skip


def cleaned(text: str) -> Record | Rejected:
    return clean(Record("a.csv", 1, "1.jpg", text))


@pytest.mark.parametrize("text", CLEANED)
def test_markup_is_taken_away(text: str) -> None:
    record = cleaned(text)
    assert isinstance(record, Record) and record.text == CLEANED[text]
    assert cleaned(record.text) == record


@pytest.mark.parametrize("text", LEFT)
def test_what_may_be_words_stays(text: str) -> None:
    record = cleaned(text)
    assert isinstance(record, Record) and record.text == text


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_words_is_refused(text: str) -> None:
    record = cleaned(text)
    assert isinstance(record, Rejected) and REFUSED[text] in record.detail
    assert record.reason == ("control_characters" if "&#" in text else "no_text")


def test_markup_without_end_costs_no_time() -> None:
    started = time.process_time()
    assert isinstance(cleaned("&amp;" * 200_000), Rejected)
    assert isinstance(cleaned("&" + "amp;" * 4_000 + " a dog"), Rejected)  # it is too long
    assert isinstance(cleaned("<b " * 600 + " a dog"), Record | Rejected)
    assert time.process_time() - started < 2
