import pytest

from tests.augment.fixtures import accepted, proposals

pytestmark = pytest.mark.usefixtures("without_floors")


def test_object_replaces_and_appends_alike() -> None:
    text = "A dog is lying on a couch."
    first = [made for seed in range(20) for made, _ in proposals("object", text, seed=seed)[:5]]
    appended = [made for made in first if " and " in made]
    assert 0.3 < len(appended) / len(first) < 0.7
    assert any(made.startswith("A dog and a ") and made.endswith(" are lying on a couch.") for made in appended)
    assert {"A dog is lying on a table.", "A cat is lying on a couch."} <= accepted("object", text)


def test_what_is_appended_takes_the_number_of_its_neighbour() -> None:
    made = accepted("object", "Two dogs are running on the beach.")
    assert not [text for text in made if text.startswith(("Two dogs and a ", "Two dogs and an "))]


@pytest.mark.parametrize("text", ["A dog and a cat are sleeping.", "A cup of coffee."])
def test_nothing_is_appended_to_a_list_or_before_of(text: str) -> None:
    assert not [made for made in accepted("object", text) if made.count(" and ") > text.count(" and ")]


def test_object_never_appends_what_a_sibling_says() -> None:
    made = proposals("object", "A dog is lying on a couch.", "A cat is next to a dog.")
    assert {reason for text, reason in made if "and a cat" in text} == {"related_in_sibling"}


def test_relation_replaces_each_part_of_a_triple() -> None:
    made = set().union(*(accepted("relation", "A dog is lying on a couch.", seed=seed) for seed in range(10)))
    assert "A cat is lying on a couch." in made
    assert "A dog is lying on a table." in made
    assert "A dog is lying next to a couch." in made


def test_relation_draws_its_parts_from_their_own_nouns() -> None:
    made = set().union(*(accepted("relation", "A dog is next to a tree.", seed=seed) for seed in range(5)))
    assert made
    assert all(text.startswith("A dog ") or text.endswith(" next to a tree.") for text in made)


def test_relation_is_added_where_there_is_none() -> None:
    made = accepted("relation", "A dog.")
    assert made
    assert all(text.startswith("A dog ") and len(text.split()) >= 5 for text in made)
