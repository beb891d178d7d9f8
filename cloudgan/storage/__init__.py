"""Stores for the files of a run: a folder, Cloud Storage, S3, Blob Storage; shard sets in a bucket.

May import `cloudgan.data.manifest`, `cloudgan.core` and, on use, one cloud's storage SDK.
Read `store.py` first: the interface, its errors, and `open_store`.
"""
