"""Cellular training of GANs: a grid of cells whose generators and discriminators compete.

Imports `ranks`, `training`, `validation` and lower packages. Read
`cell.py` first: one iteration of a cell.
"""
