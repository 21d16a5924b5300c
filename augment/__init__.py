"""Making negative captions: pure functions over parsed captions; no files but those in augment/data."""
