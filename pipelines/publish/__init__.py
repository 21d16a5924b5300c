"""Publish a run's tables in the formats of other projects, with a data card, Croissant metadata and checks before."""
