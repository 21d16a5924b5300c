"""How stages (steps of the pipeline) are run on tables on disk or on a store.

stage: what a stage is. places, storage, remote_path: where files lie, and how they are read and written. shards,
identity, manifest, listing, code, provenance: a table's files, and the records of how they were made. tables: read
them. run, source: bring the tables of a stage up to date. lock, object_lock, owner, fence: one writer for each run.
cluster, distributed, tree, workers, schedulers, work, reports, statistics: work in other processes. memory: run stages
without files. verify: check a run against its records. progress, errors, bounds: what users are told.
"""
