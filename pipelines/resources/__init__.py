"""Train and fit the models in augment/data anew, or on one's own captions, and build the other files there. The wheel
has only what users need for their own captions; see `CHECKOUT_ONLY` in setup.py.
"""
