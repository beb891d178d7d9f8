"""Kubernetes: manifests as values, and a cluster's API as the official client reaches it."""
