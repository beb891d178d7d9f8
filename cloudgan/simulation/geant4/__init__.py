"""Geant4 from the package geant4-pybind, without the data files of CERN: the reference of this program."""
