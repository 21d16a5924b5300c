"""Print runs for people: rows with the edit marked, summaries, a list of the tables, scene graphs of sentences."""
