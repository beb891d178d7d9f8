"""Billing exports of the clouds: parsing, and reconciliation with the measured cost.

May import `cost.accounting`, `schema` and `core`. Read `reader.py` first, then `formats.py`.
"""
