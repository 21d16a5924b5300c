"""From records to captions grouped by image, in bounded memory: rows lie on disk, DuckDB sorts their keys."""
