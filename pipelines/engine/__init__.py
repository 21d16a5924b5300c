"""How stages (steps of the pipeline) are run on tables on disk.

stage: what a stage is. shards, manifest, code, provenance: a table's files, and the records of how they were made.
run, source: bring the tables of a stage up to date. cluster, work, workers, reports: work in other processes. memory:
run stages without files. verify: check a run against its records. progress, errors, bounds: what users are told.
"""
