"""The pyarrow schema of every table; each column has a description."""
