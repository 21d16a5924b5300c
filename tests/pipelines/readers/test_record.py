"""What records become: captions without markup, names of images, ids, splits; and what is refused."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from negcap.pipelines.readers.files import split_in
from negcap.pipelines.readers.record import MAX_TEXT, Record, Rejected, clean, image_id
from negcap.schemas.captions import RECORD_REASONS
from tests.pipelines.readers.sources import CASES

CASE = CASES["record"]
HEN = "A speckled hen guards three eggs."


def cleaned(text: str) -> Record | Rejected:
    return clean(Record("a.csv", 1, "1.jpg", text))


def test_markup_is_taken_away_and_what_may_be_words_stays() -> None:
    for text, expected in {**CASE["cleaned"], **dict(zip(CASE["left"], CASE["left"], strict=True))}.items():
        record = cleaned(text)
        assert isinstance(record, Record) and record.text == expected
        assert cleaned(record.text) == record


def test_what_has_no_words_is_refused() -> None:
    for text, detail in CASE["refused"].items():
        record = cleaned(text)
        assert isinstance(record, Rejected) and detail in record.detail
        assert (record.reason == "no_text") == ("U+" not in detail and "control" not in detail)
    for text in ("\u200b", "\u200b\u200d\u2060", "\ufeff", " \u00ad ", "\u3164", "\u2800\ufe0f", "\U000e0041"):
        assert cleaned(text).reason == "no_text"
        assert cleaned(f"{text}owl").text.endswith("owl")


def test_markup_without_end_costs_no_time() -> None:
    started = time.process_time()
    assert isinstance(cleaned("&amp;" * 200_000), Rejected)
    assert isinstance(cleaned("&" + "amp;" * 4_000 + " a dog"), Rejected)  # it is too long
    assert isinstance(cleaned("<b " * 600 + " a dog"), Record | Rejected)
    assert time.process_time() - started < 2


@settings(deadline=None)
@given(st.text(max_size=80))
def test_cleaning_is_idempotent_and_total(text):
    record = cleaned(text)
    if isinstance(record, Record):
        assert clean(record) == record
        assert 0 < len(record.text.encode("utf-8")) and len(record.text) <= MAX_TEXT and "  " not in record.text
    else:
        assert record.reason in RECORD_REASONS and record.text.encode("utf-8") is not None


def test_names_of_images_and_splits() -> None:
    bad = [(reason, name) for reason, names in CASE["bad_images"].items() for name in names]
    bad += [("no_image", None), ("no_image", 1.5), ("no_image", True), ("too_long", "a" * 1001)]
    for reason, image in [*bad, ("not_utf8", "owl\udcff.jpg")]:
        rejected = clean(Record("a.csv", 12, image, HEN))
        assert isinstance(rejected, Rejected), image
        assert (rejected[:3], rejected.text) == (("a.csv", 12, reason), HEN)
    spaced = [f"Owl at 9.41{space}PM.png" for space in "\u0020\u00a0\u1680\u2003\u2009\u202f\u205f\u3000"]
    seen = ("鳥\u30001.jpg", "🦉.jpg", "o'wl (2) [b] #3.jpg", "10:41 owl.jpg")
    plain = ("a" * 1000, "owl.jpg", "a/b.c/owl..jpg", "https://host/owl.jpg", "..owl", "10", "münz.png", "jpg")
    for image in (*plain, *spaced, *seen):
        assert clean(Record("a.csv", 1, image, HEN)).image == image
    assert {image: image_id(image) for image in CASE["image_ids"]} == CASE["image_ids"]
    assert {name: split_in(f"s3://train/val/{name}") for name in CASE["splits"]} == CASE["splits"]


def test_an_id_is_a_part_of_a_name() -> None:
    ids = {" 7 ": "7", "a/b": "a_b", "https://x.org/a?key=secret": "8930f3fe78db90ad"}
    assert {id: clean(Record("a.csv", 1, "1.jpg", HEN, id=id)).id for id in ids} == ids
    bad_id = clean(Record("a.csv", 1, "1.jpg", HEN, id="a\x07b"))
    assert isinstance(bad_id, Rejected) and bad_id.reason == "control_characters"
