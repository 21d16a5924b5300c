"""The interval of a share of independent cases."""

from __future__ import annotations

import math

# So many standard deviations on both sides of the mean enclose 95 % of a normal distribution.
Z = 1.96


def wilson(share: float, cases: float) -> tuple[float, float]:
    """(low, high): the 95 % interval of a share, from 0 to 1, of so many independent cases (Wilson 1927)."""
    scale = 1 + Z * Z / cases
    centre = (share + Z * Z / (2 * cases)) / scale
    half_width = Z * math.sqrt(share * (1 - share) / cases + Z * Z / (4 * cases * cases)) / scale
    return centre - half_width, centre + half_width
