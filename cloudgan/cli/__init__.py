"""The command line: parsing, prompts and printing.

Imports any package; nothing imports it. Read `program.py` first, then a file of `commands/`.
"""
