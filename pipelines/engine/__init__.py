"""How stages (steps of the pipeline) are run on tables on disk or on a store.

stage: what a stage is. run: bring the tables of a stage up to date. places, storage: where files lie, and how they are
read and written. lock: one writer for each run. shards: the files of a table, each with its key and its seal. manifest:
what a table was made from. tables: read tables, and check a run. cluster: work in other processes. progress: what users
see of it. errors: what users are told.
"""
