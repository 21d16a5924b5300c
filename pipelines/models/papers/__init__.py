"""The tables of VSE-C, UniVSE and Augmented VSE: what is run for them, and what the papers report."""
