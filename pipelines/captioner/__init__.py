"""The captioner trained on a run, written with, and measured."""
