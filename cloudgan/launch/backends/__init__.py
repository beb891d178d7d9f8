"""Job backends: one package per way to run a plan; none imports another.

May import `cloudgan.launch.kubernetes`, `storage`, `schema` and `core`.
Read `job_backend.py` first: the interface that the lifecycle uses.
"""
