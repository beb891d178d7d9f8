"""Servers on loopback that behave as the real services: clusters, clouds, registries."""
