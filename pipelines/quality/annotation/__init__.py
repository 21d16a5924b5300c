"""Human validation: annotation sheets, validity and agreement."""
