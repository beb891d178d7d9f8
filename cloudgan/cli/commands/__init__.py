"""Commands that print more than one result: flags in, a call of the package of their noun, output.

Imports any package; `cli.program` imports each by name when it runs. Read `model.py` first.
"""
