"""One file per command: flags in, a call of `cloudgan.api`, output.

Imports any package; `cli.main` imports it by name when a command runs. Read `plan.py` first.
"""
