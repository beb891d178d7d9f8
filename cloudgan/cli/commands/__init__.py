"""One file per command: flags in, a call of `cloudgan.api`, output.

Imports any package; `cli.program` imports each by name when it runs. Read `plan.py` first.
"""
