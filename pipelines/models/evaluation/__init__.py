"""How well a model retrieves images and captions: plain, under attack by negatives, and with components as queries."""
