"""Figures of a validation report, as SVG.

May import acceptance, metrics and observables. Start with figures.py.
"""
