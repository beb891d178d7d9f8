"""Job backend for a Kubernetes cluster.

May import `cloudgan.launch.kubernetes`, `schema` and `core`.
Read `backend.py` first.
"""
