"""Simulation of showers: the parametric source (gflash.py) and Geant4 (geant4/).

May import data, schema and core. Start with gflash.py.
"""
