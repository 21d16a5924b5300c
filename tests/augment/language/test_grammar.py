"""Inflections, articles, agreement and pronouns."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from negcap.augment.caption import Caption
from negcap.augment.data import data_path
from negcap.augment.edits import apply_edits
from negcap.augment.language.grammar import agreement_edits, indefinite_article, plural_of, pronoun_edits, third_person
from negcap.augment.language.parse import parse


def found(text: str, noun: str) -> tuple[Caption, int]:
    """A caption and the place of a word of it."""
    (caption,) = parse([text])
    return caption, next(token.index for token in caption.tokens if token.text == noun)


def test_inflections() -> None:
    verbs = "runs watches carries plays is has goes does passes fixes pushes"
    assert [*map(third_person, "run watch carry play be have go do pass fix push".split())] == verbs.split()
    nouns = "dogs men boxes babies children sheep buses"
    assert [*map(plural_of, "dog man box baby child sheep bus".split())] == nouns.split()
    assert plural_of("tennis racket") == "tennis rackets"
    assert [*map(third_person, "quiz video radio moo echo".split())] == "quizzes videos radios moos echoes".split()


PLURALS = """
thief thieves, passerby passersby, passer-by passers-by, swine swine, grandchild grandchildren,
runner-up runners-up, stepchild stepchildren, godchild godchildren, crossroads crossroads, burrito burritos,
bigfoot bigfoots, dwarf dwarfs, scoliosis scolioses, thrombosis thromboses, arthritis arthritises,
housewife housewives, penknife penknives, mother-in-law mothers-in-law, hanger-on hangers-on,
jack-in-the-box jacks-in-the-box, dormouse dormice, blouse blouses, spouse spouses, golf golfs, reef reefs,
chief chiefs, belief beliefs, handkerchief handkerchiefs, cloverleaf cloverleaves, bookshelf bookshelves,
elf elves, hoof hooves, scarf scarves, wharf wharves, roof roofs, doberman dobermans, german germans, human humans,
talisman talismans, fireman firemen, snowman snowmen, ottoman ottomans, werewolf werewolves, flamingo flamingos,
taco tacos, tomato tomatoes, hero heroes, volcano volcanoes, piano pianos, kangaroo kangaroos, jalapeno jalapenos,
mosquito mosquitoes, cello cellos, cactus cacti, octopus octopuses, walrus walruses, larva larvae, lynx lynxes,
ox oxen, box boxes, quiz quizzes, goose geese, mongoose mongooses, tooth teeth, foot feet, moose moose,
bison bison, squid squid, deer deer, aircraft aircraft, offspring offspring, pants pants, jeans jeans,
clothes clothes, binoculars binoculars, sunglasses sunglasses, people people, cattle cattle, police police,
firemen firemen, monkey monkeys, lady ladies, x-ray x-rays, t-shirt t-shirts, close-up close-ups,
merry-go-round merry-go-rounds, lens lenses, dress dresses
"""


@pytest.mark.parametrize("pair", [pair.strip() for pair in PLURALS.split(",")])
def test_plurals_of_which_no_rule_tells(pair: str) -> None:
    noun, many = pair.split()
    assert plural_of(noun) == many


def test_plurals_of_the_commonest_nouns() -> None:
    columns = ["entry", "place", "count"]
    table = pq.read_table(data_path("reference_lexicon/lexicon.parquet"), columns=columns).to_pandas()
    counts = table[table["place"].str.startswith("nn:")].groupby("entry")["count"].sum()
    commonest = counts.sort_values(ascending=False, kind="stable").index[:3000]
    lines = Path(__file__).with_name("plurals.tsv").read_text("utf-8").splitlines()
    read = dict(line.split("\t") for line in lines)  # those of all 3,000 that do not only take an ending
    assert len(read) > 60
    assert {noun: plural_of(noun) for noun in commonest if plural_of(noun) != with_ending(noun)} == read


def with_ending(noun: str) -> str:
    """The noun with "s", "es" or "ies"."""
    if re.search(r"(s|x|z|ch|sh)$", noun):
        return noun + "es"
    return noun[:-1] + "ies" if re.search(r"[^aeiou]y$", noun) else noun + "s"


UNCLEAR = """
A drill hums while a HAMMER hits metal. People speak and a vehicle ENGINE revs. A horn honks and a CAR passes.
A DOG that cannot reach the ball jumps. An ANIMAL that looks like a fox sits on a log. A MAN whose dog barks
waves. A BUS with the number 42 stops near a shop. A vivid red FLOWER, captured in a close-up, takes center
stage. A MAN speaks and moves objects around. A MAN speaks as a machine runs and makes a noise. An ENGINE idles
then accelerates quickly. A CAR turns corners and accelerates. Wind blowing and leaves rustling as a big PLANE
roars. A green DOOR and a wall is behind a man. A KID who rides a bike and wears a helmet waves.
"""


@pytest.mark.parametrize("text", [one.strip() + "." for one in UNCLEAR.replace("\n", " ").split(".")[:-1]])
def test_nothing_agrees_where_the_verb_is_unclear(text: str) -> None:
    noun = next(word for word in text.split() if word.isupper() and len(word) > 1).strip(",.")
    caption, index = found(text.replace(noun, noun.lower()), noun.lower())
    assert agreement_edits(caption, index, plural=True) is None


@pytest.mark.parametrize(
    "text",
    [
        "A MAN who sits and reads a book.", "A SIGN that says stop.", "A WOMAN watching a man who runs.",
        "A CAT with a toy that is red.", "A PLATE next to a glass of water and a bottle.", "A BOY when he plays ball.",
    ],
)  # fmt: skip
def test_a_caption_without_a_verb_of_its_own_is_clear(text: str) -> None:
    noun = text.split()[1]
    caption, index = found(text.replace(noun, noun.lower()), noun.lower())
    assert agreement_edits(caption, index, plural=True) is not None


@pytest.mark.parametrize(
    ("text", "noun", "to_plural", "expected"),
    [
        ("A dog is running in the park.", "dog", True, "A dog are running in the park."),
        ("A dog runs in the park.", "dog", True, "A dog run in the park."),
        ("A dog running in the park.", "dog", True, "A dog running in the park."),
        ("There is a dog on the beach.", "dog", True, "There are a dog on the beach."),
        ("Two dogs are running in the park.", "dogs", False, "Two dogs is running in the park."),
        ("Two dogs run in the park.", "dogs", False, "Two dogs runs in the park."),
        ("A man and a woman are sitting on a bench.", "woman", True, "A man and a woman are sitting on a bench."),
        ("A man rides a horse on the beach.", "horse", True, "A man rides a horse on the beach."),
        ("A dog that is running in the park.", "dog", True, "A dog that are running in the park."),
    ],
)
def test_agreement(text: str, noun: str, to_plural: bool, expected: str) -> None:
    edits = agreement_edits(*found(text, noun), plural=to_plural)
    assert edits is not None and apply_edits(text, sorted(edits)) == expected


@pytest.mark.parametrize(
    ("text", "new", "to_plural", "expected"),
    [
        ("A man is walking his dog.", "woman", False, "A man is walking her dog."),
        ("A man is walking his dog.", "man", True, "A man is walking their dog."),
        ("A man is looking at himself.", "tree", False, None),
        ("A man is walking a dog.", "woman", False, "A man is walking a dog."),
    ],
)
def test_pronouns(text: str, new: str, to_plural: bool, expected: str | None) -> None:
    caption = parse([text])[0]
    edits = pronoun_edits(caption, 1, old="male", new=new, plural=to_plural)
    assert (None if edits is None else apply_edits(text, sorted(edits))) == expected


PRONOUNS = {  # a caption: nouns, and what its pronoun becomes where each is made plural
    "A boat on the water and a lighthouse behind it.": {"lighthouse": "it", "boat": "them"},
    "A bench with a tree next to it.": {"tree": "it"},
    "A building with a clock on top of it.": {"clock": "it", "building": "them"},
    "A calf runs in front of a horse and its rider.": {"horse": "their", "calf": "its"},
    "There is a dog holding a frisbee in its mouth.": {"dog": "their", "frisbee": "its"},
    "A dog with a stick in its mouth.": {"dog": "their"},
    "A stack of wood is visible behind it.": {"stack": "it"},
    "A house stands in a field. A tree is next to it.": {"tree": "it"},
}


@pytest.mark.parametrize(("text", "expected"), PRONOUNS.items())
def test_the_antecedent_of_a_pronoun(text: str, expected: dict[str, str]) -> None:
    made = {}
    for noun in expected:
        caption, index = found(text, noun)
        (pronoun,) = (token for token in caption.pronouns if token.dep != "expl")
        edits = pronoun_edits(caption, index, old="thing", new=noun, plural=True) or ()
        made[noun] = " ".join(edit.new for edit in edits) or pronoun.lower
    assert made == expected


def test_a_pronoun_before_its_verb_is_a_subject_whatever_the_parse() -> None:
    for text in ("A bird looks down as it stands.", "A dog with a ball under it can run."):
        assert pronoun_edits(parse([text])[0], 1, old="thing", new="bird", plural=True) is None


def test_importing_inflect_leaves_the_checks_of_others_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "more_itertools.py").write_text(  # inflect imports it
        "from typeguard import typechecked\n\n@typechecked\ndef windowed_complete(n: int) -> int:\n    return n\n"
    )
    code = """
