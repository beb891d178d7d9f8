"""Time of an epoch by accelerator, number and batch, from measured runs: read `model.py` first.

It knows no prices but the rows that a caller gives.
"""
