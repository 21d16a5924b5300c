"""What records become: captions without markup, names of images, ids, splits; and what is refused."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from negcap.pipelines.readers.files import split_in
from negcap.pipelines.readers.record import MAX_TEXT, Record, Rejected, clean, image_id
from negcap.schemas.captions import RECORD_REASONS

CLEANED = {
    "A man&#39;s hat &#x2014; red": "A man's hat — red",
    "A dog &amp;amp;amp; a cat": "A dog & a cat",
    '<p class="x">A dog.</p><p>A cat.</p>': "A dog. A cat.",
    "&lt;b&gt;A dog&lt;/b&gt;": "A dog",
    "A dog <!-- old --> runs": "A dog runs",
    "[/EN#1/animals A brown dog] sleeps on [/EN#2/other/scene a red couch] .": "A brown dog sleeps on a red couch .",
    "[/EN#1/people A man in [/EN#2/clothing a hat]] waves .": "A man in a hat waves .",
    "startseq a dog sleeps endseq": "a dog sleeps",
    "[CLS] a dog sleeps [SEP] [PAD]": "a dog sleeps",
    "<|startoftext|>a dog<|endoftext|>": "a dog",
    "<image>\nA dog sleeps.": "A dog sleeps.",
    "• A dog sleeps.": "A dog sleeps.",
    "b'A dog\\'s ball.'": "A dog's ball.",
}
LEFT = (
    "A sign of AT&T", "R&D; and more", "A <PERSON> sits", "2 < 3 and 4 > 3", "I <3 dogs",
    "a dog <unk> ball", "[blurred] A man", "A man - tall", "None of the dogs run.", "A startseq of lights",
    "犬が寝る", "Ärger", "b'A dog",
)  # fmt: skip
REFUSED = {
    **dict.fromkeys([".", "!?", "12 34", "NaN", "null", "None", "N/A", "🐶"], "must have a word"),
    "<b></b>": "must not be empty",
    "[/EN#1/animals A dog": "has the mark '[/EN#1/animals A dog'",
    'A dog <widget id="x"> runs': "has the mark",
    "&#7;A dog &#x202e;x": "control characters",
    "turned \u202e round": "has U+202E",
    "A caf\ufffd.": "U+FFFD, the mark of lost bytes",
}


def cleaned(text: str) -> Record | Rejected:
    return clean(Record("a.csv", 1, "1.jpg", text))


BAD_IMAGES = {
    "unsafe_path": ["../secret/owl.jpg", "a/../../owl.jpg", "a\\..\\owl.jpg", "/etc/owl.jpg", "C:\\owl.jpg",
                    "~/owl.jpg", "file:///owl.jpg", "https://host/../owl.jpg", "c:owl.jpg", "barn\\owl.jpg"],
    "no_image": ["", ".jpg", "folder/", None, 1.5, True],
    "too_long": ["a" * 1001],
    "control_characters": ["owl\x01.jpg", "owl\nhen.jpg", "owl\then.jpg", "owl\u2028hen.jpg",
                           "snow\u00adowl.jpg", "snow\u200bowl.jpg", "owl\u202ehen.jpg", "owl\ufeff.jpg",
                           "owl\ue000.jpg"],
    "not_utf8": ["owl\udcff.jpg"],
}  # fmt: skip
IMAGE_IDS = {
    "a/b/owl.jpg": "owl", "owl.JPEG": "owl", "v1.2": "v1.2", "owl.jpg.1": "owl.jpg.1", "c\\owl.png": "owl",
    "000000000009.jpg": "000000000009", "17": "17", "jpg": "jpg",
}  # fmt: skip
SPLITS = {
    "captions_train2017.json": "train", "captions_val2014.json.gz": "val", "train.csv": "train", "my-test.tsv": "test",
    "a_dev.jsonl": "dev", "training.csv": "", "values.csv": "", "barn.csv": "",
}  # fmt: skip
UNTOUCHED = ("MiXeD Case , spaced .", '"quoted" & more', "family 👨\u200d👩\u200d👧 emoji")
TEXTS = {
    "  Two \t owls\u00a0 stare . ": "Two owls stare .", "A hen\nand an egg\r\n": "A hen and an egg",
    "cafe\u0301": "café", **dict(zip(UNTOUCHED, UNTOUCHED, strict=True)),
}  # fmt: skip
HEN = "A speckled hen guards three eggs."


def test_markup_is_taken_away_and_what_may_be_words_stays() -> None:
    for text, expected in {**CLEANED, **TEXTS, **dict(zip(LEFT, LEFT, strict=True))}.items():
        record = cleaned(text)
        assert isinstance(record, Record) and record.text == expected
        assert cleaned(record.text) == record


def test_what_has_no_words_is_refused() -> None:
    for text, detail in REFUSED.items():
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
    for reason, images in BAD_IMAGES.items():
        for image in images:
            rejected = clean(Record("a.csv", 12, image, HEN))
            assert isinstance(rejected, Rejected), image
            assert (rejected[:3], rejected.text) == (("a.csv", 12, reason), HEN)
    bad_id = clean(Record("a.csv", 1, "1.jpg", HEN, id="a\x07b"))
    assert isinstance(bad_id, Rejected) and bad_id.reason == "control_characters"
    assert {image: image_id(image) for image in IMAGE_IDS} == IMAGE_IDS
    assert {name: split_in(f"s3://train/val/{name}") for name in SPLITS} == SPLITS
    spaced = [f"Owl at 9.41{space}PM.png" for space in "\u0020\u00a0\u1680\u2003\u2009\u202f\u205f\u3000"]
    seen = ("鳥\u30001.jpg", "🦉.jpg", "o'wl (2) [b] #3.jpg", "10:41 owl.jpg")
    plain = ("a" * 1000, "owl.jpg", "a/b.c/owl..jpg", "https://host/owl.jpg", "..owl", "10", "münz.png", "jpg")
    for image in (*plain, *spaced, *seen):
        assert clean(Record("a.csv", 1, image, HEN)).image == image
