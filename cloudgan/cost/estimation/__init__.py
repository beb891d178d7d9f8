"""Estimates of time and cost on other machines: throughput, scaling, preemption.

May import `cost.prices`, `cost.paper`, `schema` and `core`. Read `throughput_model.py` first.
"""
