"""Truth: is a candidate really false of the image?

`contradiction` rejects candidates that captions or WordNet make true. For the others, `estimates` gives the probability
that another caption of the image would make them true, estimated from the sibling captions of the corpus:
`associations` (nouns, verbs) and `transitions` (quantities, prepositions, attributes) count what captions of one image
mention together, and `fit` calibrates the probabilities.
"""
