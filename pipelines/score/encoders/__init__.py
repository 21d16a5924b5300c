"""The kinds of models that `negcap score` loads, one a file; each is imported only when it is used."""
