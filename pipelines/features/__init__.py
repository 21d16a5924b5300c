"""Image features from arrays that were extracted elsewhere, and how photos are decoded."""
