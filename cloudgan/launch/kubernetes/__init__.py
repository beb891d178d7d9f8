"""Kubernetes manifests, kubeconfig, API requests, and the state of a Job.

May import `cloudgan.schema` and `cloudgan.core`; the official client only on use.
Read `manifests.py` first.
"""
