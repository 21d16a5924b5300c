"""Where words stand in a caption: nouns, quantities, prepositions, attributes, verbs."""
