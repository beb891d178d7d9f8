"""Processes that are not one synchronous group: their world, how they start, and how they end.

Asynchronous training (`cloudgan.parallel`), grids of cells (`cloudgan.coevolution`) and the benchmarks of
the network run on it.
"""
