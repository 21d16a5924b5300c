"""MHA-D: multi-head attention with diversity, for images and captions of several languages (Huang et al. 2019)."""
