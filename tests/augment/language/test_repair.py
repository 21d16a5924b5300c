import pytest

from negcap.augment.language.parse import parse
from negcap.augment.scene_graph import scene_graph

SAID = {
    "A boy is behind a house and three apples are sitting next to the house.":
        "boy > behind > house, apples > sit next to > house",
    "A kite is over a house and a small white chair is beside the house.":
        "kite > over > house, chair > beside > house",
    "Behind the red table is a house.": "house > behind > table",
    "On two balls is a pink box.": "box > on > balls",
    "On a desk sits a keyboard.": "keyboard > sit on > desk",
    "Parked outside the house are two cars.": "cars > park outside > house",
    "Next to the table is a chair.": "chair > next to > table",
    "In the middle of the room stands a table.": "table > stand in middle of > room",
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SAID.items())
def test_second_and_inverted_clauses_have_their_own_subjects(text: str, expected: str) -> None:
    (caption,) = parse([text])
    relations, words = scene_graph(caption).relations, caption.lowered
    assert ", ".join(f"{words[r.subject]} > {r.name} > {words[r.object]}" for r in relations) == expected


@pytest.mark.parametrize(
    ("text", "subject", "verb"),
    [
        ("A dog and a cat sit on a bed.", "dog", "sit"),
        ("A man holding a dog and a cat is standing on a street.", "man", "standing"),
        ("Two dogs are playing in the grass and a man walks by a tree.", "man", "walks"),
        ("In this picture a dog sleeps on a bed.", "dog", "sleeps"),
    ],
)
def test_what_is_right_stays(text: str, subject: str, verb: str) -> None:
    (caption,) = parse([text])
    token = caption.tokens[caption.lowered.index(subject)]
    assert (token.dep, caption.lowered[token.head]) == ("nsubj", verb)


def test_every_text_is_repaired_by_itself() -> None:
    texts = ["A dog sleeps.", "On a desk sits a keyboard.", "", "A boy is behind a house and a cat is on the house."]
    together = [caption.tokens for caption in parse(texts)]
    assert together == [parse([text])[0].tokens for text in texts]
