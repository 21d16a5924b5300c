"""Slots: the nouns, quantities, prepositions, attributes and verbs of a caption that may be replaced."""
