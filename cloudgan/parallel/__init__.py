"""Ranks that train one GAN: masters and workers (Downpour, EASGD, GEM), groups, stages on devices.

May import: training, validation, models, data, schema, core; `communication` is the only importer of mpi4py.
Read first: layout.py (which rank does what), then update_rules.py.
"""
