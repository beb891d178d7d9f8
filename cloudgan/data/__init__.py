"""Showers: files (sources/), sharded datasets (shards/), and the input pipeline of training (pipeline/).

May import schema and core; three modules import TensorFlow. Start with showers.py, then
sources/source.py.
"""
