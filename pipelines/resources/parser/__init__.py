"""Training of the English parser shipped in `augment/data/english_parser`."""
