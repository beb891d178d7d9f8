"""Cost of runs and estimates on other offers: arithmetic on dated prices, without network.

May import `storage`, `schema` and `core`; only `prices/refresh` uses the network. Read
`accounting/run_cost.py` first.
"""
