"""Layouts of published data sets, three records of each in the form that they are published in. The page on formats
lists them. The sentences are made up.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.pipelines.readers.sources import Case

DOG, CAT, BOYS = "A brown dog sleeps on a couch.", "A cat sits near a window.", "Two boys kick a ball."
THREE = [("1.jpg", DOG), ("1.jpg", CAT), ("2.jpg", BOYS)]
VIDEOS = [("v_1", DOG), ("v_1", CAT), ("v_2", BOYS)]
NUMBERS = [("1", DOG), ("1", CAT), ("2", BOYS)]


def layout(name: str, value: Any, columns: str = "", captions: list[tuple[str, str]] = THREE, *rejected: str) -> Case:
    """A layout of one file."""
    return Case({name: value}, captions, columns, rejected)


def rows(names: str, *values: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Rows of a table with these columns."""
    return [dict(zip(names.split(), row, strict=True)) for row in values]


def conversation(answer: str, asked: str = "from", said: str = "value", speaker: str = "gpt") -> list[dict[str, str]]:
    question = {asked: "human" if speaker == "gpt" else "user", said: "<image>\nWhat is in the picture?"}
    return [question, {asked: speaker, said: answer}]


def pair(image: str, *texts: str, **more: Any) -> dict[str, Any]:
    return {"image": image, "caption": list(texts) if len(texts) > 1 else texts[0], **more}


