"""How well a model of a joint space retrieves: plain, under attack by negatives, and by components."""
