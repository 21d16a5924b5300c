"""Figures that the papers report, by table: percentages on COCO; and what the tables call models and recipes."""

from __future__ import annotations

TITLES = {
    **{"vse": "VSE", "vse++": "VSE++", "vse-c": "VSE-C", "univse": "UniVSE"},
    **{f"vse-c+{family}": f"VSE-C, {family}" for family in ("noun", "numeral", "relation")},
    "sentence": "UniVSE, sentence alone",
    "univse+max": "UniVSE with VSE-C's sentence encoder",
    "vectors of the file": "word vectors of the file",
}
RECIPE_TITLES = {"house": "house recipe", "paper": "paper's recipe"}

# VSE-C (Shi et al. 2018), Tables 2 and 3: image to text, R@1 without attack and under the attack of all families, of
# nouns, of numerals and of relations.
VSE_C_ATTACKS = {
    "vse": (47.7, 28.0, 37.6, 38.5, 30.7),
    "vse++": (55.7, 35.6, 45.7, 45.9, 42.3),
    "vse-c+noun": (50.7, 40.3, 49.2, 42.1, 40.4),
    "vse-c+numeral": (53.3, 46.9, 51.0, 53.3, 49.0),
    "vse-c+relation": (52.4, 42.3, 48.0, 45.4, 50.1),
    "vse-c": (50.2, 47.4, 49.4, 49.9, 47.9),
}
# Table 4: R@1, R@10 and mean rank among captions with other numbers above one.
VSE_C_PLURAL = {"vse++": (43.7, 78.3, 9.1), "vse-c+numeral": (50.6, 84.4, 7.8)}
# Table 6: MAP.
VSE_C_WORDS = {
    "vectors of the file": 58.69,
    **{"vse": 61.65, "vse++": 61.08, "vse-c": 62.16},
    **{"vse-c+noun": 62.80, "vse-c+relation": 62.29, "vse-c+numeral": 61.96},
}
# Table 7: R@1 and R@10 of nouns, of prepositions and of both.
VSE_C_BLANKS = {
    "vectors of the file": (23.22, 58.75, 23.34, 79.92, 23.27, 66.55),
    "vse++": (24.98, 61.74, 34.88, 84.88, 28.44, 68.12),
    "vse-c": (27.30, 62.87, 35.17, 85.24, 30.02, 70.98),
}
# UniVSE (Wu et al. 2019), Table 2: R@1, R@5 and R@10 under attacks on objects, attributes and relations;
# "sentence" is UniVSE without its components.
UNIVSE_ATTACKS = {
    "vse++": (32.3, 69.6, 81.4, 19.8, 59.4, 76.0, 26.1, 66.8, 78.7),
    "vse-c": (41.1, 76.0, 85.6, 26.7, 61.0, 74.3, 35.5, 71.1, 81.5),
    "univse": (45.3, 78.3, 87.3, 35.3, 71.5, 83.1, 39.0, 76.5, 86.7),
    "sentence": (40.7, 76.4, 85.5, 30.0, 70.5, 80.6, 32.6, 72.6, 83.5),
}
# Table 3: mAP by objects, attributed objects and triples.
UNIVSE_UNIFIED = {
    "vse++": (29.95, 26.64, 27.54),
    "vse-c": (27.48, 28.76, 26.55),
    "univse": (39.49, 33.43, 39.13),
    "univse-only-obj": (39.71, 33.37, 34.38),
    "univse-only-attr": (31.31, 37.51, 34.73),
    "univse-only-rel": (37.55, 32.70, 39.57),
}
# Table 4: attributes and relations that the image assigns rightly.
UNIVSE_PARSING = {
    "chance": (37.41, 31.90),
    "vse++": (41.12, 43.31),
    "vse-c": (43.44, 41.08),
    "univse": (64.82, 62.69),
}
# Ablations and supplement: rsum, and the sum of the R@1, R@5 and R@10 of the three attacks.
UNIVSE_ABLATIONS = {
    "average": (469.5, 603.0),
    "sum": (471.1, 604.3),
    "max": (465.8, 628.4),
    "self-attention": (467.1, 599.5),
    "gru": (472.0, 603.7),
    "regions-average": (452.9, 569.1),
    "regions-max": (462.5, 587.3),
    "regions-max-k": (469.5, 603.0),
    "without-comp": (466.1, 577.2),
    "learned-alpha": (468.1, 576.7),
    "dropped": (468.9, 604.6),
    "dropped, both": (468.7, 590.5),
}
