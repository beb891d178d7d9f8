"""GCP, AWS and Azure: one package per cloud, none imports another.

May import `launch.backends.tpu_vm`, `launch.kubernetes`, `storage` and below. Read `planner` first.
"""
