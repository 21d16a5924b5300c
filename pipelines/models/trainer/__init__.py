"""The embedding models by name, and the verbs that train, evaluate, compare and picture them."""
