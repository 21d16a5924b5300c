"""Blind baselines: how often a model that never sees the image tells a true caption from its negative.

50 % (chance) is ideal. `blind` measures pairs, `measure.measure_run` a run; see `baselines` for what is measured. Needs
the `quality` extra.
"""

from .baselines import BlindReport, Pair, blind

__all__ = ["BlindReport", "Pair", "blind"]
