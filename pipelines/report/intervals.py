"""The interval of a share of independent cases."""

from __future__ import annotations

import math

Z = 1.96


def wilson(share: float, cases: float) -> tuple[float, float]:
    """The 95 % Wilson interval of a share, from 0 to 1, of so many independent cases."""
    centre = (share + Z * Z / (2 * cases)) / (1 + Z * Z / cases)
    half = Z * math.sqrt(share * (1 - share) / cases + Z * Z / (4 * cases * cases)) / (1 + Z * Z / cases)
    return centre - half, centre + half
