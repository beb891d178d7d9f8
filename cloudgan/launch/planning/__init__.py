"""Planning: turns a request into a plan. Pure: no network, credentials or clock.

Imports cost, launch/clouds and lower layers. Read plan_builder.py first.
"""
