"""Scripts that build the data files in augment/data."""
