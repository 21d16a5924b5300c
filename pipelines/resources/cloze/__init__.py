"""Train cloze models, the shipped one and others: which word stands where, given the rest of the caption."""
