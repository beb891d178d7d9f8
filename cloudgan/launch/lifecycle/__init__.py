"""The lifecycle of a launched run: applies a plan, records what it created, monitors the run and destroys its resources.

Imports launch/clouds, launch/kubernetes and lower layers. Read apply.py first.
"""
