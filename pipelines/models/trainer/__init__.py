"""Shards of captions, negatives and image features to visual-semantic embeddings, their tables and figures."""
