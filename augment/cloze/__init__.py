"""The cloze model of captions: the probability of every word at every place, given the whole rest of the caption.

`states` has its vocabulary and GRUs, `network` computes vectors of places, `model` makes log-probabilities of them,
`file` reads its file, `fixed_point` has the arithmetic that is the same on every processor.
"""
