"""What looks like English, on sentences of our own, and on real captions of two languages."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from negcap.augment.language.english import looks_english


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("A brown dog runs across a field with a ball.", True),
        ("AN OLD MAN, sitting.", True),
        ("Axial CT of the thorax shows a small left pleural effusion.", True),
        ("red Škoda", True),
        ("Photomicrograph", True),
        ("", True),
        ("12:30", True),
        ("Ein brauner Hund läuft mit einem Ball über ein Feld.", False),
        ("Un perro marrón corre por el campo con una pelota.", False),
        ("Un chien brun court dans un champ avec une balle.", False),
        ("Een bruine hond rent door het veld met een bal.", False),
        ("Um cachorro marrom corre pelo campo com uma bola.", False),
        ("一只棕色的狗在田野里奔跑。", False),
        ("Коричневая собака бежит", False),
    ],
)
def test_what_looks_like_english(text: str, english: bool) -> None:
    assert looks_english(text) is english


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
