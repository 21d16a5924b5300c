"""Human validation: annotation sheets, the share of valid negatives, and the agreement of annotators."""
