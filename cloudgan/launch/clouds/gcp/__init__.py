"""Google Cloud: GKE clusters and node pools, buckets, identities.

May import `launch.backends.tpu_vm` and what `launch.clouds` may. Read `planner`, then `client`.
"""
