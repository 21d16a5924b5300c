"""The lexicon: probabilities and lift of words in their contexts, sampling of replacements, and balance."""
