"""How stages are run on tables on disk.

stage: what a stage is. shards, manifest, code, provenance: a table's files, and the record of what made them. run,
source: the loops that bring a table up to date. cluster, work, workers, reports: what happens in other processes.
memory: stages without files. verify: a run against its records. progress, errors, bounds: what a user sees of all.
"""
