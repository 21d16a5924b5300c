"""How likely to be true a negative may be."""

MAX_TRUE = 0.025


def check_most(most: float) -> None:
    """Raise ValueError unless the limit is a probability."""
    if not 0 <= most <= 1:
        raise ValueError(f"max_true must be between 0 and 1, was: {most}")
