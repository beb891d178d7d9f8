"""Runs on Cloud TPU VMs, without Kubernetes: one slice per run, requested as a queued resource.

May import `launch.clouds.gcp`, `launch.kubernetes` and below. Read `requests`, then `backend`.
"""
