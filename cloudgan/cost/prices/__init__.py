"""Price tables: node prices, fees, start-up times and accelerator specs, with source and date.

May import `storage`, `schema` and `core`. Read `catalog.py` first; README.md describes the CSV files.
"""
