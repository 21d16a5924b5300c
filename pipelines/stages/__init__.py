"""The stages of a run, by their verbs."""
