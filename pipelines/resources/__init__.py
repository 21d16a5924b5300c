"""How the data shipped in augment/data is built."""
