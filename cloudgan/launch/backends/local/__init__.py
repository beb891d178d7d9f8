"""Job backend for this machine: one process per worker, without a cluster.

May import `cloudgan.launch.kubernetes`, `schema` and `core`.
Read `backend.py` first, then `supervisor.py`, the background process of a run.
"""
