"""Where files of a run are kept: a folder, or a bucket of a cloud."""

from __future__ import annotations

from cloudgan.stores.opening import open_store
from cloudgan.stores.store import (
    BucketMissingError,
    ObjectExistsError,
    ObjectMissingError,
    Store,
    StoreError,
)

__all__ = [
    "BucketMissingError",
    "ObjectExistsError",
    "ObjectMissingError",
    "Store",
    "StoreError",
    "open_store",
]
