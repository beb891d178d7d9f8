"""Validation of generated showers against Monte Carlo: observables, metrics, acceptance gates, figures.

May import simulation, models, data, reports, schema and core. Start with acceptance/assess.py.
"""
