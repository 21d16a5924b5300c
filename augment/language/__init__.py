"""English: parsing, grammar, WordNet, semantic classes, concreteness, and tables of what may be true at once."""
