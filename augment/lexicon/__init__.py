"""What a corpus says of its words: counts, lift, sampling, balance."""
