"""What looks like English, on sentences of our own, and on real captions of two languages."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from negcap.augment.cloze.file import looks_english

ENGLISH = """A brown dog runs across a field with a ball.; AN OLD MAN, sitting.; red Škoda; Photomicrograph; 12:30; ;
    Axial CT of the thorax shows a small left pleural effusion."""
OTHERS = """Ein brauner Hund läuft mit einem Ball über ein Feld.; Коричневая собака бежит; 一只棕色的狗在田野里奔跑。;
    Un perro marrón corre por el campo con una pelota.; Un chien brun court dans un champ avec une balle.;
    Een bruine hond rent door het veld met een bal.; Um cachorro marrom corre pelo campo com uma bola."""


@pytest.mark.parametrize(("texts", "english"), [(ENGLISH, True), (OTHERS, False)])
def test_what_looks_like_english(texts: str, english: bool) -> None:
    assert [text for text in map(str.strip, texts.split(";")) if looks_english(text) is not english] == []


@pytest.mark.data
def test_no_english_caption_is_taken_for_another_language(real_data: Path) -> None:
    with gzip.open(real_data / "coco" / "captions_val2017.json.gz") as file:
        captions = [row["caption"] for row in json.load(file)["annotations"][::5]]
    captions += (real_data / "flickr8k" / "dev_caps.txt").read_text().splitlines()
    with gzip.open(real_data / "factual" / "dev.csv.gz", "rt") as file:
        captions += [row["caption"] for row in csv.DictReader(file)]
    assert len(captions) > 10_000 and all(map(looks_english, captions))
    german = [line.split("\t")[-1] for line in (real_data / "flickr8k" / "dev_caps.de.tsv").read_text().splitlines()]
    assert sum(not looks_english(text) for text in german) > 0.95 * len(german) > 1000
