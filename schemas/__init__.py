"""What the data looks like: one pyarrow schema a table, every column described."""
