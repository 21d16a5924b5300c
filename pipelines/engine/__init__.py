"""A stage over shards: atomic files (shards), what made them (manifest), processes (cluster), the loop (run)."""
