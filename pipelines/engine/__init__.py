"""A stage over shards: files (shards), what made them (manifest), processes (cluster), the loop (run)."""
