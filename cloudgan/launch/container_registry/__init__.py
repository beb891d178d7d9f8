"""Container registries: resolves an image tag to its digest.

May import `core` only. Read `image_reference` first.
"""
