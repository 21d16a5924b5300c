"""Synthetic scenes with known ground truth: images, captions, and a judge of whether a sentence is true of a scene."""
