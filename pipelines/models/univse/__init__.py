"""UniVSE: objects, attributes, relations and sentences in one space with images (Wu et al. 2019)."""
