"""Training of a CLIP end to end, on pictures: a folder of Hugging Face weights, or a tiny one from nothing."""