LAYOUTS: dict[str, Case] = {
    "COCO captions": layout("captions_val2014.json", {
        "info": {"year": 2014}, "images": [{"id": 1, "file_name": "1.jpg"}, {"id": 2, "file_name": "2.jpg"}],
        "licenses": [], "annotations": [{"id": n, "image_id": image, "caption": text}
                                        for n, (image, text) in enumerate([(1, DOG), (1, CAT), (2, BOYS), (3, DOG)])],
    }, "", THREE, "no_image"),
    "COCO results": layout("results.json", [{"image_id": int(image), "caption": text} for image, text in NUMBERS], "",
                        NUMBERS),
    "Flickr30k and COCO of Hugging Face": layout("flickr_annotations.csv", rows(
        "raw sentids split filename img_id", (json.dumps([DOG, CAT]), "[0, 1]", "train", "1.jpg", "0"),
        (json.dumps([BOYS]), "[2]", "test", "2.jpg", "1"))),
    "Flickr30k of Kaggle": layout("results.csv", "image_name| comment_number| comment\n" + "".join(
        f"{image}| {n}| {text}\n" for n, (image, text) in enumerate(THREE))),
    "Flickr8k of Kaggle": layout("captions.txt", f"image,caption\n1.jpg,{DOG}\n1.jpg,{CAT}\n2.jpg,{BOYS}\n"),
    "Flickr8k-CN": layout("flickr8kcn.txt", f"1.jpg#enc#0 {DOG}\n1.jpg#enc#1 {CAT}\n2.jpg#enc#0 {BOYS}\n"),
    "Flickr30k Entities": Case({
        "1.txt": "[/EN#1/animals A brown dog] sleeps on [/EN#2/other/furniture a couch] .\nA cat sits .",
        "2.txt": "[/EN#3/people Two boys] kick [/EN#0/notvisual a ball] .",
        "1.jpg": "", "2.jpg": "",
    }, [("1.jpg", "A brown dog sleeps on a couch ."), ("1.jpg", "A cat sits ."),
            ("2.jpg", "Two boys kick a ball .")]),
    "MSVD": layout("sents_train.txt", f"vid_1_5_15 {DOG}\nvid_1_5_15 {CAT}\n-4x_2_8 {BOYS}\n", "",
                [("vid_1_5_15", DOG), ("vid_1_5_15", CAT), ("-4x_2_8", BOYS)]),
    "MSR-VTT": layout("videodatainfo.json", {
        "info": {"year": "2016"}, "videos": [{"video_id": "v_1", "split": "train", "url": "https://x.org/1"},
                                             {"video_id": "v_2", "split": "train", "url": "https://x.org/2"}],
        "sentences": [{"caption": text, "video_id": video, "sen_id": n} for n, (video, text) in enumerate(VIDEOS)],
    }, "", VIDEOS),
    "VATEX": layout("vatex.json", [{"videoID": "v_1", "enCap": [DOG, CAT], "chCap": ["狗", "猫"]},
                                {"videoID": "v_2", "enCap": [BOYS], "chCap": ["男孩"]}],
                 "caption=enCap", VIDEOS),
    "ActivityNet Captions": layout("train.json", {
        "v_1": {"duration": 9.5, "timestamps": [[0, 4.2], [4.2, 9]], "sentences": [DOG, CAT]},
        "v_2": {"duration": 5, "timestamps": [[0, 5]], "sentences": [BOYS]},
    }, "", VIDEOS),
    "YouCook2": layout("annotations.json", {"database": {
        "v_1": {"duration": 9, "subset": "training", "annotations": [{"id": 0, "segment": [0, 3], "sentence": DOG},
                                                                     {"id": 1, "segment": [3, 5], "sentence": CAT}]},
        "v_2": {"duration": 4, "subset": "validation", "annotations": [{"id": 0, "segment": [0, 3], "sentence": BOYS}]},
    }}, "", VIDEOS),
    "AudioCaps": layout("val.csv", rows(
        "audiocap_id youtube_id start_time caption", *((7, video, "30", text) for video, text in VIDEOS)),
        "", VIDEOS),
    "Clotho": layout("clotho_captions.csv",
                  rows("file_name caption_1 caption_2", ("1.wav", DOG, CAT), ("2.wav", BOYS, "")),
                  "caption=caption_1,caption=caption_2", [("1.wav", DOG), ("1.wav", CAT), ("2.wav", BOYS)]),
    "SpokenCOCO": layout("SpokenCOCO_val.json", {"image_dir": "", "data": [
        {"image": "1.jpg", "captions": [{"text": DOG, "wav": "a.wav"}, {"text": CAT, "wav": "b.wav"}]},
        {"image": "2.jpg", "captions": [{"text": BOYS, "wav": "c.wav"}]}]}),
    "TextCaps": layout("TextCaps_0.1_train.json", {
        "dataset_type": "train", "dataset_name": "textcaps", "dataset_version": "0.1",
        "data": [{"caption_str": text, "image_name": image, "image_id": image, "reference_strs": ["x"], "caption_id": n,
                  "set_name": "train"} for n, (image, text) in enumerate(THREE)],
    }),
    "VizWiz-Captions": layout("val.json", {
        "images": [{"id": 0, "file_name": "1.jpg"}, {"id": 1, "file_name": "2.jpg"}],
        "annotations": [
            {"id": 0, "image_id": 0, "caption": DOG, "is_rejected": False, "is_precanned": False},
            {"id": 1, "image_id": 0, "caption": CAT, "is_rejected": False, "is_precanned": False},
            {"id": 2, "image_id": 1, "caption": BOYS, "is_rejected": False, "is_precanned": False},
            {"id": 3, "image_id": 1, "caption": "The picture is too dark.", "is_rejected": True, "is_precanned": True},
        ]}, "", THREE, "false_caption"),
    "VSR": layout("dev.jsonl", [{"image": image, "caption": text, "label": 1} for image, text in THREE]
               + [{"image": "2.jpg", "caption": "The ball is on the boys.", "label": 0}], "truth=label", THREE,
               "false_caption"),
    "Visual Genome regions": layout("region_descriptions.json", [
        {"id": 1, "regions": [{"region_id": 5, "image_id": 1, "phrase": DOG, "x": 0, "width": 9},
                              {"region_id": 6, "image_id": 1, "phrase": CAT, "x": 2, "width": 4}]},
        {"id": 2, "regions": [{"region_id": 7, "image_id": 2, "phrase": BOYS, "x": 3, "width": 5}]}], "", NUMBERS),
    "RefCOCO": layout("refs.json", [{"file_name": "1.jpg", "split": "val", "sentences": [{"raw": DOG, "sent": "a dog"},
                                                                                     {"raw": CAT, "sent": "a cat"}]},
                                 {"file_name": "2.jpg", "split": "val", "sentences": [{"raw": BOYS, "sent": "boys"}]}]),
    "Image Paragraphs": layout("paragraphs_v1.json", [
        {"url": f"https://x.org/{n}.jpg", "image_id": n, "paragraph": text} for n, (_, text) in enumerate(NUMBERS)],
        "image=image_id", [("0", DOG), ("1", CAT), ("2", BOYS)]),
    "XM3600": layout("captions.jsonl", [
        {"image/key": "1", "image/locale": "en", "en": {"caption": [DOG, CAT], "caption/tokenized": ["x", "y"]},
         "de": {"caption": ["Ein Hund.", "Eine Katze."]}},
        {"image/key": "2", "image/locale": "de", "en": {"caption": [BOYS]}, "de": {"caption": ["Zwei Jungen."]}},
    ], "caption=en.caption", NUMBERS),
    "ImageInWords": layout("data.jsonl", [{"image/key": image, "image-url": f"https://x.org/{image}", "IIW": text}
                                       for image, text in THREE], "image=image/key,caption=IIW"),
    "Localized Narratives": layout("open_images_val.jsonl", [
        {"dataset_id": "mscoco_val2017", "image_id": image, "annotator_id": 3, "caption": text, "timed_caption": [
            {"utterance": "x", "start_time": 0.0}], "traces": [[]], "voice_recording": "a.ogg"}
        for image, text in NUMBERS], "", NUMBERS),
    "Conceptual Captions": layout("Train_GCC-training.tsv", "".join(
        f"{text}\thttps://x.org/{n}/\n" for n, (_, text) in enumerate(THREE, 1)), "image=2,caption=1",
        [(f"https://x.org/{n}/", text) for n, (_, text) in enumerate(THREE, 1)]),
    "SBU Captions": layout("sbu-captions-all.json", {
        "image_urls": ["https://x.org/1.jpg", "https://x.org/2.jpg", "https://x.org/3.jpg"],
        "user_ids": ["a", "b", "c"], "captions": [DOG, CAT, BOYS]}, "image=image_urls,caption=captions",
        [("https://x.org/1.jpg", DOG), ("https://x.org/2.jpg", CAT), ("https://x.org/3.jpg", BOYS)]),
    "RedCaps": layout("cats_2020.json", {"info": {"version": "1"}, "annotations": [
        {"image_id": image, "author": "a", "url": "https://x.org", "raw_caption": text.upper(), "caption": text}
        for image, text in NUMBERS]}, "", NUMBERS),
    "BLIP": layout("coco_karpathy_train.json", [{"caption": text, "image": image, "image_id": f"coco_{image}"}
                                             for image, text in THREE]),
    "LLaVA and ShareGPT4V": layout("llava.json", [{"id": str(n), "image": image, "conversations": conversation(text)}
                                               for n, (image, text) in enumerate(THREE)], "caption=conversations"),
    "messages of OpenAI": layout("train.jsonl", [
        {"image": image, "messages": conversation(text, "role", "content", "assistant")} for image, text in THREE],
        "caption=messages"),
    "captions by image": layout("captions.json", {"1.jpg": [DOG, CAT], "2.jpg": [BOYS]}),
    "a caption by image": layout("captions.json", dict([("1.jpg", DOG), ("2.jpg", BOYS), ("3.jpg", CAT)]), "",
                              [("1.jpg", DOG), ("2.jpg", BOYS), ("3.jpg", CAT)]),
    "objects by image": layout("captions.json", {"1.jpg": [{"raw": DOG}, {"raw": CAT}], "2.jpg": [{"raw": BOYS}]}),
    "a list in an object": layout("captions.json", {"version": "1.0", "data": [pair(*row) for row in THREE]}),
    "lists by split": layout("captions.json", {"train": [pair("1.jpg", DOG, CAT)], "val": [pair("2.jpg", BOYS)]}),
    "columns of pandas": layout("captions.json", {
        "image": {str(n): image for n, (image, _) in enumerate(THREE)},
        "caption": {str(n): text for n, (_, text) in enumerate(THREE)}}),
    "CLIP_benchmark": layout("0.tar", {"s1.jpg": "", "s1.txt": f"{DOG}\n{CAT}", "s2.jpg": "", "s2.txt": BOYS}, "",
                          [("s1.jpg", DOG), ("s1.jpg", CAT), ("s2.jpg", BOYS)]),
    "img2dataset": layout("00000.tar", {
        f"00{n}.{suffix}": value for n, text in enumerate([DOG, CAT, BOYS])
        for suffix, value in {"jpg": "", "txt": text, "json": {"caption": text, "url": n}}.items()},
                       "", [("000.jpg", DOG), ("001.jpg", CAT), ("002.jpg", BOYS)]),
    "members apart": layout("a.tar", {"1.jpg": "", "2.jpg": "", "1.txt": f"{DOG}\n{CAT}", "2.txt": BOYS}),
    "dots in names": layout("a.tar", {"a.01.jpg": "", "a.01.txt": f"{DOG}\n{CAT}", "a.02.jpg": "", "a.02.txt": BOYS},
                         "", [("a.01.jpg", DOG), ("a.01.jpg", CAT), ("a.02.jpg", BOYS)]),
    "other suffixes": layout("a.tar", {"1.input.jpg": "", "1.long.txt": f"{DOG}\n{CAT}", "1.tags.txt": "dog",
                                    "2.input.jpg": "", "2.long.txt": BOYS, "2.tags.txt": "ball"},
                          "caption=long.txt", [("1.input.jpg", DOG), ("1.input.jpg", CAT), ("2.input.jpg", BOYS)]),
    "kohya": Case({"10_dog/1.jpg": "", "10_dog/1.txt": f"{DOG}\n{CAT}", "5_boys/2.png": "", "5_boys/2.caption": BOYS},
                  [("10_dog/1.jpg", DOG), ("10_dog/1.jpg", CAT), ("5_boys/2.png", BOYS)]),
    "CUB-200": Case({"text_c10/001.Terrier/terrier_1.txt": f"{DOG}\n{CAT}\n", "text_c10/002.Boys/boys_2.txt": BOYS},
                    [("text_c10/001.Terrier/terrier_1", DOG), ("text_c10/001.Terrier/terrier_1", CAT),
                           ("text_c10/002.Boys/boys_2", BOYS)]),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_published_layout_is_read(name: str, tmp_path: Path) -> None:
    LAYOUTS[name].check(tmp_path)


def test_the_page_on_formats_lists_every_layout_with_its_columns() -> None:
    page = (ROOT / "docs/pages/reference/formats.md").read_text()
    rows = re.findall(r"^\| ([^|]+?) \| [^\n]* \| (.*?) ?\|$", page.partition("### Layouts")[2], re.MULTILINE)
    listed = {name: re.sub(r"`|--columns |\s", "", columns) for name, columns in rows}
    assert {name: listed.get(name) for name in LAYOUTS} == {name: layout.columns for name, layout in LAYOUTS.items()}
