"""What every other package uses: errors, settings, clock, atomic files, labels, the table of clouds.

Imports the standard library and pydantic only. Read errors.py first, then clouds.py.
"""
