"""Cost of a run: line items, recommendations, carbon, forecast against actual.

May import `cost.estimation`, `cost.prices`, `schema` and `core`. Read `run_cost.py` first.
"""
