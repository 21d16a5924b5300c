"""What a model has learned of words: VSE-C's word-level tasks (image to word, fill in the blank) and saliency."""
