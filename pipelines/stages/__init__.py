"""The stages of a run: one verb a file."""
