"""The adapter around python-fire, and the flag groups that commands share.

Imports `cloudgan.api` and lower packages, not `cli.commands`. Read `parsing.py` first.
"""
