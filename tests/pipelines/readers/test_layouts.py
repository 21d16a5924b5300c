"""Layouts of published data sets, three records of each in the form that they are published in. The page on formats
lists them. The sentences are made up.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import ROOT
from tests.pipelines.readers.sources import captions_of, put, read

DOG, CAT, BOYS = "A brown dog sleeps on a couch.", "A cat sits near a window.", "Two boys kick a ball."
THREE = [("1.jpg", DOG), ("1.jpg", CAT), ("2.jpg", BOYS)]
VIDEOS = [("v_1", DOG), ("v_1", CAT), ("v_2", BOYS)]
NUMBERS = [("1", DOG), ("1", CAT), ("2", BOYS)]


class Layout(NamedTuple):
    """Files by name, the columns that a user must name, and what is read: images and captions; rejected by reason."""

    files: Mapping[str, Any]
    columns: str = ""
    read: list[tuple[str, str]] = THREE
    rejected: tuple[str, ...] = ()
    folder: bool = False


def one(name: str, value: Any, columns: str = "", read: list[tuple[str, str]] = THREE, *rejected: str) -> Layout:
    """A layout of one file."""
    return Layout({name: value}, columns, read, rejected)


def rows(names: str, *values: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Rows of a table with these columns."""
    return [dict(zip(names.split(), row, strict=True)) for row in values]


def conversation(answer: str, asked: str = "from", said: str = "value", speaker: str = "gpt") -> list[dict[str, str]]:
    question = {asked: "human" if speaker == "gpt" else "user", said: "<image>\nWhat is in the picture?"}
    return [question, {asked: speaker, said: answer}]


def pair(image: str, *texts: str, **more: Any) -> dict[str, Any]:
    return {"image": image, "caption": list(texts) if len(texts) > 1 else texts[0], **more}


