"""Showers on disk and on their way to the networks."""
