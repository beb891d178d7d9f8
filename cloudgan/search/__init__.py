"""Hyper-parameter search: an Optuna study whose trials are ordinary runs on blocks of this machine.

Imports `schema`, `training.cluster` and `core`; never TensorFlow. Read `coordinator.py` first.
"""
