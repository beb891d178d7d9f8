"""Tables, pages, questions and progress bars that commands print.

Imports `cloudgan.api` and lower packages, not `cli.commands`. Read `output.py` first.
"""
