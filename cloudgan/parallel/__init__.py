"""Ranks that train one GAN: masters and workers (Downpour, EASGD, GEM) and groups of ranks.

May import ranks, training, validation, data, schema and core. Read `rank.py` first, then `update_rules.py`.
"""
