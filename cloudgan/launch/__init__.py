"""From a run configuration to a finished run on other machines: plan, provision, follow, delete.

May import cost, storage, schema and core; never TensorFlow. Start with planning/plan_builder.py, then
provisioning/apply.py.
"""
