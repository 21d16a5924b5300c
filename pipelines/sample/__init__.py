"""The embedded corpus: five captions for each of 110 imagined photos, in COCO annotation JSON, CC0."""

from pathlib import Path


def path() -> Path:
    """Where the sample's `captions.json` lies in the installed package."""
    return Path(__file__).parent / "captions.json"
