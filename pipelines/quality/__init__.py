"""How good the negatives are: blind baselines, refinement, audit, human annotation."""
