"""Observables: quantities measured on each shower, and the region in which two samples overlap.

May import data and core. Start with observables.py.
"""
