"""Word lists for the rules of the scene graph."""

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
WRITTEN = {"wood": "wooden", "both": "two", "pieces": "piece", "slices": "slice"}
# SHADES form one attribute with the colour after them, LOOKS with the word before: "light brown", "apple-shaped".
SHADES = frozenset("light dark bright pale deep navy royal lime olive neon baby hot medium off".split())
LOOKS = frozenset(
    """colored coloured shaped haired sleeved looking sized handed eyed faced skinned tailed headed
    legged necked roofed decker made style""".split()
)
# Participles that relate the noun before them to the noun after them: "a snow-covered field", "a tree lined street".
COVERING = frozenset("covered lined filled topped coated capped stuffed framed".split())
# Quantifiers, ordinals and similar words, which describe nothing that a photo shows.
QUANTIFIERS = frozenset(
    """one several many few multiple various numerous other another same such own more most each every only next last
    first second third about able""".split()
)
# Positions that are part of a name ("right hand", "front wheel").
SIDES = frozenset("left right front back rear top bottom".split())
# Nouns before "of" that are an attribute of the noun after it; True: the attribute includes "of" ("group of").
FORMS = {"group": True, "piece": False, "pieces": False, "slice": False, "slices": False, "patch": False}
MUTUAL = frozenset((("each", "other"), ("one", "another")))
# Nouns that name no object by themselves: "the other", "a close up".
NAMELESS = frozenset("one ones other others another up".split())
# Nouns before "of" that count or portion the noun after it, which names the object.
PORTIONS = frozenset(
    """group bunch piece slice pair couple lot pile row stack bit patch number set variety crowd cluster part
    portion section kind type sort array assortment handful herd flock clump series line collection half dozen
    hundred thousand amount ton grouping pack team mound heap blob chunk strip sheet stretch expanse
    family inside interior outside""".split()
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
    statue jar mug bucket pan dish platter crate tub bin can carton pitcher""".split()
)
# Substances that a field, a pool or a bowl may contain: words below these WordNet synsets, and the words in SUBSTANCES.
SUBSTANCE_SYNSETS = ("food.n.01", "food.n.02", "substance.n.01", "body_of_water.n.01")
SUBSTANCES = frozenset("snow grass ice hair dirt sand gravel fog smoke fire rain mud trash garbage".split())
