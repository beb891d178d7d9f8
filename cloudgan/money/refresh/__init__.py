"""Refresh of the price lists from the clouds: `feeds.py` first; one module per cloud."""
