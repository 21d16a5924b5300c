"""A stage (stage) over shards (shards), what made them (manifest), processes (cluster), the loop (run, work)."""
