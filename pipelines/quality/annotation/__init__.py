"""Human validation: sheets of pairs to judge, and what the votes say."""
