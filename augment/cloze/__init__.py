"""The cloze model of captions: the probability of every word at every place, given the whole rest of the caption.

`units` is its vocabulary, `network` (with `states` and `attention`) computes vectors of places, `model` makes
log-probabilities of them, `file` reads its file, `threads` keeps its matrix products on one thread.
"""