import sys, typeguard
before = typeguard.typechecked
from negcap.augment.language.grammar import plural_of
assert plural_of("box") == "boxes"
assert typeguard.typechecked is before
try:
    sys.modules["more_itertools"].windowed_complete("no number")
except typeguard.TypeCheckError:
    print("checked")
"""
    path = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, text=True, check=True)
    assert done.stdout == "checked\n"


AN = """
apple umbrella onion egg utter urban urn ugly usher uncle udon elbow island
hour hourglass honest honorary honourable heir heirloom herb herbs herbal hors-d'oeuvre
unusual unhappy uninteresting unimportant unidentified uninhabited unironed unanswered
8 18 11 80 8th 11th 1800s 1100 11,000 18000 800
A E F H L M N O R S X a-frame A-line F-16 H-shaped L-shaped M&M N-shaped O-ring R-rated S-curve S.U.V. X-ray x-ray
ATM ATV FBI FM HD HDTV HP HTML LCD LED led MLB MP3 mp3 MRI mri MTV NBA NFL NHL RC RV rv SUV suv SOS XL XXL
AAA ABC EU IBM MIT NYPD
éclair Ångström 'off' "exit" #8 $8 ytterbium Yves
""".split()
A = """
dog herd house yellow yacht young hot uniform unicorn unicycle union unit united unidirectional unimodal unanimous
university unique usual useful used user usage utensil utility Utah urinal urine Uruguayan ukulele Ukrainian Ugandan
European euro eucalyptus ewe ewer one one-way one-eyed once ouija onesie herbivore
1 7 10 12 110 118 180 1000 21 1,100,000
B C D G J K P Q T U V W Y Z B-52 C-shaped T-shirt t-shirt U-turn u-turn U-shaped V-neck Y-shaped U.S.
BMX CD DJ DVD GPS PC TV UFO ufo UK UN UPS URL US USA USB usb UV VW YMCA
NASA NATO LEGO McDonald's Mr. Mrs Ms st Mt lb nguyen rhino schnauzer Sri hyena llama lhasa xylophone xenon
'stop' "yield" snow slide sleeping sphere svelte squash sycamore symbol mnemonic gnome fjord Rwandan
""".split()


def test_article() -> None:
    for expected, words in (("an", AN), ("a", A)):
        assert [word for word in words if indefinite_article(word) != expected] == []
    assert [*map(indefinite_article, "MAN SLIDE RED UMBRELLA UNICORN HOUR".split())] == ["a", "a", "a", "an", "a", "an"]
