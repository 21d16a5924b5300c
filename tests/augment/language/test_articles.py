import pytest

from negcap.augment.language.grammar import article

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


@pytest.mark.parametrize(("expected", "words"), [("an", AN), ("a", A)])
def test_article(expected: str, words: list[str]) -> None:
    assert [word for word in words if article(word) != expected] == []


def test_capitals_are_no_abbreviation_by_themselves() -> None:
    assert [*map(article, "MAN SLIDE RED UMBRELLA UNICORN HOUR".split())] == ["a", "a", "a", "an", "a", "an"]
