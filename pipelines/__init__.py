"""What moves tables: files, Dask, the command line."""
