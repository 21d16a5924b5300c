"""Negative image captions: false of the image, fluent, and not to be told without seeing it."""
