"""Azure: AKS clusters with GPU node pools, Blob Storage, managed identities.

Imports launch/kubernetes, launch/container_registry and lower layers. Read planner.py, then client.py.
"""
