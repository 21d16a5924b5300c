"""Blind baselines: how often a model that never sees the image tells a caption from its negative; 50 % is ideal."""

from .baselines import BlindReport, Pair, blind

__all__ = ["BlindReport", "Pair", "blind"]
