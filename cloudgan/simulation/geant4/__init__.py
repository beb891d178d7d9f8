"""Geant4 from the package geant4-pybind, without CERN's data files: the reference of every validation.

May import simulation, data and core. Start with production.py.
"""
