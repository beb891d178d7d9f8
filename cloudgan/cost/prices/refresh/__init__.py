"""Current prices from the clouds' price APIs: the only part of `cost` that uses the network.

May import `cost.prices`, `schema` and `core`. Read `feeds.py` first; one module per cloud.
"""
