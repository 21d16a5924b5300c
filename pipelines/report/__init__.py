"""What people read of a run: rows with the edit marked, closing tables, what a run holds, scene graphs of sentences."""
