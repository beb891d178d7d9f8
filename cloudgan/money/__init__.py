"""Money: price lists, one ledger for forecast, budget, report and shares, bills and advice.

Read `ledger.py` first, then `billing.py` (usage by launch.json), `forecast.py` (intended usage), `report.py`
(usage by the run record); `catalog.py` and `fees.py` read the price lists in `lists/`.
"""
