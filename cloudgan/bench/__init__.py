"""Benchmarks of this machine: training step, input, generator, exchange, bandwidth, scaling and grids.

May import training and everything below it, never api or cli. Read `harness.py` first.
"""
