"""The cloze model of captions: the probability of every word at every place, given the whole rest of the caption.

`units` is its vocabulary, `network` computes vectors, `model` makes log-probabilities of them, `file` reads its file.
"""
