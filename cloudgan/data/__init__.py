"""Showers: files of others, the store, and the batches of training.

`sources` detects a layout (`hdf5`, `published`) and its `units`, `convert` writes a `store`, `batches` reads
it. May import schema and core; two modules import TensorFlow. Start with showers.py, then sources.py.
"""
