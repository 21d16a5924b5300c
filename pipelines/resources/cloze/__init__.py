"""Train the shipped cloze model: which word stands where, given the rest of the caption."""
