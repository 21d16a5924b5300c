"""Truth: how likely a replacement is true of the image after all, though none of its captions says so.

Estimated from the corpus' own sibling captions: the probability that one further caption of the image would make the
candidate true. `associations` (nouns, verbs) and `transitions` (quantities, prepositions, attributes) count what
captions of one image say, `fit` counts and calibrates, `estimates` answers for the candidates of an image.
"""