LAYOUTS = {
    "COCO captions": one("captions_val2014.json", {
        "info": {"year": 2014}, "images": [{"id": 1, "file_name": "1.jpg"}, {"id": 2, "file_name": "2.jpg"}],
        "licenses": [], "annotations": [{"id": n, "image_id": image, "caption": text}
                                        for n, (image, text) in enumerate([(1, DOG), (1, CAT), (2, BOYS), (3, DOG)])],
    }, "", THREE, "no_image"),
    "COCO results": one("results.json", [{"image_id": int(image), "caption": text} for image, text in NUMBERS], "",
                        NUMBERS),
    "Flickr30k and COCO of Hugging Face": one("flickr_annotations.csv", rows(
        "raw sentids split filename img_id", (json.dumps([DOG, CAT]), "[0, 1]", "train", "1.jpg", "0"),
        (json.dumps([BOYS]), "[2]", "test", "2.jpg", "1"))),
    "Flickr30k of Kaggle": one("results.csv", "image_name| comment_number| comment\n" + "".join(
        f"{image}| {n}| {text}\n" for n, (image, text) in enumerate(THREE))),
    "Flickr8k of Kaggle": one("captions.txt", f"image,caption\n1.jpg,{DOG}\n1.jpg,{CAT}\n2.jpg,{BOYS}\n"),
    "Flickr8k-CN": one("flickr8kcn.txt", f"1.jpg#enc#0 {DOG}\n1.jpg#enc#1 {CAT}\n2.jpg#enc#0 {BOYS}\n"),
    "Flickr30k Entities": Layout({
        "1.txt": "[/EN#1/animals A brown dog] sleeps on [/EN#2/other/furniture a couch] .\nA cat sits .",
        "2.txt": "[/EN#3/people Two boys] kick [/EN#0/notvisual a ball] .",
        "1.jpg": "", "2.jpg": "",
    }, "", [("1.jpg", "A brown dog sleeps on a couch ."), ("1.jpg", "A cat sits ."),
            ("2.jpg", "Two boys kick a ball .")], (), True),
    "MSVD": one("sents_train.txt", f"vid_1_5_15 {DOG}\nvid_1_5_15 {CAT}\n-4x_2_8 {BOYS}\n", "",
                [("vid_1_5_15", DOG), ("vid_1_5_15", CAT), ("-4x_2_8", BOYS)]),
    "MSR-VTT": one("videodatainfo.json", {
        "info": {"year": "2016"}, "videos": [{"video_id": "v_1", "split": "train", "url": "https://x.org/1"},
                                             {"video_id": "v_2", "split": "train", "url": "https://x.org/2"}],
        "sentences": [{"caption": text, "video_id": video, "sen_id": n} for n, (video, text) in enumerate(VIDEOS)],
    }, "", VIDEOS),
    "VATEX": one("vatex.json", [{"videoID": "v_1", "enCap": [DOG, CAT], "chCap": ["狗", "猫"]},
                                {"videoID": "v_2", "enCap": [BOYS], "chCap": ["男孩"]}],
                 "caption=enCap", VIDEOS),
    "ActivityNet Captions": one("train.json", {
        "v_1": {"duration": 9.5, "timestamps": [[0, 4.2], [4.2, 9]], "sentences": [DOG, CAT]},
        "v_2": {"duration": 5, "timestamps": [[0, 5]], "sentences": [BOYS]},
    }, "", VIDEOS),
    "YouCook2": one("annotations.json", {"database": {
        "v_1": {"duration": 9, "subset": "training", "annotations": [{"id": 0, "segment": [0, 3], "sentence": DOG},
                                                                     {"id": 1, "segment": [3, 5], "sentence": CAT}]},
        "v_2": {"duration": 4, "subset": "validation", "annotations": [{"id": 0, "segment": [0, 3], "sentence": BOYS}]},
    }}, "", VIDEOS),
    "AudioCaps": one("val.csv", rows(
        "audiocap_id youtube_id start_time caption", *((7, video, "30", text) for video, text in VIDEOS)),
        "", VIDEOS),
    "Clotho": one("clotho_captions.csv",
                  rows("file_name caption_1 caption_2", ("1.wav", DOG, CAT), ("2.wav", BOYS, "")),
                  "caption=caption_1,caption=caption_2", [("1.wav", DOG), ("1.wav", CAT), ("2.wav", BOYS)]),
    "SpokenCOCO": one("SpokenCOCO_val.json", {"image_dir": "", "data": [
        {"image": "1.jpg", "captions": [{"text": DOG, "wav": "a.wav"}, {"text": CAT, "wav": "b.wav"}]},
        {"image": "2.jpg", "captions": [{"text": BOYS, "wav": "c.wav"}]}]}),
    "TextCaps": one("TextCaps_0.1_train.json", {
        "dataset_type": "train", "dataset_name": "textcaps", "dataset_version": "0.1",
        "data": [{"caption_str": text, "image_name": image, "image_id": image, "reference_strs": ["x"], "caption_id": n,
                  "set_name": "train"} for n, (image, text) in enumerate(THREE)],
    }),
    "VizWiz-Captions": one("val.json", {
        "images": [{"id": 0, "file_name": "1.jpg"}, {"id": 1, "file_name": "2.jpg"}],
        "annotations": [
            {"id": 0, "image_id": 0, "caption": DOG, "is_rejected": False, "is_precanned": False},
            {"id": 1, "image_id": 0, "caption": CAT, "is_rejected": False, "is_precanned": False},
            {"id": 2, "image_id": 1, "caption": BOYS, "is_rejected": False, "is_precanned": False},
            {"id": 3, "image_id": 1, "caption": "The picture is too dark.", "is_rejected": True, "is_precanned": True},
        ]}, "", THREE, "false_caption"),
    "VSR": one("dev.jsonl", [{"image": image, "caption": text, "label": 1} for image, text in THREE]
               + [{"image": "2.jpg", "caption": "The ball is on the boys.", "label": 0}], "truth=label", THREE,
               "false_caption"),
    "Visual Genome regions": one("region_descriptions.json", [
        {"id": 1, "regions": [{"region_id": 5, "image_id": 1, "phrase": DOG, "x": 0, "width": 9},
                              {"region_id": 6, "image_id": 1, "phrase": CAT, "x": 2, "width": 4}]},
        {"id": 2, "regions": [{"region_id": 7, "image_id": 2, "phrase": BOYS, "x": 3, "width": 5}]}], "", NUMBERS),
    "RefCOCO": one("refs.json", [{"file_name": "1.jpg", "split": "val", "sentences": [{"raw": DOG, "sent": "a dog"},
                                                                                     {"raw": CAT, "sent": "a cat"}]},
                                 {"file_name": "2.jpg", "split": "val", "sentences": [{"raw": BOYS, "sent": "boys"}]}]),
    "Image Paragraphs": one("paragraphs_v1.json", [
        {"url": f"https://x.org/{n}.jpg", "image_id": n, "paragraph": text} for n, (_, text) in enumerate(NUMBERS)],
        "image=image_id", [("0", DOG), ("1", CAT), ("2", BOYS)]),
    "XM3600": one("captions.jsonl", [
        {"image/key": "1", "image/locale": "en", "en": {"caption": [DOG, CAT], "caption/tokenized": ["x", "y"]},
         "de": {"caption": ["Ein Hund.", "Eine Katze."]}},
        {"image/key": "2", "image/locale": "de", "en": {"caption": [BOYS]}, "de": {"caption": ["Zwei Jungen."]}},
    ], "caption=en.caption", NUMBERS),
    "ImageInWords": one("data.jsonl", [{"image/key": image, "image-url": f"https://x.org/{image}", "IIW": text}
                                       for image, text in THREE], "image=image/key,caption=IIW"),
    "Localized Narratives": one("open_images_val.jsonl", [
        {"dataset_id": "mscoco_val2017", "image_id": image, "annotator_id": 3, "caption": text, "timed_caption": [
            {"utterance": "x", "start_time": 0.0}], "traces": [[]], "voice_recording": "a.ogg"}
        for image, text in NUMBERS], "", NUMBERS),
    "Conceptual Captions": one("Train_GCC-training.tsv", "".join(
        f"{text}\thttps://x.org/{n}/\n" for n, (_, text) in enumerate(THREE, 1)), "image=2,caption=1",
        [(f"https://x.org/{n}/", text) for n, (_, text) in enumerate(THREE, 1)]),
    "SBU Captions": one("sbu-captions-all.json", {
        "image_urls": ["https://x.org/1.jpg", "https://x.org/2.jpg", "https://x.org/3.jpg"],
        "user_ids": ["a", "b", "c"], "captions": [DOG, CAT, BOYS]}, "image=image_urls,caption=captions",
        [("https://x.org/1.jpg", DOG), ("https://x.org/2.jpg", CAT), ("https://x.org/3.jpg", BOYS)]),
    "RedCaps": one("cats_2020.json", {"info": {"version": "1"}, "annotations": [
        {"image_id": image, "author": "a", "url": "https://x.org", "raw_caption": text.upper(), "caption": text}
        for image, text in NUMBERS]}, "", NUMBERS),
    "BLIP": one("coco_karpathy_train.json", [{"caption": text, "image": image, "image_id": f"coco_{image}"}
                                             for image, text in THREE]),
    "LLaVA and ShareGPT4V": one("llava.json", [{"id": str(n), "image": image, "conversations": conversation(text)}
                                               for n, (image, text) in enumerate(THREE)], "caption=conversations"),
    "messages of OpenAI": one("train.jsonl", [
        {"image": image, "messages": conversation(text, "role", "content", "assistant")} for image, text in THREE],
        "caption=messages"),
    "captions by image": one("captions.json", {"1.jpg": [DOG, CAT], "2.jpg": [BOYS]}),
    "a caption by image": one("captions.json", dict([("1.jpg", DOG), ("2.jpg", BOYS), ("3.jpg", CAT)]), "",
                              [("1.jpg", DOG), ("2.jpg", BOYS), ("3.jpg", CAT)]),
    "objects by image": one("captions.json", {"1.jpg": [{"raw": DOG}, {"raw": CAT}], "2.jpg": [{"raw": BOYS}]}),
    "a list in an object": one("captions.json", {"version": "1.0", "data": [pair(*row) for row in THREE]}),
    "lists by split": one("captions.json", {"train": [pair("1.jpg", DOG, CAT)], "val": [pair("2.jpg", BOYS)]}),
    "columns of pandas": one("captions.json", {
        "image": {str(n): image for n, (image, _) in enumerate(THREE)},
        "caption": {str(n): text for n, (_, text) in enumerate(THREE)}}),
    "CLIP_benchmark": one("0.tar", {"s1.jpg": "", "s1.txt": f"{DOG}\n{CAT}", "s2.jpg": "", "s2.txt": BOYS}, "",
                          [("s1.jpg", DOG), ("s1.jpg", CAT), ("s2.jpg", BOYS)]),
    "img2dataset": one("00000.tar", {
        f"00{n}.{suffix}": value for n, text in enumerate([DOG, CAT, BOYS])
        for suffix, value in {"jpg": "", "txt": text, "json": {"caption": text, "url": n}}.items()},
                       "", [("000.jpg", DOG), ("001.jpg", CAT), ("002.jpg", BOYS)]),
    "members apart": one("a.tar", {"1.jpg": "", "2.jpg": "", "1.txt": f"{DOG}\n{CAT}", "2.txt": BOYS}),
    "dots in names": one("a.tar", {"a.01.jpg": "", "a.01.txt": f"{DOG}\n{CAT}", "a.02.jpg": "", "a.02.txt": BOYS},
                         "", [("a.01.jpg", DOG), ("a.01.jpg", CAT), ("a.02.jpg", BOYS)]),
    "other suffixes": one("a.tar", {"1.input.jpg": "", "1.long.txt": f"{DOG}\n{CAT}", "1.tags.txt": "dog",
                                    "2.input.jpg": "", "2.long.txt": BOYS, "2.tags.txt": "ball"},
                          "caption=long.txt", [("1.input.jpg", DOG), ("1.input.jpg", CAT), ("2.input.jpg", BOYS)]),
    "kohya": Layout({"10_dog/1.jpg": "", "10_dog/1.txt": f"{DOG}\n{CAT}", "5_boys/2.png": "", "5_boys/2.caption": BOYS},
                    "", [("10_dog/1.jpg", DOG), ("10_dog/1.jpg", CAT), ("5_boys/2.png", BOYS)], (), True),
    "CUB-200": Layout({"text_c10/001.Terrier/terrier_1.txt": f"{DOG}\n{CAT}\n", "text_c10/002.Boys/boys_2.txt": BOYS},
                      "", [("text_c10/001.Terrier/terrier_1", DOG), ("text_c10/001.Terrier/terrier_1", CAT),
                           ("text_c10/002.Boys/boys_2", BOYS)], (), True),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_published_layout_is_read(layout: Layout, tmp_path: Path) -> None:
    path = put(tmp_path, layout.files)
    found = read(tmp_path if layout.folder else path, columns=layout.columns)
    assert found.captions == layout.read
    assert tuple(bad.reason for bad in found.rejected) == layout.rejected


def test_the_page_on_formats_lists_every_layout_with_its_columns() -> None:
    page = (ROOT / "docs/pages/reference/formats.md").read_text()
    rows = re.findall(r"^\| ([^|]+?) \| [^\n]* \| (.*?) ?\|$", page.partition("### Layouts")[2], re.MULTILINE)
    listed = {name: re.sub(r"`|--columns |\s", "", columns) for name, columns in rows}
    assert {name: listed.get(name) for name in LAYOUTS} == {name: layout.columns for name, layout in LAYOUTS.items()}


MORE = {  # a JSON file that is one object, or lines: images and captions
    "captions alone in a list": ({"data": [{"caption": DOG}, {"caption": CAT}]}, [("1", DOG), ("2", CAT)]),
    "beside objects about it": (
        {"info": {"about": "some captions", "url": "x y"}, "data": {"1.jpg": [DOG], "2.jpg": [CAT]}},
        [("1.jpg", DOG), ("2.jpg", CAT)]),
    "deep inside": ({"result": {"dataset": {"items": [pair("1.jpg", DOG)]}}}, [("1.jpg", DOG)]),
    "one image": ({"1.jpg": [DOG, CAT]}, [("1.jpg", DOG), ("1.jpg", CAT)]),
    "one record": ({"image": "1.jpg", "caption": DOG}, [("1.jpg", DOG)]),
    "columns as lists": ({"image": ["1.jpg", "2.jpg"], "caption": [DOG, CAT]}, [("1.jpg", DOG), ("2.jpg", CAT)]),
    "columns as lists of lists": ({"image": ["1.jpg", "2.jpg"], "caption": [[DOG, CAT], [BOYS]]}, THREE),
    "parts": ({"part_a": [pair("1.jpg", DOG)], "part_b": [pair("2.jpg", CAT)]}, [("1.jpg", DOG), ("2.jpg", CAT)]),
    "images with captions": (
        {"images": [{"file_name": "1.jpg", "captions": [DOG, CAT]}]}, [("1.jpg", DOG), ("1.jpg", CAT)]),
    "by an id, with the image": (
        {"17": pair("1.jpg", DOG), "18": pair("2.jpg", CAT)}, [("1.jpg", DOG), ("2.jpg", CAT)]),
    "by the image, with more": ({"a/1.png": {"caption": DOG, "tags": "dog"}}, [("a/1.png", DOG)]),
    "turns of a conversation": ([{"image": "1.jpg", "conversations": conversation(DOG)}], [("1.jpg", DOG)]),
}  # fmt: skip
REFUSED = {  # such files that have no captions, or leave open which; what the message offers
    "nothing but words about it": ({"info": {"about": "captions of dogs"}, "things": [1, 2]}, "must have a list of"),
    "two lists": ({"a": [pair("1.jpg", DOG, nr=1)], "b": [pair("2.jpg", CAT, size=2)]}, "must have a list of objects"),
    "two objects": (
        {"nr": 1, "a": {"items": [pair("1.jpg", DOG)]}, "b": {"items": [pair("2.jpg", CAT)]}}, "must have a list of"),
    "words by word": ({"dog": "an animal that barks", "cat": "an animal that purrs"}, "no image column found"),
    "numbers": ({"1.jpg": 3, "2.jpg": 4}, "no image column found"),
    "texts off signs": ([{"image": "1.jpg", "signs": [{"text": "STOP"}, {"text": "GO"}]}], "no caption column found"),
    "conversations": ([{"image": "1.jpg", "conversations": conversation(DOG)}],
                      "--columns caption=conversations takes the answers in conversations"),
    "numbered columns": ([{"image": "1.jpg", "caption_1": DOG, "caption_2": CAT}],
                         "if caption_1, caption_2 all have true captions of the image, use "
                         "--columns caption=caption_1,caption=caption_2"),
    "lists of unknown columns": ({"pictures": [{"nr": 1}], "remarks": [{"said": DOG, "nr": 1}]},
                                 "has pictures, a list of objects (nr); remarks, a list of objects (said, nr)"),
    "columns inside": ([{"picture": {"nr": 1}, "remark": {"said": DOG}}],
                       "(columns: picture, remark, picture.nr, remark.said)"),
}  # fmt: skip


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", MORE)
def test_records_are_found_in_an_object(name: str, indent: int | None, tmp_path: Path) -> None:
    value, expected = MORE[name]
    columns = "caption=conversations.value" if "conversation" in name else ""  # questions are no captions
    assert captions_of(put(tmp_path, {"a.json": json.dumps(value, indent=indent)}), "", columns) == expected


def test_a_line_for_each_image(tmp_path: Path) -> None:
    assert captions_of(put(tmp_path, {"a.jsonl": [{"1.jpg": [DOG, CAT]}, {"2.jpg": BOYS}]}), "table") == THREE


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_what_was_seen_in_a_line(name: str, tmp_path: Path) -> None:
    value, offered = REFUSED[name]
    with pytest.raises(ValueError, match=re.escape(offered)) as error:
        read(put(tmp_path, {"a.json": value}))
    assert "\n" not in str(error.value)
