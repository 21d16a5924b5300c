"""Blind baselines: how often a model that never sees the image tells a caption from its negative; 50 % is ideal."""

from .baselines import BlindReport, TextPair, blind

__all__ = ["BlindReport", "TextPair", "blind"]
