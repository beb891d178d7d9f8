"""Sharded TFRecord datasets: manifest, reader and writer.

May import data and core; only writer.py imports TensorFlow. Start with manifest.py.
"""
