"""The cloze model of captions: the probability of every word at every place, given the whole rest of the caption."""
