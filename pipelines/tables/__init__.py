"""Read tables and image files of a run; shared by several commands."""
