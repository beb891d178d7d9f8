"""Planning: turns a request into a plan. Pure: no network, credentials or clock.

Imports money, cost, launch/clouds and lower layers. Read launch_plan.py first.
"""
