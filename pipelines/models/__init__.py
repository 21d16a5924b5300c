"""Encoders, objectives and vocabulary, which the trainer, UniVSE and the captioner share."""
