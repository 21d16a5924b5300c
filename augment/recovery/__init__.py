"""Negatives that others wrote: find what they change in their caption, and judge them as the operators' are judged."""
