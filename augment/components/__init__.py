"""Scene graphs as tables, and what may stand in them as a negative component (UniVSE, supplementary A.1)."""
