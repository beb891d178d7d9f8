"""Hyper-parameter search: an Optuna study whose trials are ordinary runs on blocks of this machine or in pods.

Imports `reports`, `schema`, `storage`, `training.cluster` and `core`; never TensorFlow. Read `trial_loop.py` first.
"""
