"""English: parsing, grammar, WordNet, semantic classes, concreteness, and tables of words that may be true together."""
