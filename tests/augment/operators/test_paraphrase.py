import pytest

from tests.augment.fixtures import accepted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog is next to a cat.", {"A cat is next to a dog."}),
        ("A man and a woman are sitting on a bench.", {"A woman and a man are sitting on a bench."}),
        ("A black and white dog.", {"A white and black dog."}),
        ("A bowl with apples and oranges.", {"A bowl with oranges and apples."}),
        ("A dog is in a boat near a tree.", set()),
        ("A dog is on a couch.", set()),
        ("A dog is next to two cats.", set()),
        ("A man is holding a cup next to a dog.", set()),
        ("She is next to a dog.", set()),
        ("A man is behind a house and three dogs are above it.", set()),
    ],
)
def test_only_what_says_the_same_of_both_is_exchanged(text: str, expected: set[str]) -> None:
    assert set().union(*(accepted("paraphrase", text, seed=seed) for seed in range(5))) == expected
