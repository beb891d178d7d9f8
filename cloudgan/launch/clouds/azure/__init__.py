"""Azure: AKS clusters with GPU node pools, Blob Storage, managed identities, ACR image builds.

Imports launch/kubernetes, launch/container_registry and lower layers. Read planner.py, then client.py.
"""
