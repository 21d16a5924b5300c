"""Reading the tables and the image files of a run, for the verbs that share it."""
