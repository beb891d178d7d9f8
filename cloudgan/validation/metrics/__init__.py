"""Metrics between two samples of showers, with weights for bootstrap errors.

May import observables. Start with measures.py.
"""
