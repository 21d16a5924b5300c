"""Truth: is a candidate really false of the image?

`contradiction` refuses candidates that captions or WordNet make true. For the others `estimates` gives the probability
that one further caption of the image would make them true, estimated from the corpus' own sibling captions:
`associations` (nouns, verbs) and `transitions` (quantities, prepositions, attributes) count what captions of one image
mention together, and `fit` calibrates.
"""
