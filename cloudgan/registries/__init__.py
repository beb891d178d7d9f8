"""Registries of container images: what a tag means there today, as a digest that never changes."""
