"""Azure: AKS clusters and their pools of GPU machines, Blob Storage, managed identities."""
