"""Benchmarks of this machine: training step, input pipeline, generator and scaling.

May import training and everything below it, never api or cli. Read `step.py` first.
"""
