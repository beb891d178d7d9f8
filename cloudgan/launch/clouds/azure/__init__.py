"""Azure: AKS clusters with GPU node pools, Blob Storage, managed identities.

Imports launch/kubernetes and lower layers. Read planner.py, then client.py.
"""
