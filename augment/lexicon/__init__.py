"""What a corpus' counts tell of its words: probabilities and lift in contexts, sampling, balance."""
