"""The paper's runs (arXiv:2111.04628): published times, priced then and now, and compared.

May import `cost.prices`, `schema` and `core`. Read `runs.py` first; gcp.csv is described in README.md.
"""
