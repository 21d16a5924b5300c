"""Make negative captions: pure functions of parsed captions, which read no files except those in augment/data."""
