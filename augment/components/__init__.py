"""Scene graphs as tables, and sampling of negative components (UniVSE, supplementary A.1)."""
