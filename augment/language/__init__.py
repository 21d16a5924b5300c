"""What the language knows: parses, grammar, taxonomy, concreteness, corpus counts."""
