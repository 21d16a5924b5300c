"""From records to captions grouped by image, in bounded memory: rows are sorted on disk (see `spill`)."""
