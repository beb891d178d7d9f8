"""Measurements of what is here: each variant in turns with the others, and against a limit."""
