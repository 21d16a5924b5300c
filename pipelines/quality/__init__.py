"""How good the negatives are: baselines, samples, summaries."""
