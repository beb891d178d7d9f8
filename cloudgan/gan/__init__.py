"""Networks in Keras operations, which run on every Keras backend, and their CPU code (kernels/).

May import data, schema and core. Start with networks.py.
"""
