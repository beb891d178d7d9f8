"""Operations: preflight checks, account setup, inventory, garbage collection, live tests, image builds.

Imports launch/provisioning, launch/clouds and lower layers. Read inventory.py first.
"""
