"""Order-embeddings (Vendrov et al. 2016) of concepts and sentences: hypernyms, entailment, lengths and compositions."""
