"""One training step, two loops, four strategies: from a configuration to a record and checkpoints.

May import data, gan, schema, simulation, storage, validation and core. Read `run.py` first.
"""
