"""From a run configuration to a finished run on other machines: plan, provision, follow, delete.

May import cost, storage, schema and core; never TensorFlow. Start with plan/build.py, then
lifecycle/apply.py.
"""
