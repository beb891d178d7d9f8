"""Hyper-parameter search: an Optuna study whose trials are ordinary runs on blocks of this machine or in pods.

Imports `schema`, `storage`, `training.cluster` and `core`; never TensorFlow. Read `coordinator.py` first.
"""
