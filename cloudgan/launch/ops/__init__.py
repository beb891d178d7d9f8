"""Operations: preflight checks, account setup, inventory, garbage collection, live tests, image context.

Imports launch/provisioning, launch/clouds and lower layers. Read inventory.py first.
"""
