"""Closed classes of words that the rules go by."""

from __future__ import annotations

MATERIALS = frozenset(
    """wood metal glass brick stone plastic concrete cement leather steel marble straw wicker cotton silk wool bamboo
    iron aluminum copper bronze gold silver granite cardboard rubber denim fur lace linen velvet gravel dirt tile
    ceramic porcelain clay rock chocolate paper chrome brass vinyl nylon suede tin adobe oak pine stucco canvas
    plaid""".split()
)
COLOURS = frozenset(
    """white black blue green red brown yellow orange pink purple gray grey tan beige silver gold maroon turquoise teal
    cream khaki burgundy navy lavender violet aqua blond blonde brunette ginger""".split()
)
AGES = frozenset("baby adult mother mom male female toy".split())
WRITTEN = {"wood": "wooden"}
# Nouns before "of" that count or portion what follows: the thing is the noun behind.
PORTIONS = frozenset(
    """group bunch piece slice pair couple lot lots pile row stack bit patch number set variety crowd cluster part
    portion section kind type sort array assortment handful herd flock clump series line collection half dozen
    dozens hundreds amount ton tons grouping pack team mound heap blob chunk strip sheet stretch expanse""".split()
)
PLACES = frozenset(
    """side top front back edge middle center centre end bottom corner left right rear face rim tip base foreground
    background sides edges ends corners""".split()
)
BE = frozenset(("be", "is", "are", "was", "were", "being", "been", "'s", "'re", "am"))
INVERTED = frozenset(("cover", "surround"))
BETWEEN = frozenset("left right other far both either each".split())
CONTAINERS = frozenset(
    """plate bowl cup glass picture photo photograph image view basket box bottle bag tray pot vase painting drawing
    statue jar mug bucket""".split()
)
